/** Responses that no caller may get: a hostile agent sends them, the gateway answers 500 and serves everybody else. */
import test from 'ava';

import { EndpointKind } from '../../proto/gen/capstan/v1/common.ts';
import type { Header } from '../../proto/gen/capstan/v1/invoke.ts';
import { FakeAgent, type Taken } from './fake-agent.ts';
import { KEY, RawConnection } from './harness.ts';
import { HOST, setupLb } from './lb-harness.ts';

interface Response {
  readonly status?: number;
  readonly headers?: readonly (readonly [string, string])[];
  readonly body?: string;
}

const named = (headers: Response['headers'] = []): Header[] => headers.map(([name, value]) => ({ name, value }));

function answer({ send }: Taken, { status = 200, headers, body = 'x' }: Response): void {
  send({ $case: 'head', value: { status, headers: named(headers), body: Buffer.from(body), ended: true } });
}

const head = (host: string, ...lines: string[]): string =>
  `${['GET /fn HTTP/1.1', `Host: ${host}`, `Authorization: Bearer ${KEY}`, ...lines].join('\r\n')}\r\n\r\n`;

const UPGRADE = ['Connection: Upgrade', 'Upgrade: websocket', 'Sec-WebSocket-Version: 13', 'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=='];

const VALUE = 'has characters that are not allowed';
const invalid: Readonly<Record<string, readonly [Response, string]>> = {
  'a value beyond Latin-1': [{ headers: [['x-name', '你好']] }, `the value of the header "x-name" ${VALUE}`],
  'a line break in a value': [{ headers: [['x-name', 'a\r\nset-cookie: b=1']] }, `the value of the header "x-name" ${VALUE}`],
  'a lone line feed in a value': [{ headers: [['x-name', 'a\nb']] }, VALUE],
  'a zero byte in a value': [{ headers: [['x-name', 'a\u0000b']] }, VALUE],
  'a line break in a name': [{ headers: [['x\r\ny', 'a']] }, 'the header name "x\\r\\ny" is not a token'],
  'a space in a name': [{ headers: [['x name', 'a']] }, 'the header name "x name" is not a token'],
  'an empty name': [{ headers: [['', 'a']] }, 'the header name "" is not a token'],
  'a colon in a name': [{ headers: [['x:', 'a']] }, 'is not a token'],
  'status 0': [{ status: 0 }, 'the status of a response must be an integer from 200 to 599, not 0'],
  'status 99': [{ status: 99 }, 'from 200 to 599, not 99'],
  'status 100': [{ status: 100 }, 'from 200 to 599, not 100'],
  'status 101 without an upgrade': [{ status: 101 }, 'the status 101 is allowed only for upgrade requests'],
  'status 103': [{ status: 103 }, 'from 200 to 599, not 103'],
  'status 600': [{ status: 600 }, 'from 200 to 599, not 600'],
  'status 99999': [{ status: 99_999 }, 'from 200 to 599, not 99999'],
  'status 4294967295': [{ status: 4_294_967_295 }, 'from 200 to 599, not 4294967295'],
  'two content-lengths': [
    {
      headers: [
        ['content-length', '1'],
        ['Content-Length', '1'],
      ],
    },
    'the header content-length must occur once',
  ],
  'a list of content-lengths': [{ headers: [['content-length', '1, 1']] }, 'must be a number of bytes, not "1, 1"'],
  'a negative content-length': [{ headers: [['content-length', '-1']] }, 'must be a number of bytes'],
  'a hexadecimal content-length': [{ headers: [['content-length', '0x1']] }, 'must be a number of bytes'],
  'a huge content-length': [{ headers: [['content-length', '9'.repeat(400)]] }, 'must be a number of bytes'],
  'an empty content-length': [{ headers: [['content-length', '']] }, 'must be a number of bytes'],
  'a content-length above the body': [{ headers: [['content-length', '2']] }, 'has 1 bytes, but its content-length is 2'],
  'a content-length below the body': [{ headers: [['content-length', '0']] }, 'longer than its content-length of 0 bytes'],
  'content-length beside transfer-encoding': [
    {
      headers: [
        ['content-length', '1'],
        ['transfer-encoding', 'chunked'],
      ],
    },
    'the headers content-length and transfer-encoding must not be combined',
  ],
  'another transfer-encoding': [{ headers: [['transfer-encoding', 'gzip, chunked']] }, 'must be absent or chunked'],
  'a body with 205': [{ status: 205 }, 'longer than its content-length of 0 bytes'],
  'headers above 64 KiB': [{ headers: [['x-name', 'a'.repeat(65_536)]] }, 'must have at most 65536 bytes'],
};

test('an invalid head is 500 {error, detail} for its caller alone, over HTTP and on a connection to be handed over', async (t) => {
  const { call, gateway, scheduler, invokeAddress } = await setupLb(t);
  scheduler.addEndpoint('own', 'acc', EndpointKind.LOAD_BALANCED);
  const agent = new FakeAgent(t, invokeAddress).serve('web', { w1: 64 });
  const server = new FakeAgent(t, invokeAddress, 'node-2').serve('own', { w2: 64 });
  while ((await call('GET', '/', { headers: { host: 'own.lb.localhost', 'x-probe': '' }, key: null })).status === 404);
  for (const [what, [response, reason]] of Object.entries(invalid)) {
    agent.onRequest = (taken) => answer(taken, response);
    const refused = await call('GET', '/fn');
    t.is(refused.status, 500, what);
    t.is(refused.json['error'], 'Internal Server Error', what);
    t.true(String(refused.json['detail']).includes(reason), `${what}: ${refused.text}`);
    t.is(refused.headers['set-cookie'], undefined, what);

    if (response.status === 101) continue;
    server.onRequest = (taken) => answer(taken, response);
    const socket = new RawConnection(t, gateway.url).write(head('own.lb.localhost', ...UPGRADE));
    const taken = await socket.answer();
    t.is(taken?.status, 500, what);
    t.true((JSON.parse(taken?.body ?? '{}') as { detail: string }).detail.includes(reason), what);
  }
  agent.onRequest = (taken) => answer(taken, { body: '"served"' });
  t.is((await call('GET', '/fn')).text, '"served"');
});

test('frames out of order end their own request alone', async (t) => {
  const { call, invokeAddress } = await setupLb(t);
  const agent = new FakeAgent(t, invokeAddress).serve('web', { w1: 64 });
  const whole = { status: 200, headers: [], body: Buffer.from('x'), ended: false };
  agent.onRequest = ({ send, begin }) => {
    if (begin.target !== '/fn?early') send({ $case: 'head', value: whole });
    if (begin.target === '/fn?twice') send({ $case: 'head', value: whole });
    send({ $case: 'body', value: { bytes: Buffer.from('y'), ended: true } });
    send({ $case: 'body', value: { bytes: Buffer.from('z'), ended: true } });
    send({ $case: 'abort', value: { code: 'INTERNAL', message: 'late', untouched: true } });
    send({ $case: 'credit', value: 4_294_967_295 });
  };
  t.like(await call('GET', '/fn?early'), { status: 500, json: { detail: 'the response has a body before its head' } });
  await t.throwsAsync(call('GET', '/fn?twice'));
  t.like(await call('GET', '/fn'), { status: 200, text: 'xy' });
});

test('a body that is not as long as its head says is cut, so that no later response is read into it', async (t) => {
  const { call, gateway, invokeAddress } = await setupLb(t);
  const agent = new FakeAgent(t, invokeAddress).serve('web', { w1: 64 });
  for (const [length, rest] of [
    ['4', '56789'],
    ['100', '5'],
  ] as const) {
    agent.onRequest = ({ send }) => {
      const headers = named([['content-length', length]]);
      send({ $case: 'head', value: { status: 200, headers, body: Buffer.from('123'), ended: false } });
      send({ $case: 'body', value: { bytes: Buffer.from(rest), ended: true } });
    };
    const connection = new RawConnection(t, gateway.url).write(head(HOST));
    await connection.closed;
    t.regex(connection.text, /^HTTP\/1\.1 200 OK\r\n/);
    t.true(connection.text.endsWith('\r\n\r\n123'), connection.text);
  }
  // HEAD, 204 and 304 have no body, whatever their content-length says.
  agent.onRequest = (taken) =>
    answer(taken, { status: taken.begin.method === 'HEAD' ? 200 : 304, headers: [['content-length', '1000']], body: '' });
  t.like(await call('HEAD', '/fn'), { status: 200, headers: { 'content-length': '1000' } });
  t.is((await call('GET', '/fn')).status, 304);
  agent.onRequest = (taken) => answer(taken, { status: 204, headers: [['content-length', '0']], body: '' });
  const empty = await call('GET', '/fn');
  t.is(empty.status, 204);
  t.is(empty.headers['content-length'], undefined);
});

test('a response that ignores its credit is cut: a caller that does not read costs no memory', async (t) => {
  const { gateway, invokeAddress } = await setupLb(t);
  const agent = new FakeAgent(t, invokeAddress).serve('web', { w1: 64 });
  const connection = new RawConnection(t, gateway.url).write(head(HOST));
  connection.socket.pause();
  const taken = await agent.taken.next(() => true);
  taken.send({ $case: 'head', value: { status: 200, headers: [], body: Buffer.alloc(0), ended: false } });
  const bytes = Buffer.alloc(64 * 1024);
  const aborted = agent.frames.next(({ frame }) => frame?.$case === 'abort');
  for (let sent = 0; sent < 1_000; sent += 1) taken.send({ $case: 'body', value: { bytes, ended: false } });
  t.like(await aborted, { frame: { value: { code: 'INTERNAL', message: 'the agent exceeded its flow-control credit' } } });
  connection.socket.resume();
  await connection.closed;
});

test('hop-by-hop headers are removed, with those that Connection names; the bytes of Latin-1 go on', async (t) => {
  const { call, invokeAddress } = await setupLb(t);
  const agent = new FakeAgent(t, invokeAddress).serve('web', { w1: 64 });
  agent.onRequest = (taken) =>
    answer(taken, {
      headers: [
        ['Connection', 'close, X-Secret'],
        ['Keep-Alive', 'timeout=1'],
        ['Transfer-Encoding', 'chunked'],
        ['Upgrade', 'h2c'],
        ['Trailer', 'x-later'],
        ['X-Secret', 'a'],
        ['X-Name', 'caf\u00e9\ta'],
        ['set-cookie', 'a=1'],
        ['set-cookie', 'b=2'],
      ],
    });
  const { status, headers } = await call('GET', '/fn');
  t.is(status, 200);
  t.is(headers['x-name'], 'caf\u00e9\ta');
  t.deepEqual(headers['set-cookie'], ['a=1', 'b=2']);
  for (const name of ['keep-alive', 'upgrade', 'trailer', 'x-secret']) {
    if (name !== 'keep-alive') t.is(headers[name], undefined, name);
    else t.not(headers[name], 'timeout=1');
  }
  t.not(headers['connection'], 'close, X-Secret');
});
