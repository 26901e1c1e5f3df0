/**
 * What a caller may get wrong: each has its status and a message that names field and rule, nothing
 * reaches the scheduler, and the connection goes on working.
 */
import test from 'ava';
import fc from 'fast-check';

import { KEY, RawConnection, setup } from './harness.ts';
import { wrongs } from './wrong-requests.ts';

test('every wrong request is answered plainly, stores nothing, and the connection goes on', async (t) => {
  const { scheduler, call } = await setup(t);
  let good = 0;
  for (const { name, method = 'POST', path = '/v2/ep/run', status, detail, ...options } of wrongs) {
    const reply = await call(method, path, options);
    t.is(reply.status, status, name);
    t.regex(String(reply.headers['content-type']), /^application\/json/, name);
    t.deepEqual(Object.keys(reply.json), ['status', 'title', 'detail'], name);
    t.is(reply.json['status'], status, name);
    if (typeof detail === 'string') t.is(reply.json['detail'], detail, name);
    else t.regex(String(reply.json['detail']), detail, name);
    t.false(reply.text.includes('secret-value'), name);
    t.not(reply.headers['connection'], 'close', name);
    if (status === 405) t.truthy(reply.headers['allow'], name);
    t.is(scheduler.submits.length, good, name);
    t.is((await call('POST', '/v2/ep/run', { body: '{"input":{}}' })).status, 200, `after ${name}`);
    good += 1;
  }
});

test('what is unusual but right is accepted', async (t) => {
  const { scheduler, call } = await setup(t);
  const s3Config = { accessId: 'a', accessSecret: 'b', bucketName: 'c', endpointUrl: 'https://s3.example' };
  const rights: { name: string; body: string | Buffer; headers?: Record<string, string> }[] = [
    { name: 'an empty input', body: '{"input":{}}' },
    { name: 'unknown keys', body: '{"webhookV2":1,"input":{},"__proto__":{"a":1},"constructor":{}}' },
    { name: 'an escaped key', body: String.raw`{"\u0069nput":{}}` },
    { name: 'absent values as null', body: '{"input":{},"webhook":null,"policy":null,"s3Config":null}' },
    { name: 'the ends of the ranges', body: '{"input":{},"policy":{"ttl":604800000,"executionTimeout":5000}}' },
    { name: 'the other ends', body: '{"input":{},"policy":{"ttl":10000,"executionTimeout":604800000,"lowPriority":true}}' },
    { name: 'storage credentials', body: JSON.stringify({ input: {}, s3Config }) },
    { name: 'a byte order mark', body: '\uFEFF{"input":{}}' },
    { name: 'charset UTF-8', body: '{"input":{}}', headers: { 'content-type': 'Application/JSON; Charset="UTF-8"' } },
    { name: 'a JSON dialect', body: '{"input":{}}', headers: { 'content-type': 'application/vnd.x+json' } },
    { name: 'no encoding, said aloud', body: '{"input":{}}', headers: { 'content-encoding': 'identity' } },
    { name: 'a deep input', body: `{"input":{"a":${'['.repeat(500)}${']'.repeat(500)}}}` },
  ];
  for (const { name, ...options } of rights) t.is((await call('POST', '/v2/ep/run', options)).status, 200, name);
  const sent = scheduler.submits.map((submit) => ({ policy: submit.policy, s3: submit.s3Config }));
  t.like(sent[5], { policy: { ttlMs: 10_000, executionTimeoutMs: 604_800_000, lowPriority: true } });
  t.like(sent[6], { s3: s3Config });
  t.is(sent[0]?.policy, undefined);
});

test('no body whatsoever is answered with a fault of the service', async (t) => {
  const { scheduler, call } = await setup(t);
  const json = fc.oneof(
    fc.json(),
    fc.record({ input: fc.dictionary(fc.string(), fc.jsonValue()) }).map((value) => JSON.stringify(value)),
    fc
      .record({ input: fc.jsonValue(), webhook: fc.jsonValue(), policy: fc.jsonValue(), s3Config: fc.jsonValue() }, { requiredKeys: [] })
      .map((value) => JSON.stringify(value)),
    fc.string({ unit: 'binary' }),
    fc.uint8Array({ minLength: 1 }).map((bytes) => Buffer.from(bytes)),
  );
  await fc.assert(
    fc.asyncProperty(json, fc.constantFrom('run', 'runsync', 'cancel', 'retry', 'purge-queue', 'stream'), async (body, operation) => {
      const before = scheduler.submits.length;
      const reply = await call('POST', `/v2/ep/${operation}`, { body });
      t.true([200, 400, 404].includes(reply.status), `${operation} ${reply.text}`);
      if (reply.status !== 200) t.is(scheduler.submits.length, before);
    }),
    { numRuns: 500 },
  );
});

test('a body without a content type is read as JSON', async (t) => {
  const { scheduler, gateway } = await setup(t);
  const raw = new RawConnection(t, gateway.url);
  raw.write(`POST /v2/ep/run HTTP/1.1\r\nHost: x\r\nAuthorization: ${KEY}\r\nContent-Length: 18\r\n\r\n{"input":{"a":1}} `);
  t.is((await raw.answer())?.status, 200);
  t.is(scheduler.inputOf(scheduler.submits[0]), '{"a":1}');
});

test('chunked bodies and Expect: 100-continue work', async (t) => {
  const { scheduler, gateway } = await setup(t);
  const raw = new RawConnection(t, gateway.url);
  const head = `POST /v2/ep/run HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${KEY}\r\nContent-Type: application/json\r\n`;
  raw.write(`${head}Transfer-Encoding: chunked\r\n\r\n5\r\n{"inp\r\n7\r\nut":{}}\r\n0\r\n\r\n`);
  t.is((await raw.answer())?.status, 200);
  raw.write(`${head}Expect: 100-continue\r\nContent-Length: 12\r\n\r\n`).write('{"input":{}}');
  t.is((await raw.answer())?.status, 200);
  t.is(scheduler.submits.length, 2);
});

test('a body above the limit gets 413 and the connection stays', async (t) => {
  const { scheduler, gateway, call } = await setup(t, { maxRunBytes: 1024 * 1024, maxRunsyncBytes: 2 * 1024 * 1024 });
  const body = (bytes: number): string => `{"input":{"a":"${'x'.repeat(bytes)}"}}`;
  for (const [path, bytes, detail] of [
    ['/v2/ep/run', 1024 * 1024, 'payload too large: body: exceeded max body size of 1MiB'],
    ['/v2/ep/runsync', 2 * 1024 * 1024, 'payload too large: body: exceeded max body size of 2MiB'],
  ] as const) {
    const reply = await call('POST', path, { body: body(bytes) });
    t.is(reply.status, 413);
    t.is(reply.json['detail'], detail);
    t.is((await call('POST', '/v2/ep/run', { body: '{"input":{}}' })).status, 200);
  }
  const runsync = await call('POST', '/v2/ep/runsync', { body: body(1024 * 1024) });
  t.is(runsync.status, 200);
  t.is(scheduler.submits.length, 3);

  const raw = new RawConnection(t, gateway.url);
  const head = `POST /v2/ep/run HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${KEY}\r\nContent-Type: application/json\r\n`;
  raw.write(`${head}Transfer-Encoding: chunked\r\n\r\n`);
  const chunk = 'x'.repeat(0x10000);
  for (let index = 0; index < 32; index += 1) raw.write(`10000\r\n${chunk}\r\n`);
  raw.write('0\r\n\r\n');
  t.is((await raw.answer())?.status, 413);
  raw.write(`${head}Content-Length: 12\r\n\r\n{"input":{}}`);
  t.is((await raw.answer())?.status, 200);
});

test('what is not HTTP gets a problem document and a closed connection', async (t) => {
  const { gateway } = await setup(t);
  const garbage = new RawConnection(t, gateway.url).write('hello\r\n\r\n');
  const answer = await garbage.answer();
  t.is(answer?.status, 400);
  t.is((JSON.parse(answer?.body ?? '{}') as { status: number }).status, 400);
  t.is(await garbage.answer(), null);
  const header = await new RawConnection(t, gateway.url).write(`GET / HTTP/1.1\r\nHost: x\r\nX: ${'x'.repeat(100_000)}\r\n\r\n`).answer();
  t.is(header?.status, 431);
});

const FRONT_DOOR: readonly { readonly name: string; readonly request: string; readonly status: number; readonly detail: RegExp }[] = [
  { name: 'no Host', request: 'GET /ping HTTP/1.1\r\n\r\n', status: 400, detail: /Host: is required/ },
  { name: 'two Hosts', request: 'GET /ping HTTP/1.1\r\nHost: a\r\nhost: b\r\n\r\n', status: 400, detail: /Host: must occur once/ },
  {
    name: 'a coding that nobody decodes',
    request: 'POST /ping HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n',
    status: 400,
    detail: /Transfer-Encoding: must be chunked/,
  },
  {
    name: 'two lengths',
    request: 'POST /ping HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}',
    status: 400,
    detail: /Content-Length: must be one number/,
  },
  {
    name: 'a length beside chunks',
    request: 'POST /ping HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
    status: 400,
    detail: /Transfer-Encoding/,
  },
  {
    name: 'a chunk without size',
    request: `POST /v2/ep/run HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${KEY}\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n`,
    status: 400,
    detail: /body: each chunk must start with its size/,
  },
  {
    name: 'a method that is none',
    request: 'FETCH /ping HTTP/1.1\r\nHost: x\r\n\r\n',
    status: 400,
    detail: /must start with an HTTP method/,
  },
  { name: 'CONNECT', request: 'CONNECT a.example:443 HTTP/1.1\r\nHost: x\r\n\r\n', status: 405, detail: /CONNECT is not allowed/ },
  {
    name: 'a WebSocket to what has none',
    request: 'GET /ping HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n',
    status: 404,
    detail: /only load-balanced endpoints accept WebSockets/,
  },
];

test('HTTP that can be read in two ways is refused with a problem document, and its connection ends', async (t) => {
  const { gateway } = await setup(t);
  for (const { name, request, status, detail } of FRONT_DOOR) {
    const raw = new RawConnection(t, gateway.url).write(request);
    const answer = await raw.answer();
    t.is(answer?.status, status, name);
    const body = JSON.parse(answer?.body ?? '{}') as { status: number; detail: string };
    t.is(body.status, status, name);
    t.regex(body.detail, detail, name);
    t.is(await raw.answer(), null, name);
  }
  const cut = new RawConnection(t, gateway.url).write(
    `POST /v2/ep/run HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${KEY}\r\nContent-Length: 9\r\n\r\n{}`,
  );
  cut.socket.end();
  t.regex((await cut.answer())?.body ?? '', /ended before the request was complete/);
});

test('offers and expectations that nobody here knows are passed over', async (t) => {
  const { scheduler, gateway } = await setup(t);
  const head = `POST /v2/ep/run HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${KEY}\r\nContent-Length: 12\r\n`;
  for (const [index, header] of [
    'Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA\r\n',
    'Expect: 200-ok\r\n',
  ].entries()) {
    const raw = new RawConnection(t, gateway.url).write(`${head}${header}\r\n{"input":{}}`);
    t.is((await raw.answer())?.status, 200, header);
    t.is(scheduler.submits.length, index + 1);
  }
});

test('HEAD and OPTIONS are answered without side effects', async (t) => {
  const { scheduler, call } = await setup(t);
  const head = await call('HEAD', '/v2/ep/stream/x');
  t.is(head.status, 405);
  t.is(head.headers['allow'], 'GET, POST');
  t.is(head.text, '');
  const options = await call('OPTIONS', '/v2/ep/run', { key: null });
  t.is(options.status, 204);
  t.is(options.headers['allow'], 'POST');
  t.is(options.headers['access-control-allow-origin'], undefined);
  t.is((await call('HEAD', '/ping', { key: null })).status, 200);
  t.is(scheduler.submits.length, 0);
});

test('origins that the operator named may call from pages', async (t) => {
  const { call } = await setup(t, { corsOrigins: ['https://app.example'] });
  const preflight = await call('OPTIONS', '/v2/ep/run', {
    key: null,
    headers: { origin: 'https://app.example', 'access-control-request-method': 'POST' },
  });
  t.is(preflight.status, 204);
  t.is(preflight.headers['access-control-allow-origin'], 'https://app.example');
  t.is(preflight.headers['access-control-allow-methods'], 'POST');
  t.regex(String(preflight.headers['access-control-allow-headers']), /Authorization/);
  // Clients in pages send headers of their own.
  const asked = {
    origin: 'https://app.example',
    'access-control-request-method': 'POST',
    'access-control-request-headers': 'x-client,authorization',
  };
  const openai = await call('OPTIONS', '/v2/ep/openai/v1/models', { key: null, headers: asked });
  t.is(openai.headers['access-control-allow-headers'], 'x-client,authorization');
  const other = await call('GET', '/v2/ep/health', { headers: { origin: 'https://evil.example' } });
  t.is(other.status, 200);
  t.is(other.headers['access-control-allow-origin'], undefined);
});
