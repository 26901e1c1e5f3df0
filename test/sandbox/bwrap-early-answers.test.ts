/** A server that answers from the headers alone and closes: its answer arrives, also through the network `outbound`. */
import { rm } from 'node:fs/promises';

import test from 'ava';

import { ProxiedRequest } from '../../agent/runtimes/server/proxied-request.ts';
import { ServerAgent } from '../../agent/runtimes/server/server-agent.ts';
import type { NetworkOptions } from '../../agent/sandbox/bwrap/open-sandbox.ts';
import { folderOf } from '../support/folder.ts';
import { freePort } from '../support/free-port.ts';
import { ownFolder } from '../support/own-folder.ts';
import { openTestSandbox } from '../support/sandbox.ts';

const OUTBOUND: NetworkOptions = { setting: 'auto', allowed: [], spares: 1 };
const tried = await ownFolder('capstan-early');
const { launcher: first, networks = [], missing } = await openTestSandbox(tried, { spares: false, network: OUTBOUND });
await first?.close();
await rm(tried, { recursive: true, force: true });
const works = networks.includes('outbound');
const networkTest = works ? test : test.skip;
const reason = works ? '' : ` (skipped: ${missing.map((each) => each.reason).join('; ') || 'no sandbox'})`;

const SERVER = `
const { createServer } = require('node:net');
createServer((socket) => {
  let head = '';
  const read = (bytes) => {
    head += bytes.toString('latin1');
    if (!head.includes('\\r\\n\\r\\n')) return;
    socket.off('data', read).pause();
    socket.write('HTTP/1.1 413 Payload Too Large\\r\\nContent-Length: 9\\r\\nConnection: close\\r\\n\\r\\ntoo large', () => socket.destroy());
  };
  socket.on('data', read).on('error', () => undefined);
}).listen(Number(process.argv[1]), '127.0.0.1', () => console.log('up'));`;

const PART = Buffer.alloc(64 * 1024);

networkTest(`an answer before the body reaches the caller through pasta${reason}`, async (t) => {
  const { launcher } = await openTestSandbox(await folderOf(t), { spares: false, network: OUTBOUND });
  if (launcher === undefined) throw new Error('the sandbox worked a moment ago');
  t.teardown(() => launcher.close());
  launcher.setGateway('');
  const port = await freePort();
  const server = launcher.launch({
    kind: 'program',
    command: 'node',
    args: ['-e', SERVER, String(port)],
    env: launcher.environmentOf({}),
    assignment: {
      workerId: 'w',
      folder: '',
      workFolder: '/work',
      deviceUuids: [],
      memoryBytes: 0,
      cpuMillis: 0,
      network: 'outbound',
    },
    ports: { reached: [], published: [port] },
  });
  await new Promise((resolve) => server.stdout?.once('data', resolve));
  const isRefused = (): boolean => server.listens?.(port) === false;
  const outcomes: string[] = [];
  for (let n = 0; n < 40; n += 1) {
    outcomes.push(
      await new Promise<string>((resolve) => {
        let status = 0;
        let parts = 128;
        const request: ProxiedRequest = new ProxiedRequest(
          { host: '127.0.0.1', port, healthPort: port },
          {
            function: '',
            method: 'POST',
            url: 'http://h.test/',
            headers: [['content-length', String(parts * PART.length)]],
            pathValues: {},
            body: n % 2 === 0 ? Buffer.alloc(0) : Buffer.alloc(PART.length),
            ended: false,
          },
          {
            head: (code) => (status = code),
            body: (bytes, ended) => {
              if (ended) resolve(`${status}`);
            },
            credit: () => push(),
            failed: (_code, message) => resolve(status === 0 ? message : `${status}, then ${message}`),
          },
          {
            agent: new ServerAgent(isRefused),
            isRefused,
            onRefused: () => undefined,
            onInvalid: (line) => t.fail(line),
            holdMs: 20_000,
            workerEndOf: () => undefined,
            onOver: () => undefined,
          },
        );
        if (n % 2 === 1) parts -= 1;
        const push = (): void => {
          if (parts > 0) request.body(PART, (parts -= 1) === 0);
        };
        push();
        push();
      }),
    );
  }
  t.deepEqual([...new Set(outcomes)], ['413'], JSON.stringify(outcomes));
  server.kill();
  await server.gone;
});
