/** Debugging under `capstan run`: breakpoint() on the server's terminal, and debuggers that attach. */
import { spawn } from 'node:child_process';
import { mkdir, realpath, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import test, { type ExecutionContext } from 'ava';

import { folderOf } from '../support/folder.ts';
import { processesOf } from '../support/processes.ts';
import { until } from '../support/until.ts';
import { run, shared } from './fakes/run.ts';

const bin = join(import.meta.dirname, '../../cli/main.ts');
const headers = { 'content-type': 'application/json' };

async function projectOf(t: ExecutionContext, files: Readonly<Record<string, string>>): Promise<{ root: string; folder: string }> {
  const root = await realpath(await folderOf(t));
  const folder = join(root, 'project');
  await mkdir(folder);
  for (const [path, text] of Object.entries(files)) await writeFile(join(folder, path), text);
  return { root, folder };
}

const PYTHON = `from capstan import Endpoint

@Endpoint(name="sum", execution_timeout_ms=5000)
def total(a: int, b: int):
    both = a + b
    breakpoint()
    both += 1
    return both

@Endpoint(name="other")
def other():
    return "served"
`;

test('breakpoint() reads the terminal of the server; others are served, and wait for it in order', async (t) => {
  const { root, folder } = await projectOf(t, { 'api.py': PYTHON });
  const child = spawn(process.execPath, [bin, 'run', '--port', '0'], {
    cwd: folder,
    env: { ...shared, HOME: process.env['HOME'], NO_COLOR: '1', TMPDIR: root },
    stdio: ['pipe', 'ignore', 'pipe'],
  });
  t.teardown(() => child.kill('SIGKILL'));
  const ended = new Promise((resolve) => child.once('exit', resolve));
  let said = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => (said += text));
  const heard = async (pattern: RegExp): Promise<RegExpExecArray> =>
    until(`it says ${String(pattern)}`, () => {
      const found = pattern.exec(said);
      if (found !== null) said = said.slice(found.index + found[0].length);
      return found;
    });
  const [, base = ''] = await heard(/development server: (http:\/\/localhost:\d+)/);
  const call = async (name: string, input: object): Promise<unknown> =>
    (await fetch(`${base}/v2/${name}/runsync`, { method: 'POST', headers, body: JSON.stringify({ input }) })).json();

  const first = call('sum', { a: 1, b: 2 });
  await heard(/sum stopped at breakpoint\(\) in .*api\.py:6; pdb is attached to this terminal/);
  await heard(/\(Pdb\) $/);
  t.like(await call('other', {}), { output: 'served' });
  child.stdin.write('p both\n');
  await heard(/\n?3\n\(Pdb\) $/);
  child.stdin.write('both = 40\n');
  await heard(/\(Pdb\) $/);
  child.stdin.write('n\n');
  await heard(/both \+= 1|return both/);
  child.stdin.write('c\n');
  t.like(await first, { status: 'COMPLETED', output: 41 });
  await heard(/sum continues/);

  // Stepping ends with the function.
  const second = call('sum', { a: 1, b: 1 });
  await heard(/\(Pdb\) $/);
  child.stdin.write('n\n');
  await heard(/\(Pdb\) $/);
  child.stdin.write('n\n');
  await heard(/--Return--[\s\S]*\(Pdb\) $/);
  child.stdin.write('n\n');
  t.like(await second, { status: 'COMPLETED', output: 3 });

  const third = call('sum', { a: 1, b: 1 });
  await heard(/\(Pdb\) $/);
  child.stdin.write('q\n');
  t.like(await third, { status: 'FAILED' });

  child.stdin.end();
  const last = call('sum', { a: 2, b: 2 });
  t.like(await last, { status: 'COMPLETED', output: 5 }, 'without a terminal it goes on');
  child.kill('SIGINT');
  t.is(await ended, 0);
  t.deepEqual(processesOf(root), []);
});

test('--inspect opens the debugger of each worker', async (t) => {
  const web = `import { endpoint } from '@capstan/sdk';\nexport const hello = endpoint({ name: 'hello' }, () => 'hi');\n`;
  const debugpy = 'def listen(address):\n    return (address[0], 4711)\n';
  const { root, folder } = await projectOf(t, { 'web.ts': web, 'api.py': PYTHON });
  await mkdir(join(root, 'modules'));
  await writeFile(join(root, 'modules/debugpy.py'), debugpy);
  const env = { TMPDIR: root, PYTHONPATH: join(root, 'modules') };
  const server = run([bin, 'run', '--port', '0', '--inspect'], { cwd: folder, env });
  t.teardown(() => server.child.kill('SIGKILL'));
  const [, address = ''] = await server.hear(/hello \| Debugger listening on ws:\/\/(127\.0\.0\.1:\d+)\//);
  const targets = (await (await fetch(`http://${address}/json/list`)).json()) as unknown[];
  t.is(targets.length, 1);
  await server.hear(/debugger listening on 127\.0\.0\.1:4711 \(debugpy\)/);
  server.child.kill('SIGTERM');
  t.is(await server.ended, 0, server.stderr());
  t.deepEqual(processesOf(root), []);

  const refused = run([bin, 'run', '--inspect', 'x1'], { cwd: folder });
  t.is(await refused.ended, 2, refused.stderr());
  t.regex(refused.stderr(), /--inspect: must be a port number/);
});
