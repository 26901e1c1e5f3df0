/** Load-balanced endpoints whose functions are in Python: the same semantics (test/lb/requests.test.ts). */
import { randomBytes } from 'node:crypto';
import { join } from 'node:path';

import test from 'ava';
import { request } from 'undici';

import { until } from '../support/until.ts';
import { web } from './web.ts';

const { call, id, stack } = web(test, join(import.meta.dirname, 'app-python'));

test('keys of a JSON body, values of the path and of the query are the parameters of the function', async (t) => {
  t.deepEqual((await call('/hello', { method: 'POST', body: '{"name":"Ada"}' })).json, { hello: 'Ada', times: 1 });
  t.deepEqual((await call('/hello?times=3', { method: 'POST', body: '{"name":"Ada"}' })).json, { hello: 'Ada', times: 3 });
  t.deepEqual((await call('/items/7?verbose=true')).json, { id: 7, verbose: true });
  t.deepEqual((await call('/search?q=a%20b&tags=x&tags=y')).json, { q: 'a b', tags: ['x', 'y'] });
  t.is((await call('/later?value=1.5')).text, '1.5');
});

for (const [what, path, body, detail] of [
  ['a parameter that is not given', '/hello', '{}', 'name: is required'],
  ['a value of another type', '/hello', '{"name":1}', 'name: must be a string'],
  ['a whole number that is none', '/hello', '{"name":"a","times":1.5}', 'times: must be an integer'],
  ['a key that is no parameter', '/hello', '{"name":"a","nam":1}', 'nam: is not a parameter of this route; it takes name, times'],
  ['a body that is not JSON', '/hello', '{', 'body: must be JSON'],
  ['a body that is no object', '/hello', '[]', 'body: must be a JSON object whose keys are the parameters'],
] as const) {
  test(`${what}: 400 names it`, async (t) => {
    const answer = await call(path, { method: 'POST', body });
    t.is(answer.status, 400);
    t.deepEqual(answer.json, { error: 'Bad Request', detail });
  });
}

for (const [how, reason] of [
  ['value', 'the value of the header "x-name" has characters that are not allowed'],
  ['split', 'the value of the header "x-name" has characters that are not allowed'],
  ['length', 'the response body has 1 bytes, but its content-length is 5'],
  ['99', 'the status of a response must be an integer from 200 to 599, not 99'],
  ['99999', 'the status of a response must be an integer from 200 to 599, not 99999'],
  ['-1', 'the status of a response must be an integer from 200 to 599, not -1'],
] as const) {
  test(`an invalid response (${how}) is 500, with the reason in the endpoint's log`, async (t) => {
    const answer = await call(`/invalid?how=${how}`);
    t.is(answer.status, 500);
    t.is(answer.json['error'], 'Internal Server Error');
    t.true(String(answer.json['detail']).startsWith(reason), answer.text);
    await until('the log has the reason', async () => {
      const logs = await stack().tool('logs', id('web'), '--limit', '1000');
      return logs.includes(`the response to GET /invalid is invalid: ${reason}`);
    });
    t.is((await call('/hello', { method: 'POST', body: '{"name":"Ada"}' })).status, 200);
  });
}

test('an error in the function is 500, without its stack', async (t) => {
  const answer = await call('/boom');
  t.is(answer.status, 500);
  t.deepEqual(answer.json, { error: 'Internal Server Error', detail: 'it broke' });
});

test('generators stream, asynchronous ones too; bytes and responses are as they are', async (t) => {
  t.is((await call('/count?to=2')).text, '{"n":1}\n{"n":2}\n');
  t.is((await call('/later-count?to=2', { headers: { accept: 'text/event-stream' } })).text, 'data: {"n":1}\n\ndata: {"n":2}\n\n');
  t.is((await call('/octets')).headers['content-type'], 'application/octet-stream');
  const plain = await call('/plain');
  t.is(plain.status, 418);
  t.is(plain.text, 'short and stout');
});

test('bodies pass as they come', async (t) => {
  const body = randomBytes(3_000_000);
  const { port } = new URL(stack().url);
  const headers = { host: `${id('web')}.lb.localhost:${port}`, authorization: `Bearer ${stack().apiKey}`, 'content-type': 'image/x' };
  const answer = await request(`${stack().url}/echo`, { method: 'PUT', headers, body });
  t.is(answer.statusCode, 201);
  t.is(answer.headers['x-method'], 'PUT');
  t.true(Buffer.from(await answer.body.arrayBuffer()).equals(body));
});

test('an answer that does not wait for the body reaches the caller', async (t) => {
  for (let count = 0; count < 6; count += 1) {
    const answer = await call('/early', { method: 'POST', body: Buffer.alloc(8_000_000) });
    t.deepEqual([answer.status, answer.text], [413, 'too large']);
  }
});
