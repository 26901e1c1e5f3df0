/** Workers that listen themselves: requests and connections are passed on to them. */
import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { join } from 'node:path';
import { promisify } from 'node:util';

import test from 'ava';
import { WebSocket } from 'undici';

import { until } from '../support/until.ts';
import { web } from './web.ts';

const { call, id, stack } = web(test, join(import.meta.dirname, 'app-server'));

test.serial('it is asked whether it is ready, and then gets whatever comes, as it comes', async (t) => {
  const body = randomBytes(2_000).toString('hex');
  const answer = await call('/any/path?x=1', { method: 'PATCH', body }, 'own');
  t.is(answer.status, 203);
  t.is(answer.headers['x-method'], 'PATCH');
  t.is(answer.headers['x-path'], '/any/path?x=1');
  t.true(Number(answer.headers['x-pings']) >= 3, 'twice it was initialising');
  t.is(answer.text, body);
});

test.serial('a WebSocket goes through', async (t) => {
  const url = `${stack().url.replace('http', 'ws')}/lb/${id('own')}/socket`;
  const socket = new WebSocket(url, { headers: { authorization: `Bearer ${stack().apiKey}` } });
  await new Promise((resolve, reject) => {
    socket.addEventListener('open', resolve);
    socket.addEventListener('error', () => reject(new Error('the WebSocket did not open')));
  });
  socket.send('over and back');
  const [event] = (await once(socket as unknown as NodeJS.EventEmitter, 'message')) as [{ data: unknown }];
  t.is(event.data, 'over and back');
  socket.close();
});

for (const [raw, detail] of [
  ['HTTP/1.1 099 Odd\r\nContent-Length: 0\r\n\r\n', 'the status of a response must be an integer from 200 to 599, not 99'],
  ['HTTP/1.1 200 OK\r\nX-Name: a\u0001b\r\nContent-Length: 0\r\n\r\n', 'Invalid header value char'],
  ['HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxy', 'Content-Length'],
  ['HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n', '101'],
  ['no HTTP at all\r\n\r\n', 'Expected HTTP/'],
] as const) {
  test.serial(`its response ${JSON.stringify(raw.slice(0, 30))}… is 500, with the reason in the endpoint's log`, async (t) => {
    const answer = await call(`/raw?${encodeURIComponent(raw)}`, {}, 'own');
    t.is(answer.status, 500);
    t.is(answer.json['error'], 'Internal Server Error');
    t.true(String(answer.json['detail']).includes(detail), answer.text);
    await until('the log has the reason', async () => {
      const logs = await stack().tool('logs', id('own'), '--limit', '1000');
      return logs.split('\n').some((line) => line.includes('the response to GET /raw is invalid') && line.includes(detail));
    });
    t.is((await call('/any', {}, 'own')).status, 203);
  });
}

const SENDER = `
import http.client, sys
host, path, key, close = sys.argv[1:]
for _ in range(6):
    connection = http.client.HTTPConnection(host, timeout=30)
    headers = {"authorization": "Bearer " + key, **({"connection": "close"} if close else {})}
    # It sends everything before it reads.
    connection.request("POST", path, b"x" * 8_000_000, headers)
    answer = connection.getresponse()
    print(answer.status, answer.read().decode())
    connection.close()
`;

for (const [caller, close] of [
  ['keeps its connection', ''],
  ['wants its connection closed', 'close'],
] as const) {
  test.serial(`an answer that does not wait for the body reaches a caller that sends everything first and ${caller}`, async (t) => {
    const args = ['-c', SENDER, new URL(stack().url).host, `/lb/${id('own')}/early`, stack().apiKey, close];
    const { stdout } = await promisify(execFile)('python3', args);
    t.is(stdout, '413 too large\n'.repeat(6));
  });
}

test.serial('an answer that does not wait for the body reaches a caller that reads while it sends', async (t) => {
  for (let count = 0; count < 12; count += 1) {
    const answer = await call('/early', { method: 'POST', body: 'x'.repeat(3_000_000) }, 'own');
    t.deepEqual([answer.status, answer.text], [413, 'too large']);
  }
});

test.serial('a WebSocket without a key is refused', async (t) => {
  const socket = new WebSocket(`${stack().url.replace('http', 'ws')}/lb/${id('own')}/socket`);
  await t.throwsAsync(
    new Promise((resolve, reject) => {
      socket.addEventListener('open', resolve);
      socket.addEventListener('error', () => reject(new Error('refused')));
    }),
    { message: 'refused' },
  );
});

test.serial('when it ends the request that it had is 500; those that come wait until it is started again', async (t) => {
  t.is((await call('/exit', {}, 'own')).status, 500);
  const next = await Promise.all(['GET', 'POST', 'GET', 'DELETE'].map((method) => call('/again', { method }, 'own')));
  t.deepEqual(
    next.map(({ status }) => status),
    [203, 203, 203, 203],
  );
});
