/**
 * What a caller may get wrong: each has its status and a message that names field and rule, nothing
 * reaches the scheduler, and the connection goes on working.
 */
import test from 'ava';
import fc from 'fast-check';

import { KEY, RawConnection, setup, type CallOptions } from './harness.ts';

interface Wrong extends CallOptions {
  readonly name: string;
  readonly method?: string;
  readonly path?: string;
  readonly status: number;
  readonly detail: RegExp | string;
}

const POLICY_TTL = 'bad request: policy.ttl: must be an integer between 10000 and 604800000 milliseconds';
const POLICY_EXECUTION = 'bad request: policy.executionTimeout: must be an integer between 5000 and 604800000 milliseconds';
const withInput = (more: object): string => JSON.stringify({ input: {}, ...more });

const wrongs: Wrong[] = [
  { name: 'not JSON', body: '{"input":', status: 400, detail: 'bad request: body: must be JSON: unexpected end of text at byte 9' },
  {
    name: 'text after the JSON',
    body: '{"input":{}} x',
    status: 400,
    detail: /^bad request: body: must be JSON: unexpected text at byte 13$/,
  },
  { name: 'single quotes', body: "{'input':{}}", status: 400, detail: /body: must be JSON/ },
  { name: 'an empty body', body: '', status: 400, detail: 'bad request: body: must be a JSON object with the key input' },
  { name: 'an array', body: '[{"input":{}}]', status: 400, detail: 'bad request: body: must be a JSON object' },
  { name: 'null', body: 'null', status: 400, detail: /body: must be a JSON object/ },
  { name: 'no input', body: '{}', status: 400, detail: 'bad request: input: is required and must be an object' },
  { name: 'no input, but the prototype’s', body: '{"__proto__":{"input":{}}}', status: 400, detail: /input: is required/ },
  { name: 'input is null', body: '{"input":null}', status: 400, detail: 'bad request: input: must be an object' },
  { name: 'input is an array', body: '{"input":[]}', status: 400, detail: /input: must be an object/ },
  { name: 'input is text', body: '{"input":"{}"}', status: 400, detail: /input: must be an object/ },
  { name: 'the last input of two is no object', body: '{"input":{},"input":1}', status: 400, detail: /input: must be an object/ },
  {
    name: 'nesting without end',
    body: `{"input":${'{"a":'.repeat(100_000)}1${'}'.repeat(100_000)}}`,
    status: 400,
    detail: /body: must not be nested deeper than 512/,
  },
  { name: 'brackets without end', body: `{"input":{"a":${'['.repeat(1_000_000)}`, status: 400, detail: /nested deeper/ },
  {
    name: 'invalid UTF-8',
    body: Buffer.from([...Buffer.from('{"input":{"a":"'), 0xc3, 0x28, ...Buffer.from('"}}')]),
    status: 400,
    detail: 'bad request: body: must be UTF-8 text',
  },
  { name: 'UTF-16', body: Buffer.from('{"input":{}}', 'utf16le'), status: 400, detail: /body: must be/ },
  { name: 'a raw NUL', body: '{"input":{"a":"\u0000"}}', status: 400, detail: /body: must be JSON/ },
  { name: 'ttl too small', body: withInput({ policy: { ttl: 9999 } }), status: 400, detail: POLICY_TTL },
  { name: 'ttl too large', body: withInput({ policy: { ttl: 604_800_001 } }), status: 400, detail: POLICY_TTL },
  { name: 'ttl beyond numbers', body: '{"input":{},"policy":{"ttl":1e999}}', status: 400, detail: POLICY_TTL },
  { name: 'ttl negative', body: withInput({ policy: { ttl: -1 } }), status: 400, detail: POLICY_TTL },
  { name: 'ttl not whole', body: withInput({ policy: { ttl: 10_000.5 } }), status: 400, detail: POLICY_TTL },
  { name: 'ttl as text', body: withInput({ policy: { ttl: '10000' } }), status: 400, detail: POLICY_TTL },
  { name: 'executionTimeout too small', body: withInput({ policy: { executionTimeout: 4999 } }), status: 400, detail: POLICY_EXECUTION },
  {
    name: 'executionTimeout too large',
    body: withInput({ policy: { executionTimeout: 604_800_001 } }),
    status: 400,
    detail: POLICY_EXECUTION,
  },
  {
    name: 'lowPriority as text',
    body: withInput({ policy: { lowPriority: 'yes' } }),
    status: 400,
    detail: 'bad request: policy.lowPriority: must be true or false',
  },
  { name: 'policy an array', body: withInput({ policy: [] }), status: 400, detail: 'bad request: policy: must be an object' },
  {
    name: 'policy too long',
    body: withInput({ policy: { x: 'x'.repeat(20_000) } }),
    status: 400,
    detail: /policy: must be at most 16384 bytes long/,
  },
  { name: 'webhook a number', body: withInput({ webhook: 5 }), status: 400, detail: 'bad request: webhook: must be an http or https URL' },
  {
    name: 'webhook without scheme',
    body: withInput({ webhook: 'example.com/x' }),
    status: 400,
    detail: /webhook: must be an http or https URL/,
  },
  {
    name: 'webhook with another scheme',
    body: withInput({ webhook: 'file:///etc/passwd' }),
    status: 400,
    detail: /webhook: must be an http or https URL/,
  },
  {
    name: 'webhook with a line break',
    body: withInput({ webhook: 'https://a.example/\r\nx: y' }),
    status: 400,
    detail: /webhook: must be/,
  },
  {
    name: 'webhook with a lone surrogate',
    body: '{"input":{},"webhook":"https://a.example/\\ud800"}',
    status: 400,
    detail: /webhook: must be/,
  },
  {
    name: 'webhook too long',
    body: withInput({ webhook: `https://a.example/${'x'.repeat(2048)}` }),
    status: 400,
    detail: /webhook: must be at most 2048 characters long/,
  },
  { name: 's3Config text', body: withInput({ s3Config: 'x' }), status: 400, detail: 'bad request: s3Config: must be an object' },
  { name: 's3Config list', body: withInput({ s3Config: [] }), status: 400, detail: 'bad request: s3Config: must be an object' },
  {
    name: 'Idempotency-Key with a space',
    body: withInput({}),
    headers: { 'idempotency-key': 'a b' },
    status: 400,
    detail: /Idempotency-Key: must be 1 to 255 visible ASCII/,
  },
  {
    name: 'Idempotency-Key too long',
    body: withInput({}),
    headers: { 'idempotency-key': 'x'.repeat(256) },
    status: 400,
    detail: /Idempotency-Key/,
  },
  {
    name: 'a wait that is no number',
    path: '/v2/ep/runsync?wait=soon',
    body: withInput({}),
    status: 400,
    detail: 'bad request: wait: must be a number of milliseconds',
  },
  { name: 'an empty wait', path: '/v2/ep/runsync?wait=', body: withInput({}), status: 400, detail: /wait: must be a number/ },
  { name: 'two waits', path: '/v2/ep/runsync?wait=1000&wait=2000', body: withInput({}), status: 400, detail: /wait: must be a number/ },
  { name: 'a wait beyond numbers', path: '/v2/ep/status-sync/x?wait=NaN', method: 'GET', status: 400, detail: /wait/ },
  {
    name: 'a text body',
    body: 'input',
    headers: { 'content-type': 'text/plain' },
    status: 415,
    detail: 'unsupported media type: Content-Type: must be application/json in UTF-8, not "text/plain"',
  },
  {
    name: 'a form',
    body: 'input=1',
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
    status: 415,
    detail: /Content-Type: must be application\/json/,
  },
  {
    name: 'another charset',
    body: '{"input":{}}',
    headers: { 'content-type': 'application/json; charset=latin1' },
    status: 415,
    detail: /charset=latin1/,
  },
  { name: 'a broken content type', body: '{"input":{}}', headers: { 'content-type': ';;;' }, status: 415, detail: /Content-Type/ },
  {
    name: 'gzip',
    body: '{"input":{}}',
    headers: { 'content-encoding': 'gzip' },
    status: 415,
    detail: 'unsupported media type: Content-Encoding: must be absent: "gzip" is not supported',
  },
  { name: 'an unknown route', method: 'GET', path: '/v2/ep/nothing', status: 404, detail: /^not found: no such route/ },
  {
    name: 'an unknown route with a strange body',
    path: '/v3/x',
    body: 'x',
    headers: { 'content-type': 'text/plain' },
    status: 404,
    detail: /no such route/,
  },
  {
    name: 'an unknown endpoint',
    path: '/v2/none/run',
    body: withInput({}),
    status: 404,
    detail: 'not found: endpoint "none" does not exist',
  },
  {
    name: 'an endpoint id with a NUL',
    path: '/v2/e%00p/run',
    body: withInput({}),
    status: 404,
    detail: /endpoint "e\\u0000p" does not exist/,
  },
  { name: 'an endpoint id too long', path: `/v2/${'e'.repeat(600)}/run`, body: withInput({}), status: 404, detail: /not found: path/ },
  { name: 'an unknown job', method: 'GET', path: '/v2/ep/status/none', status: 404, detail: 'not found: job none does not exist' },
  { name: 'a job id with a NUL', method: 'GET', path: '/v2/ep/status/a%00b', status: 404, detail: /job "a\\u0000b" does not exist/ },
  { name: 'a job id that is not ASCII', method: 'GET', path: '/v2/ep/status/%F0%9F%98%80', status: 404, detail: /does not exist/ },
  {
    name: 'bad percent-encoding',
    method: 'GET',
    path: '/v2/ep/status/%E0%A4%A',
    status: 400,
    detail: 'bad request: path: is not a valid URL path',
  },
  {
    name: 'cancel without an id',
    path: '/v2/ep/cancel',
    body: '',
    status: 400,
    detail: 'bad request: id: is required, as a path segment, as ?id= or as {"id":…}',
  },
  { name: 'cancel with a number', path: '/v2/ep/cancel', body: '{"id":5}', status: 400, detail: 'bad request: id: must be a string' },
  { name: 'retry of an unknown job', path: '/v2/ep/retry/none', body: '', status: 404, detail: 'not found: job none does not exist' },
  { name: 'stream without an id', method: 'GET', path: '/v2/ep/stream', status: 400, detail: /id: is required/ },
  {
    name: 'requests of an unknown status',
    method: 'GET',
    path: '/v2/ep/requests?status=DONE',
    status: 400,
    detail: /^bad request: status: must be one of IN_QUEUE, /,
  },
  {
    name: 'requests with limit 0',
    method: 'GET',
    path: '/v2/ep/requests?limit=0',
    status: 400,
    detail: 'bad request: limit: must be an integer between 1 and 100',
  },
  { name: 'requests with limit 101', method: 'GET', path: '/v2/ep/requests?limit=101', status: 400, detail: /limit: must be/ },
  {
    name: 'requests with a negative offset',
    method: 'GET',
    path: '/v2/ep/requests?offset=-1',
    status: 400,
    detail: /offset: must be an integer/,
  },
  { name: 'GET run', method: 'GET', path: '/v2/ep/run', status: 405, detail: 'method not allowed: GET is not allowed here; use POST' },
  { name: 'DELETE status', method: 'DELETE', path: '/v2/ep/status/x', status: 405, detail: /use GET, POST$/ },
  { name: 'POST health', path: '/v2/ep/health', body: '{}', status: 405, detail: /use GET$/ },
  {
    name: 'PUT with a body',
    method: 'PUT',
    path: '/v2/ep/run',
    body: 'zzz',
    headers: { 'content-type': 'text/plain' },
    status: 405,
    detail: /use POST$/,
  },
  { name: 'TRACE', method: 'TRACE', path: '/v2/ep/run', status: 405, detail: /TRACE is not allowed here/ },
];

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
