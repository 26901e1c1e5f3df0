/** Web applications and programs under `capstan run`: whole requests, WebSockets, changes, and what does not load. */
import { mkdir, realpath, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { join } from 'node:path';

import test from 'ava';

import { run } from '../cli/fakes/run.ts';
import { folderOf } from '../support/folder.ts';
import { processesOf } from '../support/processes.ts';
import { until } from '../support/until.ts';

const bin = join(import.meta.dirname, '../../cli/main.ts');

const WEB = `import { endpoint } from '@capstan/sdk';
import { createServer } from 'node:http';

enum Word { Hello = 'hello' }
const app = createServer((request, response) => {
  request.pipe(response.writeHead(201, { 'x-path': request.url ?? '', 'x-word': Word.Hello }));
});
app.on('upgrade', (_request, socket) => {
  socket.write('HTTP/1.1 101 Switching Protocols\\r\\nConnection: Upgrade\\r\\nUpgrade: websocket\\r\\n\\r\\n');
  socket.pipe(socket);
});
export default endpoint({ name: 'web', app });
`;

const PROGRAM = `import os
from http.server import BaseHTTPRequestHandler, HTTPServer

import part

class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write((part.word + " " + self.path).encode())

HTTPServer((os.environ["CAPSTAN_HOST"], int(os.environ["PORT"])), Handler).serve_forever()
`;

test('web servers get whole requests and follow changes', async (t) => {
  const root = await realpath(await folderOf(t));
  const folder = join(root, 'project');
  const files = {
    'web.ts': WEB,
    'shop/server.py': PROGRAM,
    'part.py': 'word = "old"\n',
    'declared.py': 'from capstan import Endpoint\n\nEndpoint(name="shop", command=["python3", "shop/server.py"])\n',
  };
  await mkdir(join(folder, 'shop'), { recursive: true });
  for (const [path, text] of Object.entries(files)) await writeFile(join(folder, path), text);
  const server = run([bin, 'run', '--port', '0'], { cwd: folder, env: { TMPDIR: root } });
  t.teardown(() => server.child.kill('SIGKILL'));
  const [, base = '', port = ''] = await server.hear(/development server: (http:\/\/localhost:(\d+))/);

  const echoed = await fetch(`${base}/lb/web/a/b?c=1`, { method: 'POST', body: 'the body' });
  t.deepEqual([echoed.status, echoed.headers.get('x-path'), echoed.headers.get('x-word')], [201, '/a/b?c=1', 'hello']);
  t.is(await echoed.text(), 'the body');
  t.is((await fetch(`${base}/web/short`)).headers.get('x-path'), '/short');
  t.is(await (await fetch(`${base}/lb/shop/x`)).text(), 'old /x');
  t.is((await fetch(`${base}/v2/web/health`)).status, 404, 'it has no queue');

  /** What comes back on a raw connection. */
  const raw = async (head: string, more: string, isEnough: (text: string) => boolean): Promise<string> =>
    new Promise((resolve, reject) => {
      const socket = connect(Number(port), '127.0.0.1');
      let text = '';
      socket.setEncoding('utf8').on('data', (data: string) => {
        text += data;
        if (text.includes('\r\n\r\n') && more !== '') socket.write(more);
        more = '';
        if (isEnough(text)) socket.destroy();
      });
      socket.once('error', reject).once('close', () => resolve(text));
      socket.write(head);
    });
  const upgrade = (host: string, origin = ''): string =>
    `GET /lb/web/ws HTTP/1.1\r\nHost: ${host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n${origin}\r\n`;
  t.regex(await raw(upgrade('localhost'), 'ping', (text) => text.endsWith('ping')), /^HTTP\/1\.1 101 [\s\S]*ping$/);
  t.regex(await raw(upgrade('localhost', 'Origin: https://evil.example\r\n'), '', () => false), /^HTTP\/1\.1 403 /);
  t.regex(await raw(upgrade('evil.example'), '', () => false), /^HTTP\/1\.1 403 /);
  const own = 'GET /root HTTP/1.1\r\nHost: web.localhost\r\nConnection: close\r\n\r\n';
  t.regex(await raw(own, '', () => false), /^HTTP\/1\.1 201 [\s\S]*x-path: \/root/i);

  await writeFile(join(folder, 'part.py'), 'word = "new"\n');
  await until('the change is served', async () => (await (await fetch(`${base}/lb/shop/x`)).text()) === 'new /x');
  await writeFile(join(folder, 'web.ts'), WEB.replace('const app', "throw new Error('no luck');\nconst app"));
  await until('the error is shown', async () => (await fetch(`${base}/lb/web/`)).status === 500);
  await server.hear(/✗ web\.ts:5: web failed to load: /);
  t.is((await fetch(`${base}/lb/shop/y`)).status, 200, 'others are served');

  server.child.kill('SIGTERM');
  t.is(await server.ended, 0, server.stderr());
  t.deepEqual(processesOf(root), []);
});
