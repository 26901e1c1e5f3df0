/** Workers that listen themselves (WIRE.md section 4): requests and connections are passed on to them. */
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { join } from 'node:path';

import test from 'ava';
import { WebSocket } from 'undici';

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

test.serial('when it ends the request that it had is 502; those that come wait until it is started again', async (t) => {
  t.is((await call('/exit', {}, 'own')).status, 502);
  const next = await Promise.all(['GET', 'POST', 'GET', 'DELETE'].map((method) => call('/again', { method }, 'own')));
  t.deepEqual(
    next.map(({ status }) => status),
    [203, 203, 203, 203],
  );
});
