/** Memory for request bodies: taken as bytes arrive, shared fairly by accounts, and never held by who sends slowly. Real sockets throughout. */
import test, { type ExecutionContext } from 'ava';

import { EndpointKind } from '../../proto/gen/capstan/v1/common.ts';
import { until } from '../support/until.ts';
import { FakeAgent } from './fake-agent.ts';
import { caller, KEY, OPERATOR_KEY, RawConnection, setup, type Setup } from './harness.ts';
import { addWeb, HOST, setupLb } from './lb-harness.ts';

const OTHER = 'key-of-another-account';
const MEBIBYTE = 1024 * 1024;
/** A body of a megabyte and the memory for four: one account may hold two of them. */
const INPUT = `{"input":{"a":"${'x'.repeat(MEBIBYTE)}"}}`;
const FOUR = { maxBodyMemoryBytes: 4 * INPUT.length };

async function twoAccounts(t: ExecutionContext, overrides: Record<string, unknown>): Promise<Setup> {
  const made = await setup(t, overrides);
  made.scheduler.addKey(OTHER, { account: 'others' });
  made.scheduler.addEndpoint('theirs', 'others');
  const call = caller(t, made.gateway.url);
  while ((await call('GET', '/v2/theirs/health', { key: OTHER })).status !== 200);
  return made;
}

function head(method: string, path: string, key: string | null, ...lines: string[]): string {
  const first = [`${method} ${path} HTTP/1.1`, 'Host: x', ...(key === null ? [] : [`Authorization: Bearer ${key}`])];
  return `${[...first, ...lines].join('\r\n')}\r\n`;
}

/** The value of a metric of the gateway. */
async function metric(call: Setup['call'], name: string): Promise<number> {
  const { text } = await call('GET', '/metrics?part=gateway', { key: OPERATOR_KEY });
  return Number(new RegExp(`^${name} (\\d+)`, 'm').exec(text)?.[1]);
}

test('announced lengths take no memory: a hundred requests that sent one byte keep nobody out', async (t) => {
  const { gateway, call } = await twoAccounts(t, {});
  const length = `Content-Length: ${20 * MEBIBYTE}`;
  for (let i = 0; i < 100; i += 1) {
    const raw = new RawConnection(t, gateway.url);
    await raw.begin(head('POST', '/v2/ep/runsync', KEY, length));
    raw.write('{');
  }
  const big = `{"input":{"a":"${'x'.repeat(15 * MEBIBYTE)}"}}`;
  t.is((await call('POST', '/v2/theirs/runsync', { body: big, key: OTHER })).status, 200);
});

for (const [door, path, more] of [
  ['/run', '/v2/ep/run', ''],
  ['/runsync', '/v2/ep/runsync', ''],
  ['openai', '/v2/ep/openai/v1/chat/completions', ''],
] as const) {
  test(`${door}: an account that fills its share is answered 429; another account gets its bodies through meanwhile`, async (t) => {
    const { gateway, call } = await twoAccounts(t, FOUR);
    const held: RawConnection[] = [];
    for (let i = 0; i < 2; i += 1) {
      const raw = new RawConnection(t, gateway.url);
      await raw.begin(head('POST', path, KEY, `Content-Length: ${INPUT.length}`));
      raw.write(INPUT.slice(0, -1));
      held.push(raw);
    }
    const all = 2 * INPUT.length;
    while ((await metric(call, 'capstan_gateway_body_memory_bytes')) < all);
    const refused = await call('POST', path, { body: INPUT });
    t.is(refused.status, 429, refused.text);
    t.is(refused.headers['retry-after'], '1');
    t.regex(refused.text, /already use its share of the gateway’s memory/);
    const theirs = await caller(t, gateway.url)('POST', '/v2/theirs/run', { body: INPUT, key: OTHER });
    t.is(theirs.status, 200, theirs.text);
    // What was held goes on, and is given back.
    for (const raw of held) t.is((await raw.write(INPUT.slice(-1) + more).answer())?.status, 200);
    while ((await metric(call, 'capstan_gateway_body_memory_bytes')) > 0);
    t.is((await call('POST', path, { body: INPUT })).status, 200);
  });
}

test('GraphQL bodies count as well', async (t) => {
  const body = JSON.stringify({ query: `{ environments { name } } # ${'x'.repeat(400_000)}` });
  const { gateway, call } = await setup(t, { maxBodyMemoryBytes: 4 * body.length });
  for (let i = 0; i < 2; i += 1) {
    const raw = new RawConnection(t, gateway.url);
    await raw.begin(head('POST', '/graphql', KEY, `Content-Length: ${body.length}`, 'Content-Type: application/json'));
    raw.write(body.slice(0, -1));
  }
  while ((await metric(call, 'capstan_gateway_body_memory_bytes')) < 2 * body.length);
  const refused = await call('POST', '/graphql', { body });
  t.is(refused.status, 429);
  t.like(refused.json, { errors: [{ extensions: { code: 'RATE_LIMITED' } }] });
});

test('one connection holds a bounded part of its account’s share, however it pipelines', async (t) => {
  const limits = { maxRunBytes: 64 * 1024, maxRunsyncBytes: 64 * 1024, maxBodyMemoryBytes: 64 * MEBIBYTE };
  const { gateway, call, scheduler } = await setup(t, limits);
  // Nothing is answered: each submission keeps its body.
  scheduler.onSubmit = () => undefined;
  const body = `{"input":{"a":"${'x'.repeat(40_000)}"}}`;
  const one = `${head('POST', '/v2/ep/runsync', KEY, `Content-Length: ${body.length}`)}\r\n${body}`;
  const raw = new RawConnection(t, gateway.url);
  raw.write(one.repeat(20));
  await until('three submissions arrived', () => scheduler.submits.length >= 3);
  t.is(scheduler.submits.length, 3);
  t.true((await metric(call, 'capstan_gateway_body_memory_bytes')) <= 128 * 1024);
});

test('a body in pieces of one byte takes the memory of its bytes', async (t) => {
  const { gateway, call } = await setup(t, { maxBodyMemoryBytes: 400_000 });
  const text = `{"input":{"a":"${'x'.repeat(150_000)}"}}`;
  const raw = new RawConnection(t, gateway.url);
  raw.write(`${head('POST', '/v2/ep/runsync', KEY, 'Transfer-Encoding: chunked')}\r\n`);
  raw.write(`${text.replaceAll(/./g, '1\r\n$&\r\n')}0\r\n\r\n`);
  const answer = await raw.answer();
  t.is(answer?.status, 200, answer?.body);
  t.true(answer?.body.includes('x'.repeat(150_000)));
  t.is(await metric(call, 'capstan_gateway_body_memory_bytes'), 0);
});

test('a body that no memory could ever hold is 413, not 503 for ever', async (t) => {
  const { call } = await setup(t, { maxBodyMemoryBytes: 200_000 });
  const reply = await call('POST', '/v2/ep/run', { body: `{"input":{"a":"${'x'.repeat(150_000)}"}}` });
  t.is(reply.status, 413);
  t.regex(String(reply.json['detail']), /exceeded max body size of 100000 bytes/);
});

test('when the bodies of all accounts fill the memory, a further one is 503', async (t) => {
  const { gateway, call, scheduler } = await twoAccounts(t, FOUR);
  scheduler.addKey('third', { account: 'third' });
  scheduler.addEndpoint('thirds', 'third');
  while ((await call('GET', '/v2/thirds/health', { key: 'third' })).status !== 200);
  for (const [path, key, held] of [
    ['/v2/ep/run', KEY, 1],
    ['/v2/ep/run', KEY, 2],
    ['/v2/theirs/run', OTHER, 3],
  ] as const) {
    const raw = new RawConnection(t, gateway.url);
    await raw.begin(head('POST', path, key, `Content-Length: ${INPUT.length}`));
    raw.write(INPUT.slice(0, -1));
    while ((await metric(call, 'capstan_gateway_body_memory_bytes')) < held * INPUT.length);
  }
  const refused = await call('POST', '/v2/thirds/run', { body: INPUT, key: 'third' });
  t.is(refused.status, 503, refused.text);
  t.regex(refused.text, /already use all of the gateway’s memory/);
  t.is(refused.headers['retry-after'], '1');
});

test('a body that breaks off gives its memory back', async (t) => {
  const { gateway, call } = await setup(t);
  const raw = new RawConnection(t, gateway.url);
  await raw.begin(head('POST', '/v2/ep/run', KEY, 'Content-Length: 1500000'));
  raw.write('x'.repeat(1_000_000));
  while ((await metric(call, 'capstan_gateway_body_memory_bytes')) < 1_000_000);
  raw.socket.destroy();
  while ((await metric(call, 'capstan_gateway_body_memory_bytes')) > 0);
  t.pass();
});

const SLOW = { uploadMinBytes: 1_000, uploadWindowMs: 100 };

for (const [door, method, path, ...lines] of [
  ['/run', 'POST', '/v2/ep/run', `Content-Length: ${MEBIBYTE}`],
  ['/runsync, chunked', 'POST', '/v2/ep/runsync', 'Transfer-Encoding: chunked'],
  ['/cancel', 'POST', '/v2/ep/cancel', 'Content-Length: 20'],
  ['openai', 'POST', '/v2/ep/openai/v1/models', `Content-Length: ${MEBIBYTE}`],
  ['GraphQL', 'POST', '/graphql', 'Content-Length: 5000'],
  ['a build', 'PUT', `/builds/${'a'.repeat(64)}`, `Content-Length: ${MEBIBYTE}`],
  [
    'a part of a build',
    'PATCH',
    `/builds/${'a'.repeat(64)}`,
    `Content-Length: ${MEBIBYTE}`,
    `Upload-Length: ${MEBIBYTE}`,
    'Upload-Offset: 0',
  ],
] as const) {
  test(`${door}: a body that comes too slowly is 408 and ends the connection`, async (t) => {
    const { gateway, call } = await setup(t, SLOW);
    const raw = new RawConnection(t, gateway.url);
    raw.write(`${head(method, path, KEY, ...lines)}\r\n`).write(lines[0].startsWith('T') ? '1\r\n{\r\n' : '{');
    const answer = await raw.answer();
    t.is(answer?.status, 408, answer?.body);
    t.regex(answer?.body ?? '', /body: arrived too slowly/);
    t.is(await raw.answer(), null);
    while ((await metric(call, 'capstan_gateway_body_memory_bytes')) > 0);
  });
}

test('a load-balanced body that comes too slowly is 408, and its worker is free again', async (t) => {
  const { gateway, invokeAddress } = await setupLb(t, SLOW);
  const agent = new FakeAgent(t, invokeAddress).serve('web', { w1: 1 });
  const raw = new RawConnection(t, gateway.url);
  raw.write(`POST /fn HTTP/1.1\r\nHost: ${HOST}\r\nAuthorization: Bearer ${KEY}\r\nContent-Length: 1000000\r\n\r\nx`);
  const answer = await raw.answer();
  t.is(answer?.status, 408);
  t.deepEqual(JSON.parse(answer?.body ?? ''), { error: 'Request Timeout', detail: 'body: arrived too slowly' });
  t.is(await raw.answer(), null);
  t.like(await agent.frames.next(({ frame }) => frame?.$case === 'abort'), { frame: { value: { message: 'body: arrived too slowly' } } });
});

test('load-balanced bodies that no worker takes count for the account, and those of strangers for their address too', async (t) => {
  const { gateway, scheduler, call } = await setupLb(t, { maxBodyMemoryBytes: 400_000, lbHoldMs: 60_000 });
  addWeb(scheduler);
  scheduler.addEndpoint('open', 'acc', EndpointKind.LOAD_BALANCED, { isPublic: true, routes: [] });
  while (
    (
      await call('GET', '/health', { key: null, headers: { host: 'open.lb.localhost' }, signal: AbortSignal.timeout(1) }).catch(() => ({
        status: 503,
      }))
    ).status === 401
  );
  const body = 'x'.repeat(40_000);
  const send = (host: string, key: string | null): RawConnection =>
    new RawConnection(t, gateway.url).write(
      `POST /fn HTTP/1.1\r\nHost: ${host}\r\n${key === null ? '' : `Authorization: Bearer ${key}\r\n`}Content-Length: ${body.length}\r\n\r\n${body}`,
    );
  // An eighth of the memory is a stranger's: one body of 40,000 bytes.
  send('open.lb.localhost', null);
  const stranger = await send('open.lb.localhost', null).answer();
  t.is(stranger?.status, 429, stranger?.body);
  // Half of it is the account's.
  for (let i = 0; i < 4; i += 1) send(HOST, KEY);
  const refused = await send(HOST, KEY).answer();
  t.is(refused?.status, 429, refused?.body);
  t.regex(refused?.head ?? '', /^retry-after: 1$/im);
  t.like(JSON.parse(refused?.body ?? ''), { error: 'Too Many Requests' });
});
