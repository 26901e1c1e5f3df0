/** A worker whose port is open for others' sake: a connection is refused when its server does not listen. */
import { once } from 'node:events';
import { createServer, get, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';

import test from 'ava';

import { ServerAgent } from '../../agent/runtimes/server/server-agent.ts';

test('a connection is made when the server listens, and refused when it does not, whatever accepts it', async (t) => {
  const server = createServer((_request, response) => response.end('here')).listen(0, '127.0.0.1');
  t.teardown(() => server.close());
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  let isRefused = false;
  const agent = new ServerAgent(() => isRefused);
  const [response] = (await once(get({ host: '127.0.0.1', port, agent }), 'response')) as [IncomingMessage];
  t.is(await text(response), 'here');
  let looks = 0;
  const late = new ServerAgent(() => (looks += 1) > 1);
  const [gone] = (await once(get({ host: '127.0.0.1', port, agent: late }), 'error')) as [NodeJS.ErrnoException];
  t.like(gone, { code: 'ECONNREFUSED' }, 'it stopped to listen after the first look');
  isRefused = true;
  const [error] = (await once(get({ host: '127.0.0.1', port, agent }), 'error')) as [NodeJS.ErrnoException];
  t.like(error, { code: 'ECONNREFUSED', message: `connect ECONNREFUSED 127.0.0.1:${port}` });
});
