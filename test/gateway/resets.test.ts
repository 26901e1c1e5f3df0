/** Connections that a stranger resets while they are answered: none ends the gateway. */
import { once } from 'node:events';
import { connect } from 'node:net';

import test from 'ava';

import { setup } from './harness.ts';

const ATTEMPTS = 200;
const heads = {
  'a refused upgrade': 'GET /v2/x/run HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n',
  'an upgrade without a host': 'GET / HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n',
  CONNECT: 'CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n',
  'what is not HTTP': 'nonsense\r\n\r\n',
} as const;

for (const [name, head] of Object.entries(heads)) {
  test(`a connection with ${name} may be reset at any moment`, async (t) => {
    const { gateway } = await setup(t);
    const { hostname, port } = new URL(gateway.url);
    for (let attempt = 0; attempt < ATTEMPTS; attempt += 1) {
      const socket = connect(Number(port), hostname);
      socket.on('error', () => undefined);
      await once(socket, 'connect');
      socket.write(head);
      // Before the answer, while it is written, and after it.
      if (attempt % 3 === 1) await new Promise((resolve) => setImmediate(resolve));
      if (attempt % 3 === 2) await once(socket, 'data');
      const closed = once(socket, 'close');
      socket.resetAndDestroy();
      await closed;
    }
    t.is((await fetch(`${gateway.url}/healthz`)).status, 200);
  });
}
