/** Servers of users that send what is costly to read: the agent's time for them is their account's. */
import { once } from 'node:events';
import { createServer, type Socket } from 'node:net';

import test, { type ExecutionContext } from 'ava';
import { pino } from 'pino';
import { request } from 'undici';

import { ReadingShares, type ReadingShare } from '../../agent/runtimes/reading-shares.ts';
import { checkServer } from '../../agent/runtimes/server/health-check.ts';
import { ProxiedRequest } from '../../agent/runtimes/server/proxied-request.ts';
import { ServerAgent } from '../../agent/runtimes/server/server-agent.ts';
import type { Reach } from '../../agent/runtimes/server/site.ts';
import { WorkerApi } from '../../agent/worker-api/server.ts';

const INFORMATION = 'HTTP/1.1 103 Early Hints\r\n\r\n';
const HEAD = 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n';
const CHUNK = '1\r\nx\r\n';

/** A server that sends `head` and then `unit` for as long as its caller reads. */
async function flood(t: ExecutionContext, head: string, unit: string): Promise<{ reach: Reach; closed: Promise<void> }> {
  const sockets = new Set<Socket>();
  const { promise: closed, resolve } = Promise.withResolvers<void>();
  const bytes = Buffer.from(unit.repeat(Math.ceil(65_536 / unit.length)));
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => undefined).once('close', resolve);
    socket.once('data', () => {
      socket.write(head);
      const write = (): void => {
        if (!socket.destroyed) socket.write(bytes, write);
      };
      write();
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  const address = server.address();
  const port = typeof address === 'object' && address !== null ? address.port : 0;
  return { reach: { host: '127.0.0.1', port, healthPort: port }, closed };
}

/** A share, and a promise of the moment in which it is used up. */
function watched(): { share: ReadingShare; usedUp: Promise<void> } {
  const shares = new ReadingShares();
  shares.of('other').add({ pause: () => undefined, resume: () => undefined });
  const share = shares.of('account');
  const { promise: usedUp, resolve } = Promise.withResolvers<void>();
  share.add({ pause: resolve, resume: () => undefined });
  return { share, usedUp };
}

function get(reach: Reach, share: ReadingShare): { request: ProxiedRequest; failed: Promise<string> } {
  const { promise: failed, resolve } = Promise.withResolvers<string>();
  const call: ProxiedRequest = new ProxiedRequest(
    reach,
    { function: '', method: 'GET', url: 'http://host.test/', headers: [], pathValues: {}, body: Buffer.alloc(0), ended: true },
    {
      head: () => undefined,
      body: (bytes) => call.credit(bytes.length),
      credit: () => undefined,
      failed: (_code, message) => resolve(message),
    },
    {
      agent: new ServerAgent(
        () => false,
        () => share,
      ),
      isRefused: () => false,
      onRefused: () => undefined,
      onInvalid: () => undefined,
      holdMs: 0,
      workerEndOf: () => undefined,
      onOver: () => undefined,
    },
  );
  return { request: call, failed };
}

test('a response in chunks of one byte is read within the share of its account', async (t) => {
  const { reach, closed } = await flood(t, HEAD, CHUNK);
  const { share, usedUp } = watched();
  const { request: call } = get(reach, share);
  await usedUp;
  call.abort();
  await closed;
  t.is(share.size, 1, 'its connection is no longer among the sources');
});

test('a server that sends informational responses without end fails its request', async (t) => {
  const { reach, closed } = await flood(t, '', INFORMATION);
  const { failed } = get(reach, watched().share);
  t.regex(await failed, /more than 32 informational responses/);
  await closed;
});

test('a check of a server reads no more of its answer than a check needs', async (t) => {
  const endless = await flood(t, HEAD, CHUNK);
  t.deepEqual(await checkServer(endless.reach, watched().share), { kind: 'status', status: 200 });
  await endless.closed;
  const informing = await flood(t, '', INFORMATION);
  const { kind } = await checkServer(informing.reach, watched().share);
  t.is(kind, 'connected');
  await informing.closed;
});

test('calls of the worker API count for the share of the account, and go on in the next window', async (t) => {
  const api = await WorkerApi.start({ host: '127.0.0.1', port: 0, log: pino({ level: 'silent' }) });
  t.teardown(() => api.close());
  const { share, usedUp } = watched();
  const unexpected = (): never => t.fail();
  const mailbox = { take: unexpected, stops: unexpected, post: unexpected, refuse: unexpected, chunk: unexpected, ping: () => undefined };
  const { token } = api.admit('w1', 'ep1', mailbox, share);
  const ping = async (): Promise<void> => {
    const headers = { authorization: `Bearer ${token}` };
    const { body, statusCode } = await request(`http://127.0.0.1:${api.port}/v2/ep1/ping/w1`, { headers });
    await body.dump();
    t.is(statusCode, 200);
  };
  await ping();
  t.true(share.used > 0 && share.size > 1, 'the connection is one of the sources');
  // Whatever the calls before have used: the next one is too much.
  share.charge(1_000);
  await usedUp;
  await ping();
});
