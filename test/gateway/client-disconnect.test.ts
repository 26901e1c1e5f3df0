/** The end of responses: each callback once, and no listener that stays on a connection. */
import { Agent, createServer, get, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { once } from 'node:events';

import test, { type ExecutionContext } from 'ava';
import type { FastifyReply } from 'fastify';

import { onResponseClosed } from '../../gateway/http/client-disconnect.ts';
import { RawConnection } from './harness.ts';

type Handler = (request: IncomingMessage, response: ServerResponse, watch: (over: () => void) => void) => void;

/** A server whose handler may watch its responses. */
async function serve(t: ExecutionContext, handler: Handler): Promise<string> {
  const server = createServer((request, response) => {
    const reply = { raw: response, request: { raw: request } } as unknown as FastifyReply;
    handler(request, response, (over) => onResponseClosed(reply, over));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

test('a kept connection has as many listeners after many requests as after one', async (t) => {
  const listeners: number[] = [];
  const ports = new Set<number | undefined>();
  let over = 0;
  const url = await serve(t, ({ socket }, response, watch) => {
    listeners.push(socket.eventNames().reduce((sum, name) => sum + socket.listenerCount(name), 0));
    ports.add(socket.remotePort);
    for (let i = 0; i < 3; i++) watch(() => (over += 1));
    response.end('x');
  });
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  t.teardown(() => agent.destroy());
  for (let i = 0; i < 30; i++) {
    const [response] = (await once(get(url, { agent }), 'response')) as [IncomingMessage];
    response.resume();
    await once(response, 'end');
  }
  t.is(ports.size, 1);
  t.is(over, 90);
  t.is(new Set(listeners.slice(1)).size, 1, listeners.join(' '));
});

test('the end of a connection ends every response on it, those behind another included, once', async (t) => {
  const over: string[] = [];
  const begun = Promise.withResolvers<void>();
  const ended = Promise.withResolvers<void>();
  const open: ServerResponse[] = [];
  const url = await serve(t, ({ url: path = '' }, response, watch) => {
    open.push(response);
    for (const part of ['first', 'second'])
      watch(() => {
        over.push(`${path} ${part}`);
        if (over.length === 6) ended.resolve();
      });
    if (open.length === 3) begun.resolve();
  });
  const raw = new RawConnection(t, url);
  for (const path of ['/a', '/b', '/c']) raw.write(`GET ${path} HTTP/1.1\r\nHost: x\r\n\r\n`);
  await begun.promise;
  raw.socket.destroy();
  await ended.promise;
  for (const response of open) response.end('late');
  await new Promise((resolve) => setImmediate(resolve));
  t.deepEqual(over, ['/a first', '/a second', '/b first', '/b second', '/c first', '/c second']);
});

test('who watches a response whose connection is gone is called at once', async (t) => {
  const called = Promise.withResolvers<boolean>();
  const url = await serve(t, ({ socket }, _response, watch) => {
    socket.once('close', () => {
      let isCalled = false;
      watch(() => (isCalled = true));
      called.resolve(isCalled);
    });
    socket.destroy();
  });
  new RawConnection(t, url).write('GET / HTTP/1.1\r\nHost: x\r\n\r\n');
  t.true(await called.promise);
});
