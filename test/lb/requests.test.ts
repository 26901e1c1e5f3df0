/** Load-balanced endpoints from outside. */
import { randomBytes } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { join } from 'node:path';

import test from 'ava';
import { request } from 'undici';

import { readConfig } from '../../gateway/config.ts';
import { start as startGateway } from '../../gateway/assembly/start.ts';
import { until } from '../support/until.ts';
import { storedLog } from '../support/worker-logs.ts';
import { web } from './web.ts';

const { call, id, stack } = web(test);

test('the first request starts a worker and is answered by it', async (t) => {
  const { status, json, headers } = await call('/health');
  t.is(status, 200);
  t.deepEqual(json, { status: 'ok' });
  t.is(headers['content-type'], 'application/json; charset=utf-8');
});

test('an endpoint is reached by its host and by a path', async (t) => {
  const answer = await stack().call(`/lb/${id('web')}/items/3?verbose=true`);
  t.deepEqual(await answer.json(), { id: 3, verbose: true });
});

test('keys of a JSON body, values of the path and of the query are the parameters of the function', async (t) => {
  t.deepEqual((await call('/hello', { method: 'POST', body: '{"name":"Ada"}' })).json, { hello: 'Ada', times: 1 });
  t.deepEqual((await call('/hello?times=3', { method: 'POST', body: '{"name":"Ada"}' })).json, { hello: 'Ada', times: 3 });
  t.deepEqual((await call('/items/7')).json, { id: 7, verbose: false });
  t.deepEqual((await call('/items/7?verbose=1', { method: 'DELETE' })).json, { id: 7, verbose: true });
  t.deepEqual((await call('/search?q=a%20b&tags=x&tags=y')).json, { q: 'a b', tags: ['x', 'y'] });
});

test('an answer does not wait for a function that begins with it and computes for long', async (t) => {
  const { hostname, port } = new URL(stack().url);
  const file = join(stack().scratch, 'busy');
  const head = `HTTP/1.1\r\nhost: ${id('web')}.lb.localhost\r\nauthorization: Bearer ${stack().apiKey}\r\n\r\n`;
  const socket = connect(Number(port), hostname);
  t.teardown(() => socket.destroy());
  let text = '';
  socket.on('data', (data) => (text += data.toString()));
  socket.write(`GET /health ${head}GET /busy?file=${encodeURIComponent(file)} ${head}`);
  await until('the first answer is here', () => text.includes('{"status":"ok"}'));
  await writeFile(file, '');
  await until('the second answer is here', () => text.includes('"came"'));
  t.true(text.includes('{"came":true}'));
});

const refusals: readonly [string, string, { method?: string; body?: string; key?: string | null }, number, string, string][] = [
  ['a parameter that is not given', '/hello', { method: 'POST', body: '{}' }, 400, 'Bad Request', 'name: is required'],
  ['a value of another type', '/hello', { method: 'POST', body: '{"name":1}' }, 400, 'Bad Request', 'name: must be a string'],
  [
    'a key that is no parameter',
    '/hello',
    { method: 'POST', body: '{"name":"a","nam":1}' },
    400,
    'Bad Request',
    'nam: is not a parameter of this route; it takes name, times',
  ],
  ['a body that is not JSON', '/hello', { method: 'POST', body: '{' }, 400, 'Bad Request', 'body: must be JSON'],
  [
    'a body that is no object',
    '/hello',
    { method: 'POST', body: '[]' },
    400,
    'Bad Request',
    'body: must be a JSON object whose keys are the parameters',
  ],
  ['a value of the path of another type', '/items/x', {}, 400, 'Bad Request', 'id: must be a number'],
  ['a value of the query of another type', '/items/1?verbose=maybe', {}, 400, 'Bad Request', 'verbose: must be a boolean'],
  ['no key', '/health', { key: null }, 401, 'Unauthorized', 'the header Authorization is required; send Authorization: Bearer <API_KEY>'],
  ['an unknown key', '/health', { key: 'wrong' }, 401, 'Unauthorized', 'the API key is unknown or revoked'],
  ['an unknown route', '/nothing', {}, 404, 'Not Found', 'the endpoint has no route "/nothing"'],
  ['another method', '/hello', {}, 405, 'Method Not Allowed', 'GET is not allowed here; use POST'],
  ['an error in the function', '/boom', {}, 500, 'Internal Server Error', 'it broke'],
];
for (const [what, path, options, status, error, detail] of refusals) {
  test(`${what}: ${status} with error and detail`, async (t) => {
    const answer = await call(path, options);
    t.is(answer.status, status);
    t.deepEqual(answer.json, { error, detail });
  });
}

test('405 names the methods of the path, 401 how to show a key', async (t) => {
  t.is((await call('/echo')).headers['allow'], 'POST, PUT, PATCH');
  t.is((await call('/health', { key: null })).headers['www-authenticate'], 'Bearer');
});

test('an unknown endpoint is not found, and one with a queue says where that is', async (t) => {
  t.deepEqual((await call('/', {}, 'nothing')).json, { error: 'Not Found', detail: 'endpoint "nothing" does not exist' });
});

test('the stack of an error is in the log of the endpoint, and not in the answer', async (t) => {
  await call('/boom');
  const log = await until('the log has the stack', async () => {
    const answer = await stack().call(`/v2/${id('web')}/health`);
    t.is(answer.status, 404);
    const text = await storedLog(join(stack().dataDir, 'agent/logs'), id('web'));
    return text.includes('at boom') ? text : null;
  });
  t.true(log.includes('Error: it broke'));
});

test('logs are searched over HTTP, page by page, and followed', async (t) => {
  await call('/boom');
  const logs = (query: string, init: RequestInit = {}): Promise<Response> => stack().call(`/v2/${id('web')}/logs?${query}`, init);
  const rows = (body: string): { text: string; stream: string; release: string | null }[] =>
    body
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line) as { text: string; stream: string; release: string | null });
  const found = await until('the search finds the stack', async () => {
    const answer = await logs('pattern=Error:%20it%20b.oke');
    t.is(answer.status, 200);
    t.is(answer.headers.get('content-type'), 'application/x-ndjson; charset=utf-8');
    const lines = rows(await answer.text());
    return lines.length > 0 ? lines : null;
  });
  t.true(found.every(({ text, release }) => text.includes('Error: it broke') && release !== null));
  t.is(await (await logs('contains=nothing%20prints%20this')).text(), '');
  const first = await logs('order=oldest&limit=1');
  const second = await logs(`order=oldest&limit=1&cursor=${first.headers.get('capstan-log-cursor') ?? ''}`);
  t.notDeepEqual(rows(await first.text()), rows(await second.text()));
  for (const [query, rule] of [
    ['pattern=(', /^bad request: pattern: not a valid RE2 expression/],
    ['level=loud', /level: must be one of trace/],
    ['limit=0', /limit: /],
    ['cursor=x', /cursor: must be the cursor of an earlier page/],
    ['since=yesterday', /since: must be an RFC 3339 time/],
    ['follow=true&until=2030-01-01', /until: not allowed with follow/],
  ] as const) {
    const answer = await logs(query);
    t.is(answer.status, 400, query);
    t.regex(((await answer.json()) as { detail: string }).detail, rule);
  }
  t.is((await stack().call('/v2/nothing/logs')).status, 404);
  t.is((await fetch(`${stack().url}/v2/${id('web')}/logs`)).status, 401);

  const gone = new AbortController();
  const followed = await logs('follow=true&contains=it%20broke&limit=1', { headers: { accept: 'text/event-stream' }, signal: gone.signal });
  t.is(followed.headers.get('content-type'), 'text/event-stream; charset=utf-8');
  let seen = '';
  const events = (): number => seen.split('data: ').length - 1;
  const reading = (async () => {
    for await (const chunk of followed.body ?? []) seen += Buffer.from(chunk as Uint8Array).toString();
  })().catch(() => undefined);
  await until('the last line is sent', () => (events() === 1 ? true : null));
  await call('/boom');
  await until('a new line follows', () => (events() > 1 ? true : null));
  gone.abort();
  await reading;
});

test('a function may take the request and answer with a response; bodies pass as they come', async (t) => {
  const body = randomBytes(3_000_000);
  const { port } = new URL(stack().url);
  const headers = { host: `${id('web')}.lb.localhost:${port}`, authorization: `Bearer ${stack().apiKey}`, 'content-type': 'image/x' };
  const answer = await request(`${stack().url}/echo`, { method: 'PATCH', headers, body });
  t.is(answer.statusCode, 201);
  t.is(answer.headers['content-type'], 'image/x');
  t.is(answer.headers['x-method'], 'PATCH');
  t.true(Buffer.from(await answer.body.arrayBuffer()).equals(body));
});

test('a thrown response, bytes, and a stream of values', async (t) => {
  const teapot = await call('/teapot');
  t.is(teapot.status, 418);
  t.is(teapot.headers['x-pot'], 'tea');
  const bytes = await call('/bytes');
  t.is(bytes.headers['content-type'], 'application/octet-stream');
  const lines = await call('/count?to=2');
  t.is(lines.text, '{"n":1}\n{"n":2}\n');
  const events = await call('/count?to=2', { headers: { accept: 'text/event-stream' } });
  t.is(events.headers['content-type'], 'text/event-stream; charset=utf-8');
  t.is(events.text, 'data: {"n":1}\n\ndata: {"n":2}\n\n');
});

test('HEAD is answered as GET, without its body', async (t) => {
  const { status, headers, text } = await call('/health', { method: 'HEAD' });
  t.is(status, 200);
  t.is(headers['content-length'], '15');
  t.is(text, '');
});

test('a body above 30 MiB is refused before it is read', async (t) => {
  const answer = await call('/echo', { method: 'POST', body: Buffer.alloc(30 * 1024 * 1024 + 1) });
  t.is(answer.status, 413);
  t.deepEqual(answer.json, { error: 'Payload Too Large', detail: 'body: exceeded max body size of 30MiB' });
});

test('the key of the service stays here; headers of a proxy that is not trusted are replaced', async (t) => {
  const headers = {
    'x-forwarded-for': '6.6.6.6',
    'x-forwarded-proto': 'https',
    'x-own': 'kept',
  };
  const { json } = await call('/headers', { headers });
  t.is(json['authorization'], undefined);
  t.is(json['x-forwarded-for'], '127.0.0.1');
  t.is(json['x-forwarded-proto'], 'http');
  t.is(json['x-own'], 'kept');
  t.regex(String(json['url']), new RegExp(`^http://${id('web')}\\.lb\\.localhost:\\d+/headers$`));
});

test('an endpoint that its operator opened wants no key, and leaves Authorization to the application', async (t) => {
  t.deepEqual((await call('/greet', { key: null }, 'open')).json, { authorization: null });
  t.deepEqual((await call('/greet', { key: 'its-own' }, 'open')).json, { authorization: 'Bearer its-own' });
});

test('a caller that goes away is told to the function, which ends', async (t) => {
  const file = join(stack().scratch, 'parked');
  const { port } = new URL(stack().url);
  const headers = { host: `${id('web')}.lb.localhost:${port}`, authorization: `Bearer ${stack().apiKey}` };
  const abort = new AbortController();
  const asked = request(`${stack().url}/park?ms=60000&file=${file}`, { headers, signal: abort.signal });
  await until('the function was entered', async () => (await readFile(file, 'utf8').catch(() => '')) !== '');
  abort.abort();
  await t.throwsAsync(asked);
  await until('the function heard of it', async () => (await readFile(file, 'utf8')) === 'entered\naborted\n');
  t.pass();
});

test('a stream whose caller goes away ends, and was never far ahead of it', async (t) => {
  const file = join(stack().scratch, 'endless');
  const { port } = new URL(stack().url);
  const headers = { host: `${id('web')}.lb.localhost:${port}`, authorization: `Bearer ${stack().apiKey}` };
  const answer = await request(`${stack().url}/endless?file=${file}`, { headers });
  for await (const _part of answer.body) break;
  await until('the generator ended', async () => (await readFile(file, 'utf8').catch(() => '')) === 'ended');
  t.pass();
});

test('a worker that ends fails its own requests with 500, and the next one gets another worker', async (t) => {
  const { status, json } = await call('/crash', { method: 'POST' }, 'fragile');
  t.is(status, 500);
  t.is(json['error'], 'Internal Server Error');
  t.is((await call('/works', {}, 'fragile')).status, 200);
});

test('a second gateway started the same endpoints with the same workers, and its end is nobody else’s', async (t) => {
  const { grpc } = JSON.parse(await readFile(join(stack().dataDir, 'run.json'), 'utf8')) as { grpc: string };
  const tokenFile = join(stack().dataDir, 'secrets/gateway-token');
  const gateway = await startGateway(readConfig({ port: 0, scheduler: grpc, tokenFile, logLevel: 'silent', closeGraceMs: 0 }, {}));
  const file = join(stack().scratch, 'over-both');
  const headers = { authorization: `Bearer ${stack().apiKey}` };
  const url = (base: string, name: string): string => `${base}/lb/${id('web')}/park?ms=60000&file=${encodeURIComponent(file)}-${name}`;
  const said = (name: string): Promise<string> => readFile(`${file}-${name}`, 'utf8').catch(() => '');
  const leave = new AbortController();
  try {
    await until('the second gateway started', async () => {
      const { statusCode, body } = await request(`${gateway.url}/lb/${id('web')}/health`, { headers });
      await body.dump();
      return statusCode === 200;
    });
    const [first, second] = [url(stack().url, 'first'), url(gateway.url, 'second')].map((each) =>
      request(each, { headers, signal: leave.signal }).then(
        ({ statusCode }) => statusCode,
        (error: Error) => error.name,
      ),
    );
    await until('both serve at once', async () => (await said('first')) === 'entered\n' && (await said('second')) === 'entered\n');
    await gateway.close();
    t.not(await second, 200);
    // Its caller is gone; that of the other gateway is not.
    await until('the function heard of it', async () => (await said('second')) === 'entered\naborted\n');
    t.is(await said('first'), 'entered\n');
    leave.abort();
    t.is(await first, 'AbortError');
  } finally {
    await gateway.close();
  }
});

test('metrics count requests by endpoint and status', async (t) => {
  await call('/health');
  const text = await (await stack().call('/metrics')).text();
  t.regex(text, new RegExp(`capstan_lb_requests_total\\{endpoint="${id('web')}",status="200"\\} \\d+`));
  t.regex(text, new RegExp(`capstan_lb_requests_held\\{endpoint="${id('web')}"\\} \\d+`));
});

test('an answer that does not wait for the body reaches the caller', async (t) => {
  for (let count = 0; count < 6; count += 1) {
    const answer = await call('/early', { method: 'POST', body: Buffer.alloc(8_000_000) });
    t.deepEqual([answer.status, answer.text], [413, 'too large']);
  }
});
