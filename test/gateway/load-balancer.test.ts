/** Load-balanced requests at the gateway: its limits, every refusal's status and body, and what it does with agents' answers. */
import test from 'ava';
import { request } from 'undici';

import { until } from '../support/until.ts';
import { EndpointKind } from '../../proto/gen/capstan/v1/common.ts';
import { KeyScope } from '../../proto/gen/capstan/v1/control.ts';
import { FakeAgent, invokeToken } from './fake-agent.ts';
import { KEY, OPERATOR_KEY, RawConnection, startGateway } from './harness.ts';
import { addWeb, HOST, setupLb } from './lb-harness.ts';

const head = (first: string, ...lines: string[]): string =>
  `${[`${first} HTTP/1.1`, `Host: ${HOST}`, `Authorization: Bearer ${KEY}`, ...lines].join('\r\n')}\r\n\r\n`;

test('every refusal has its status and {error, detail}', async (t) => {
  const { call, gateway, scheduler, invokeAddress } = await setupLb(t, { lbMaxBodyBytes: 2_000 });
  scheduler.addKey('reader', { scope: KeyScope.READ_ONLY });
  scheduler.addKey('of-another', { scope: KeyScope.ENDPOINTS, endpoints: ['ep'] });
  scheduler.addKey('stranger', { account: 'others' });
  const agent = new FakeAgent(t, invokeAddress).serve('web', { w1: 8 });
  agent.onRequest = (taken) => {
    const how = taken.begin.target.split('?')[1];
    if (how === 'lost') taken.send({ $case: 'abort', value: { code: 'WORKER_LOST', message: 'the worker died', untouched: false } });
    else if (how === 'odd') taken.send({ $case: 'abort', value: { code: 'NO_SUCH_CODE', message: 'what?', untouched: false } });
    else taken.answer(Number(how), '{"error":"Too Many Requests","detail":"slower, please"}', { 'content-type': 'application/json' });
  };
  const wrong = 'the API key is unknown or revoked';
  for (const [method, path, options, status, error, detail] of [
    ['GET', '/fn', { key: null }, 401, 'Unauthorized', 'the header Authorization is required; send Authorization: Bearer <API_KEY>'],
    ['GET', '/fn', { key: 'wrong' }, 401, 'Unauthorized', wrong],
    // A route runs code, whatever its method: a key that may only read may not call it.
    ['GET', '/fn', { key: 'reader' }, 401, 'Unauthorized', 'this key is read-only'],
    ['GET', '/fn', { key: 'of-another' }, 401, 'Unauthorized', 'this key does not cover the endpoint web'],
    ['GET', '/fn', { key: 'stranger' }, 404, 'Not Found', 'endpoint "web" does not exist'],
    ['GET', '/nothing', {}, 404, 'Not Found', 'the endpoint has no route "/nothing"'],
    ['DELETE', '/fn', {}, 405, 'Method Not Allowed', 'DELETE is not allowed here; use GET, POST'],
    ['POST', '/fn', { body: 'x'.repeat(2_001) }, 413, 'Payload Too Large', 'body: exceeded max body size of 2000 bytes'],
    ['GET', '/fn?429', {}, 429, 'Too Many Requests', 'slower, please'],
    ['GET', '/fn?lost', {}, 500, 'Internal Server Error', 'the worker died'],
    ['GET', '/fn?odd', {}, 500, 'Internal Server Error', 'what?'],
  ] as const) {
    const reply = await call(method, path, options);
    t.is(reply.status, status, detail);
    t.deepEqual(reply.json, { error, detail });
    t.is(reply.headers['allow'], status === 405 ? 'GET, POST' : undefined);
    t.is(reply.headers['www-authenticate'], status === 401 ? 'Bearer' : undefined);
  }
  const chunked = new RawConnection(t, gateway.url).write(head('POST /fn', 'Transfer-Encoding: chunked'));
  chunked.write(`9c4\r\n${'x'.repeat(2_500)}\r\n0\r\n\r\n`);
  const refused = await chunked.answer();
  t.is(refused?.status, 413);
  t.deepEqual(JSON.parse(refused?.body ?? ''), { error: 'Payload Too Large', detail: 'body: exceeded max body size of 2000 bytes' });
  // What never became a request is refused in both forms: nobody knows which host it was for.
  const long = await new RawConnection(t, gateway.url).write(head('GET /fn', `X: ${'x'.repeat(100_000)}`)).answer();
  t.is(long?.status, 431);
  t.like(JSON.parse(long?.body ?? ''), { status: 431, error: 'Request Header Fields Too Large' });
});

test('pages of named origins may call routes: preflights need no key, answers and refusals can be read', async (t) => {
  const { call, scheduler, invokeAddress } = await setupLb(t, { corsOrigins: ['https://app.example'] });
  const agent = new FakeAgent(t, invokeAddress).serve('web', { w1: 8 });
  agent.onRequest = (taken) =>
    taken.answer(200, '"served"', taken.begin.target === '/fn' ? {} : { 'access-control-allow-origin': 'https://own.example' });
  const origin = 'https://app.example';
  const asks = { 'access-control-request-method': 'PATCH', 'access-control-request-headers': 'authorization,x-own' };
  const preflight = await call('OPTIONS', '/fn', { key: null, headers: { origin, ...asks } });
  t.is(preflight.status, 204);
  t.is(preflight.headers['access-control-allow-origin'], origin);
  t.is(preflight.headers['access-control-allow-methods'], 'PATCH');
  t.is(preflight.headers['access-control-allow-headers'], 'authorization,x-own');
  for (const [path, key, status] of [
    ['/fn', KEY, 200],
    ['/fn', null, 401],
    ['/nothing', KEY, 404],
  ] as const) {
    const { status: got, headers } = await call('GET', path, { key, headers: { origin } });
    t.deepEqual([got, headers['access-control-allow-origin'], headers['vary']], [status, origin, 'Origin']);
  }
  // A function's own word goes first, and strangers are told nothing.
  t.is((await call('GET', '/fn?own', { headers: { origin } })).headers['access-control-allow-origin'], 'https://own.example');
  const evil = { origin: 'https://evil.example' };
  t.is((await call('GET', '/fn', { headers: evil })).headers['access-control-allow-origin'], undefined);
  t.is((await call('OPTIONS', '/fn', { headers: { ...evil, ...asks } })).status, 405);
  // A server of its own that asks for no key is asked itself.
  scheduler.addEndpoint('own', 'acc', EndpointKind.LOAD_BALANCED, { isPublic: true, routes: [] });
  agent.serve('own', { w2: 8 });
  const asked = { key: null, headers: { host: 'own.lb.localhost', origin, ...asks } };
  let own = await call('OPTIONS', '/', asked);
  while (own.status === 204) own = await call('OPTIONS', '/', asked);
  t.is(own.headers['access-control-allow-origin'], 'https://own.example');
});

test('requests wait for a worker, bounded in number; one too many is 503 with Retry-After', async (t) => {
  const { gateway, scheduler, call, invokeAddress } = await setupLb(t, { lbMaxHeld: 1 });
  const first = fetch(`${gateway.url}/lb/web/fn`, { headers: { authorization: `Bearer ${KEY}` } });
  await scheduler.reports.next(({ levels }) => levels.some(({ held }) => held === 1));
  const full = await call('GET', '/fn');
  t.is(full.status, 503);
  t.deepEqual(full.json, { error: 'Service Unavailable', detail: 'the endpoint already has 1 requests waiting for a worker' });
  t.is(full.headers['retry-after'], '1');
  const agent = new FakeAgent(t, invokeAddress);
  agent.onRequest = (taken) => taken.answer(200, '"served"');
  agent.serve('web', { w1: 1 });
  t.is(await (await first).text(), '"served"');
  await scheduler.reports.next(({ levels }) => levels.some(({ held, inFlight }) => held === 0 && inFlight === 0));
});

test('requests wait for a worker, bounded in time; then 503 with Retry-After', async (t) => {
  const { scheduler, call } = await setupLb(t, { lbHoldMs: 200 });
  const late = await call('GET', '/fn');
  t.is(late.status, 503);
  t.deepEqual(late.json, { error: 'Service Unavailable', detail: 'no worker became free within 0.2 s' });
  t.is(late.headers['retry-after'], '5');
  await scheduler.reports.next(({ levels }) => levels.some(({ held }) => held === 1));
});

test('a worker that does not answer in time is told so, and the caller gets 500', async (t) => {
  const { call, invokeAddress } = await setupLb(t, { lbTimeoutMs: 200 });
  const agent = new FakeAgent(t, invokeAddress).serve('web', { w1: 1 });
  const reply = await call('GET', '/fn');
  t.is(reply.status, 500);
  t.deepEqual(reply.json, { error: 'Internal Server Error', detail: 'the function did not respond within 0.2 s' });
  t.like(await agent.frames.next(({ frame }) => frame?.$case === 'abort'), { frame: { value: { code: 'DEADLINE_EXCEEDED' } } });
  t.is(agent.taken.items[0]?.begin.timeoutMs, 200);
});

test('a caller that dawdles with its headers or its body gets 408 and holds no worker', async (t) => {
  const { gateway, invokeAddress } = await setupLb(t, { requestTimeoutMs: 3_000 });
  const agent = new FakeAgent(t, invokeAddress).serve('web', { w1: 8 });
  agent.onRequest = (taken) => {
    // Answers while the body is still coming.
    if (taken.begin.method === 'PUT')
      taken.send({ $case: 'head', value: { status: 200, headers: [], body: Buffer.from('begun'), ended: false } });
  };
  const headers = new RawConnection(t, gateway.url).write(`GET /fn HTTP/1.1\r\nHost: ${HOST}\r\nX-Slow: `);
  const short = new RawConnection(t, gateway.url).write(head('POST /fn', 'Content-Length: 10')).write('12345');
  const answering = new RawConnection(t, gateway.url).write(head('PUT /other', 'Content-Length: 1000000')).write('12345');
  for (const slow of [headers, short]) {
    const answer = await slow.answer();
    t.is(answer?.status, 408);
    t.like(JSON.parse(answer?.body ?? ''), { status: 408, error: 'Request Timeout' });
    t.is(await slow.answer(), null);
  }
  // An answer that has begun is cut off, and nothing else is put into it.
  await answering.closed;
  t.regex(answering.text, /^HTTP\/1\.1 200 OK\r\n/);
  t.false(answering.text.includes('408'));
  await agent.frames.next(({ frame }) => frame?.$case === 'abort');
  t.deepEqual(
    agent.taken.items.map(({ begin }) => begin.method),
    ['PUT'],
  );
});

test('what an agent did not take goes to another worker, whole; what it may have begun does not', async (t) => {
  const { call, invokeAddress } = await setupLb(t);
  const agents = ['a', 'b'].map((name) => new FakeAgent(t, invokeAddress, name));
  const refusedBy: string[] = [];
  for (const [at, agent] of agents.entries()) {
    agent.onRequest = (taken) => {
      if (refusedBy.length === 0) {
        refusedBy.push(taken.begin.workerId);
        taken.send({ $case: 'abort', value: { code: 'UNAVAILABLE', message: 'full', untouched: true } });
      } else taken.answer(200, `${taken.begin.workerId}: ${taken.begin.body.toString()}`);
    };
    agent.serve('web', { [`w${at}`]: 1 });
  }
  const reply = await call('POST', '/fn', { body: 'the body' });
  t.is(reply.text, `${refusedBy[0] === 'w0' ? 'w1' : 'w0'}: the body`);

  for (const agent of agents) agent.onRequest = () => agent.break();
  const broken = await call('GET', '/fn');
  t.is(broken.status, 500);
  t.deepEqual(broken.json, {
    error: 'Internal Server Error',
    detail: 'the worker’s agent ended, or the connection to it was lost, before it responded: the function may have run',
  });
});

test('what a worker’s connection was reset for is tried once more, and not again', async (t) => {
  const { call, invokeAddress } = await setupLb(t);
  const agent = new FakeAgent(t, invokeAddress).serve('web', { w1: 4, w2: 4, w3: 4 });
  let resets = 1;
  agent.onRequest = (taken) => {
    if (resets-- > 0) taken.send({ $case: 'abort', value: { code: 'WORKER_LOST', message: 'reset', untouched: true } });
    else taken.answer(200, '"served"');
  };
  t.is((await call('GET', '/fn')).text, '"served"');
  resets = 2;
  t.like(await call('GET', '/fn'), { status: 500, json: { error: 'Internal Server Error', detail: 'reset' } });
});

test('a request that no worker takes is given up after its time of waiting, all tries together', async (t) => {
  const { call, invokeAddress } = await setupLb(t, { lbHoldMs: 300 });
  const agent = new FakeAgent(t, invokeAddress).serve('web', { w1: 1 });
  agent.onRequest = (taken) => taken.answer(200, '');
  await until('the worker is known', async () => (await call('GET', '/fn')).status === 200);
  agent.onRequest = (taken) => taken.send({ $case: 'abort', value: { code: 'UNAVAILABLE', message: 'nobody listens', untouched: true } });
  const late = await call('GET', '/fn');
  t.is(late.status, 503);
  t.is(late.headers['retry-after'], '5');
  t.is(late.json['detail'], 'no worker became free within 0.3 s; last attempt: nobody listens');
});

test('a request that its worker gives back is before those that have come since', async (t) => {
  const { call, scheduler, invokeAddress } = await setupLb(t);
  const agent = new FakeAgent(t, invokeAddress).serve('web', { w1: 1 });
  const first = call('GET', '/fn?first');
  const taken = await agent.taken.next(() => true);
  const second = call('GET', '/fn?second');
  await scheduler.reports.next(({ levels }) => levels.some(({ held }) => held === 1));
  agent.onRequest = (again) => again.answer(200, '');
  taken.send({ $case: 'abort', value: { code: 'UNAVAILABLE', message: 'full', untouched: true } });
  t.deepEqual([(await first).status, (await second).status], [200, 200]);
  t.deepEqual(
    agent.taken.items.map(({ begin }) => begin.target),
    ['/fn?first', '/fn?first', '/fn?second'],
  );
});

test('X-Forwarded-Prefix names the path of the endpoint, whatever the caller says', async (t) => {
  const { call, invokeAddress, gateway } = await setupLb(t, { trustedProxies: '127.0.0.1' });
  const agent = new FakeAgent(t, invokeAddress).serve('web', { w1: 1 });
  agent.onRequest = (taken) => taken.answer(200, '');
  const headers = { 'x-forwarded-prefix': '/elsewhere' };
  await call('GET', '/fn', { headers });
  await call('GET', '/lb/web/fn?x=1', { headers: { ...headers, host: new URL(gateway.url).host } });
  const begins = agent.taken.items.map(({ begin }) => begin);
  t.deepEqual(
    begins.map(({ target, headers: given }) => [
      target,
      given.filter(({ name }) => name === 'x-forwarded-prefix').map(({ value }) => value),
    ]),
    [
      ['/fn', []],
      ['/fn?x=1', ['/lb/web']],
    ],
  );
});

test('X-Forwarded-* are believed from trusted proxies alone, and told to the function', async (t) => {
  const claims = { 'x-forwarded-for': '203.0.113.9', 'x-forwarded-proto': 'https', 'x-forwarded-host': 'api.example.org' };
  for (const [trustedProxies, seen] of [
    ['', { for: '127.0.0.1', proto: 'http', host: HOST }],
    ['10.0.0.0/8, 127.0.0.1', { for: '203.0.113.9, 127.0.0.1', proto: 'https', host: 'api.example.org' }],
  ] as const) {
    const { call, invokeAddress } = await setupLb(t, { trustedProxies });
    const agent = new FakeAgent(t, invokeAddress).serve('web', { w1: 1 });
    agent.onRequest = (taken) => taken.answer(200, '');
    await call('GET', '/fn', { headers: claims });
    const { begin } = await agent.taken.next(() => true);
    const told = new Map(begin.headers.map(({ name, value }) => [name, value]));
    t.deepEqual({ for: told.get('x-forwarded-for'), proto: told.get('x-forwarded-proto'), host: told.get('x-forwarded-host') }, seen);
    t.like(begin, { scheme: seen.proto, authority: seen.host });
    t.false(told.has('authorization'));
  }
});

test('an answer that breaks off is cut, so that nobody takes it for the whole, and counted with why', async (t) => {
  const { gateway, invokeAddress, call } = await setupLb(t);
  const agent = new FakeAgent(t, invokeAddress).serve('web', { w1: 1 });
  agent.onRequest = ({ send }) => {
    send({ $case: 'head', value: { status: 200, headers: [], body: Buffer.from('begun'), ended: false } });
    send({ $case: 'abort', value: { code: 'INTERNAL', message: 'of its own', untouched: false } });
  };
  const connection = new RawConnection(t, gateway.url).write(head('GET /fn'));
  await connection.closed;
  t.regex(connection.text, /^HTTP\/1\.1 200 OK\r\n[^]*transfer-encoding: chunked\r\n[^]*\r\n5\r\nbegun\r\n$/i);
  const { text } = await call('GET', '/metrics?part=gateway', { key: OPERATOR_KEY, headers: { host: 'localhost' } });
  t.regex(text, /^capstan_lb_broken_answers_total\{endpoint="web",code="INTERNAL"\} 1$/m);
  t.regex(text, /^capstan_lb_requests_total\{endpoint="web",status="200"\} 1$/m);
});

test('a gateway that closes cuts WebSockets that nobody ends', async (t) => {
  const { gateway, scheduler, invokeAddress } = await setupLb(t);
  scheduler.addEndpoint('own', 'acc', EndpointKind.LOAD_BALANCED);
  const agent = new FakeAgent(t, invokeAddress).serve('own', { w1: 1 });
  agent.onRequest = ({ send }) => send({ $case: 'head', value: { status: 101, headers: [], body: Buffer.from('hello'), ended: false } });
  const lines = [
    `Host: own.lb.localhost`,
    `Authorization: Bearer ${KEY}`,
    'Connection: Upgrade',
    'Upgrade: websocket',
    'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==',
  ];
  const socket = new RawConnection(t, gateway.url).write(`${['GET /socket HTTP/1.1', ...lines].join('\r\n')}\r\n\r\n`);
  await until('the connection is handed over', () => socket.text.endsWith('hello'));
  await gateway.close();
  await socket.closed;
  t.regex(socket.text, /^HTTP\/1\.1 101 /);
});

test('an agent serves at several gateways; each counts its own, and the loss of one costs its own requests alone', async (t) => {
  const one = await setupLb(t);
  const two = await startGateway(t, one.scheduler);
  const reports = one.scheduler.reports;
  const { invokeAddress } = await reports.next((report) => !['', one.invokeAddress].includes(report.invokeAddress));
  const agents = [one.invokeAddress, invokeAddress].map((address) => new FakeAgent(t, address).serve('web', { w1: 2 }));
  const headers = { host: HOST, authorization: `Bearer ${KEY}` };
  const calls = [one.gateway, two].map(async ({ url }) => {
    const answer = await request(`${url}/fn`, { headers });
    return { status: answer.statusCode, text: await answer.body.text() };
  });
  // Both report what they have: the scheduler adds them up.
  const taken = await Promise.all(agents.map((agent) => agent.taken.next(() => true)));
  const inFlight = reports.items.length;
  t.true(inFlight > 0);
  await one.gateway.close();
  t.is((await calls[0]!.catch(() => ({ status: 503, text: '' }))).status >= 500, true);
  taken[1]?.answer(200, 'from the other');
  t.deepEqual(await calls[1], { status: 200, text: 'from the other' });
});

test('an endpoint’s routes have a page, which holds nothing, and a document, which wants the key', async (t) => {
  const { call, scheduler, gateway } = await setupLb(t);
  const page = await call('GET', '/docs', { key: null });
  t.is(page.status, 200);
  t.regex(String(page.headers['content-security-policy']), /default-src 'none'/);
  t.false(page.text.includes('/fn'));
  t.deepEqual([...page.text.matchAll(/(?:https?:)?\/\/[a-z0-9.-]+\.[a-z]{2,}/gi)].map(String), []);
  const [, script = ''] = /<script src="([^"]+)"/.exec(page.text) ?? [];
  t.regex(String((await call('GET', script, { key: null })).headers['content-type']), /javascript/);

  t.like(await call('GET', '/openapi.json', { key: null }), { status: 401 });
  const { json } = await call('GET', '/openapi.json');
  t.like(json, { openapi: '3.1.0', info: { title: 'web' }, servers: [{ url: '/' }] });
  const operations = Object.entries(json['paths'] as Record<string, object>).map(([path, methods]) => [path, Object.keys(methods)]);
  t.deepEqual(operations, [
    ['/fn', ['get', 'post']],
    ['/other', ['put']],
  ]);
  const byPath = await fetch(`${gateway.url}/lb/web/openapi.json?x=1`, { headers: { authorization: `Bearer ${KEY}` } });
  t.like(await byPath.json(), { servers: [{ url: '/lb/web' }] });
  t.is((await call('POST', '/docs')).status, 404);
  const slash = await call('GET', '/docs/', { key: null });
  t.deepEqual([slash.status, slash.text], [200, page.text]);
  t.is((await call('GET', '/openapi.json/')).status, 404);

  // Routes of its own come first, also where they take another method.
  addWeb(scheduler, { method: 'POST', path: '/docs', name: 'fn' }, { method: 'GET', path: '/openapi.json', name: 'fn' });
  while ((await call('GET', '/docs')).status === 200);
  t.is((await call('GET', '/docs')).status, 405);
  t.is((await call('GET', '/docs/')).status, 404);
  t.is((await call('GET', '/openapi.json', { key: null })).status, 401);
});

test('a route matches its path exactly: a slash at the end is another path', async (t) => {
  const { call, scheduler, invokeAddress } = await setupLb(t);
  addWeb(scheduler, { method: 'GET', path: '/ends/', name: 'other' }, { method: 'GET', path: '/items/{id}', name: 'other' });
  while ((await call('DELETE', '/ends/')).status === 404);
  const agent = new FakeAgent(t, invokeAddress).serve('web', { w1: 8 });
  agent.onRequest = ({ answer, begin }) => answer(200, begin.target);
  for (const path of ['/fn', '/ends/', '/items/1', '/fn?a=/']) t.like(await call('GET', path), { status: 200, text: path });
  for (const path of ['/fn/', '/ends', '/items/1/', '/items/', '/items', '//fn']) t.is((await call('GET', path)).status, 404, path);
});

test('an agent needs a token of its node that has not ended, and a node that was not removed', async (t) => {
  const { call, invokeAddress, scheduler } = await setupLb(t);
  for (const token of ['', 'node-1.99999999999999.c2lnbmF0dXJl', invokeToken('node-1', Date.now() - 1), `${invokeToken('node-1')}.more`]) {
    t.is((await new FakeAgent(t, invokeAddress, 'node-1', token).ended)?.code, 16, token);
  }
  // The token of a node that was removed may be good for long: the scheduler says which those are.
  const agents = ['node-1', 'node-2'].map((node) => new FakeAgent(t, invokeAddress, node).serve('web', { [node]: 1 }));
  for (const agent of agents) agent.onRequest = ({ answer, begin }) => answer(200, begin.workerId);
  await until('both serve', async () => {
    const answers = await Promise.all([call('GET', '/fn'), call('GET', '/fn')]);
    return answers.every(({ status }) => status === 200);
  });
  scheduler.notify({ removedNodes: ['node-1'], unreachedBy: [], unservable: [] });
  t.regex((await agents[0]?.ended)?.details ?? '', /the node node-1 was removed/);
  t.regex((await new FakeAgent(t, invokeAddress, 'node-1').ended)?.details ?? '', /the node node-1 was removed/);
  for (let n = 0; n < 3; n += 1) t.is((await call('GET', '/fn')).text, 'node-2');
});
