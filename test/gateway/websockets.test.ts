/** WebSockets of load-balanced endpoints at the gateway: who may open one, what passes, what bounds them, and how they end. */
import { once } from 'node:events';

import test from 'ava';

import { closeFrame } from '../../gateway/lb/frame-boundary.ts';
import { EndpointKind } from '../../proto/gen/capstan/v1/common.ts';
import { until } from '../support/until.ts';
import { FakeAgent, type Taken } from './fake-agent.ts';
import { KEY, OPERATOR_KEY, type RawConnection } from './harness.ts';
import {
  OWN,
  NONCE,
  AUTHORIZED,
  type Handshake,
  lbGateway,
  switchTo,
  frame,
  text,
  opened,
  after,
  closed,
  metrics,
  headersOf,
} from './websocket-harness.ts';

test('the key may be among the subprotocols, as a browser can send it, and never reaches the worker', async (t) => {
  const { open, agent } = await lbGateway(t);
  const offered = async (value: string, chosen?: string): Promise<{ forwarded: string | undefined; head: string }> => {
    const from = agent.taken.items.length;
    agent.onRequest = (taken) => switchTo(taken, chosen === undefined ? {} : { 'Sec-WebSocket-Protocol': chosen });
    const connection = open({ lines: [`Sec-WebSocket-Protocol: ${value}`] });
    const head = await opened(connection);
    const taken = await agent.taken.next(() => true, from);
    t.false(JSON.stringify(taken.begin.headers).includes(KEY), value);
    connection.socket.destroy();
    return { forwarded: headersOf(taken).get('sec-websocket-protocol'), head };
  };
  // Nothing is left for a worker, which therefore selects nothing: a browser would refuse that.
  const alone = await offered(`capstan, capstan-key.${KEY}`);
  t.is(alone.forwarded, undefined);
  t.regex(alone.head, /\r\nsec-websocket-protocol: capstan\r\n/i);
  const both = await offered(`capstan,capstan-key.${KEY}, chat.v1 ,chat.v2`, 'chat.v2');
  t.is(both.forwarded, 'chat.v1, chat.v2');
  t.deepEqual(
    [...both.head.matchAll(/sec-websocket-protocol: (.*)\r\n/gi)].map(([, value]) => value),
    ['chat.v2'],
  );
  const unselected = await offered(`capstan-key.${KEY}, chat`);
  t.notRegex(unselected.head, /sec-websocket-protocol/i);

  for (const lines of [
    [],
    ['Sec-WebSocket-Protocol: capstan-key.of-nobody'],
    ['Sec-WebSocket-Protocol: capstan-key.'],
    [`Sec-WebSocket-Protocol: ${KEY}`],
    // A header of its own is the only thing that counts.
    ['Authorization: Bearer wrong', `Sec-WebSocket-Protocol: capstan-key.${KEY}`],
  ]) {
    t.is((await open({ lines }).answer())?.status, 401, lines.join());
  }
  // The query is in logs and histories.
  t.is((await open({ line: `GET /chat?key=${KEY}&capstan-key=${KEY} HTTP/1.1`, lines: [] }).answer())?.status, 401);
});

test('without our key among them subprotocols, extensions and early bytes pass as they are', async (t) => {
  const { open, agent } = await lbGateway(t);
  const extensions = 'permessage-deflate; client_max_window_bits, x-own';
  const early = Buffer.from([0x82, 0x80, 1, 2, 3, 4]);
  agent.onRequest = (taken) =>
    switchTo(taken, { 'Sec-WebSocket-Extensions': 'permessage-deflate', 'Sec-WebSocket-Accept': 'x=' }, text('hi'));
  const lines = [AUTHORIZED, `Sec-WebSocket-Extensions: ${extensions}`, 'Sec-WebSocket-Protocol: capstan, a, b'];
  const connection = open({ lines, after: early.toString('latin1') });
  const head = await opened(connection);
  const taken = await agent.taken.next(() => true);
  t.like(taken.begin, { upgrade: true, target: '/chat?x=1', ended: false });
  t.deepEqual(Buffer.from(taken.begin.body), early);
  t.is(headersOf(taken).get('sec-websocket-protocol'), 'capstan, a, b');
  t.is(headersOf(taken).get('sec-websocket-extensions'), extensions);
  t.is(headersOf(taken).get('sec-websocket-key'), NONCE.slice(19));
  t.regex(head, /connection: Upgrade\r\nupgrade: websocket\r\n/);
  t.regex(head, /Sec-WebSocket-Extensions: permessage-deflate\r\n/);
  t.notRegex(head, /sec-websocket-protocol/i);
  // Bytes are not read: also what is no frame passes.
  const bytes = Buffer.from([0xff, 0x00, 0x7f, 0x81, 0x00]);
  taken.send({ $case: 'body', value: { bytes, ended: false } });
  await until('they are here', () => after(connection).equals(Buffer.concat([text('hi'), bytes])));
  connection.write(bytes);
  const { frame: sent } = await agent.frames.next(({ frame: each }) => each?.$case === 'body');
  t.deepEqual(sent?.$case === 'body' && Buffer.from(sent.value.bytes), bytes);
});

test('both forms of address open one, and the path form carries no cookies', async (t) => {
  const { open, agent } = await lbGateway(t);
  const lines = [AUTHORIZED, 'Cookie: a=1'];
  await opened(open({ lines }));
  await opened(open({ line: 'GET /lb/own/chat?x=1 HTTP/1.1', host: 'gateway.example.org', lines }));
  const [byHost, byPath] = agent.taken.items as [Taken, Taken];
  t.deepEqual([byHost.begin.target, byPath.begin.target], ['/chat?x=1', '/chat?x=1']);
  t.deepEqual([headersOf(byHost).get('cookie'), headersOf(byPath).get('cookie')], ['a=1', undefined]);
});

test('what is no handshake is refused before a worker hears of it', async (t) => {
  const { open, agent, call } = await lbGateway(t);
  const cases: readonly [Handshake, RegExp][] = [
    [{ line: 'POST /chat HTTP/1.1' }, /opened with GET/],
    [{ line: 'GET /chat HTTP/1.0' }, /HTTP\/1\.1/],
    // The second request would otherwise be the first bytes of a connection that a proxy takes for an ordinary one.
    [{ lines: [AUTHORIZED, 'Content-Length: 5'], after: 'helloGET /admin HTTP/1.1\r\nHost: x\r\n\r\n' }, /must have no body/],
    [{ lines: [AUTHORIZED, 'Transfer-Encoding: chunked'], after: '0\r\n\r\nGET /admin HTTP/1.1\r\n\r\n' }, /must have no body/],
    [{ nonce: '' }, /Sec-WebSocket-Key/],
    [{ nonce: 'Sec-WebSocket-Key: short' }, /Sec-WebSocket-Key/],
    [{ lines: [AUTHORIZED, 'Host: other'] }, /Host: must occur once/],
    // A route of a function, and an endpoint with a queue.
    [{ line: 'GET /fn HTTP/1.1', host: 'web.lb.localhost' }, /does not accept upgrades/],
  ];
  for (const [handshake, detail] of cases) {
    const connection = open(handshake);
    const answer = await connection.answer();
    t.is(answer?.status, 400, JSON.stringify(handshake));
    t.regex((JSON.parse(answer?.body ?? '{}') as { detail: string }).detail, detail);
    connection.socket.end();
    await connection.closed;
  }
  t.is((await open({ line: 'GET /none HTTP/1.1', host: 'web.lb.localhost' }).answer())?.status, 404);
  t.is((await open({ line: 'GET / HTTP/1.1', host: 'ep.lb.localhost' }).answer())?.status, 404);
  t.is(agent.taken.items.length, 0);
  // An offer of another protocol is ignored, as HTTP permits.
  agent.onRequest = (taken) => taken.answer(200, String(taken.begin.upgrade));
  const headers = { host: OWN, connection: 'Upgrade, HTTP2-Settings', upgrade: 'h2c', 'http2-settings': 'AAMAAABkAAQCAAAAAAIAAAAA' };
  const raw = open({ line: 'GET / HTTP/1.1\r\nX-First: 1', lines: [AUTHORIZED] });
  raw.socket.destroy();
  const { 'x-none': _none, connection: _connection, upgrade: _upgrade, ...rest } = { 'x-none': '', ...headers };
  t.is((await call('GET', '/', { headers: rest })).text, 'false');
});

test('pages of other hosts act without cookies, unless the operator names their origin', async (t) => {
  const named = 'https://app.example.org';
  const { open, agent, scheduler, invokeAddress } = await lbGateway(t, { corsOrigins: `${named},*`, trustedProxies: '127.0.0.1' });
  scheduler.addEndpoint('open', 'acc', EndpointKind.LOAD_BALANCED, { isPublic: true });
  const server = new FakeAgent(t, invokeAddress, 'node-2').serve('open', { p1: 64 });
  server.onRequest = (taken) => switchTo(taken);
  const cookieFor = async (origin: string | null, host = 'open.lb.localhost', ...more: string[]): Promise<string | undefined> => {
    const from = server.taken.items.length;
    const lines = ['Cookie: session=1', ...(origin === null ? [] : [`Origin: ${origin}`]), ...more];
    await opened(open({ host, lines }));
    const taken = await server.taken.next(() => true, from);
    t.is(headersOf(taken).get('origin'), origin ?? undefined);
    return headersOf(taken).get('cookie');
  };
  for (const own of [null, 'http://open.lb.localhost', 'http://OPEN.lb.localhost:80', named])
    t.is(await cookieFor(own), 'session=1', String(own));
  t.is(await cookieFor('http://open.lb.localhost', 'open.lb.localhost:80'), 'session=1');
  t.is(
    await cookieFor('https://open.example.org', 'open.lb.localhost', 'X-Forwarded-Host: open.example.org', 'X-Forwarded-Proto: https'),
    'session=1',
  );
  for (const other of ['http://own.lb.localhost', 'http://open.lb.localhost:8081', 'https://evil.example', 'null', '*', 'http://']) {
    t.is(await cookieFor(other), undefined, other);
  }
  t.is(agent.taken.items.length, 0);
});

test('an open WebSocket is one request of its worker: it holds a slot, and is counted', async (t) => {
  const made = await lbGateway(t, {}, 1);
  const { open, agent, call, scheduler } = made;
  const first = open();
  await opened(first);
  await scheduler.reports.next(({ levels }) => levels.some(({ endpointId, inFlight }) => endpointId === 'own' && inFlight === 1));
  t.regex(await metrics(made), /^capstan_lb_requests_in_flight\{endpoint="own"\} 1$/m);
  t.regex(await metrics(made), /^capstan_lb_websockets_open\{endpoint="own"\} 1$/m);
  t.regex(await metrics(made), /^capstan_lb_requests_total\{endpoint="own",status="101"\} 1$/m);
  // The next request waits for the slot, a WebSocket as any other.
  const second = open();
  await scheduler.reports.next(({ levels }) => levels.some(({ endpointId, held }) => endpointId === 'own' && held === 1));
  const [one] = agent.taken.items as [Taken];
  first.socket.resetAndDestroy();
  await agent.frames.next(({ request, frame: each }) => request === one.number && each?.$case === 'abort');
  t.is(agent.taken.items.length, 1);
  one.send({ $case: 'abort', value: { code: 'CONFLICT', message: 'the caller disconnected', untouched: false } });
  await opened(second);
  t.regex(await metrics(made), /^capstan_lb_websockets_closed_total\{endpoint="own",reason="caller"\} 1$/m);
  const two = await agent.taken.next(({ number }) => number !== one.number);
  agent.onRequest = (taken) => taken.answer(200, 'plain');
  const plain = call('GET', '/', { headers: { host: OWN } });
  const bye = frame(0x88, Buffer.from([0x03, 0xe8]));
  two.send({ $case: 'body', value: { bytes: bye, ended: true } });
  t.is((await plain).text, 'plain');
  // The worker's own Close frame is the last.
  t.is(await closed(second), 1000);
  t.regex(await metrics(made), /^capstan_lb_websockets_closed_total\{endpoint="own",reason="closed"\} 1$/m);
  t.notRegex(await metrics(made), /^capstan_lb_websockets_open\{/m);
});

test('a caller that goes before its worker is there leaves its place, whichever way it goes', async (t) => {
  const { open, agent, scheduler, call } = await lbGateway(t, {}, 1);
  await opened(open());
  for (const leave of ['end', 'destroy', 'resetAndDestroy'] as const) {
    const from = scheduler.reports.items.length;
    const waiting = open();
    const held = (count: number) =>
      scheduler.reports.next(({ levels }) => levels.some((level) => level.endpointId === 'own' && level.held === count), from);
    await held(1);
    waiting.socket[leave]();
    await scheduler.reports.next(({ levels }) => levels.some((level) => level.endpointId === 'own' && level.held === 0), from);
    await waiting.closed;
  }
  t.is(agent.taken.items.length, 1);
  t.like(await call('GET', '/metrics?part=gateway', { key: OPERATOR_KEY, headers: { host: 'localhost' } }), { status: 200 });
});

test('a caller that goes while its key is looked up leaves nothing', async (t) => {
  const made = await lbGateway(t);
  const { open, agent, scheduler } = made;
  scheduler.announce = false;
  scheduler.addKey('key-of-late');
  const { promise, resolve } = Promise.withResolvers<void>();
  scheduler.lookupsMayEnd = promise;
  const asked = once(scheduler.events, 'lookup');
  const gone = open({ lines: ['Authorization: Bearer key-of-late'] });
  await asked;
  gone.socket.resetAndDestroy();
  await gone.closed;
  // Answered after the gateway has seen the end of that connection.
  await metrics(made);
  resolve();
  await opened(open({ lines: ['Authorization: Bearer key-of-late'] }));
  t.is(agent.taken.items.length, 1);
});

test('WebSockets are bounded for the gateway and for each account', async (t) => {
  const { open, scheduler, invokeAddress } = await lbGateway(t, { lbMaxWebSockets: 8 });
  scheduler.addKey('key-of-others', { account: 'other' });
  scheduler.addEndpoint('of-other', 'other', EndpointKind.LOAD_BALANCED);
  const server = new FakeAgent(t, invokeAddress, 'node-2').serve('of-other', { o1: 64 });
  server.onRequest = (taken) => switchTo(taken);
  const other = { host: 'of-other.lb.localhost', lines: ['Authorization: Bearer key-of-others'] };
  // As many as it leaves to others.
  for (let n = 0; n < 4; n++) await opened(open());
  const refused = await open().answer();
  t.is(refused?.status, 429);
  t.regex(refused?.head ?? '', /retry-after: 5/i);
  t.regex(refused?.body ?? '', /already has its share of the gateway.+ WebSockets/);
  // The next account has room, as many as are then left.
  await opened(open(other));
  await opened(open(other));
  t.is((await open(other).answer())?.status, 429);
});

test('callers without a key have a share by their address, beside those with one', async (t) => {
  const { open, scheduler, invokeAddress } = await lbGateway(t, { lbMaxWebSockets: 32, trustedProxies: '127.0.0.1' });
  scheduler.addEndpoint('open', 'acc', EndpointKind.LOAD_BALANCED, { isPublic: true });
  const server = new FakeAgent(t, invokeAddress, 'node-2').serve('open', { p1: 64 });
  server.onRequest = (taken) => switchTo(taken);
  const from = (address: string): RawConnection => open({ host: 'open.lb.localhost', lines: [`X-Forwarded-For: ${address}`] });
  const mine: RawConnection[] = [];
  for (let n = 0; n < 4; n++) {
    mine.push(from('203.0.113.9'));
    await opened(mine[n] as RawConnection);
  }
  t.is((await from('203.0.113.9').answer())?.status, 429);
  await opened(from('203.0.113.10'));
  await opened(open());
  // What ends makes room.
  mine[0]?.socket.resetAndDestroy();
  await until('there is room for one', async () => {
    const connection = from('203.0.113.9');
    await until('it is answered', () => connection.text.includes('\r\n\r\n'));
    return connection.text.startsWith('HTTP/1.1 101');
  });
});

test('when all are taken the gateway says so', async (t) => {
  const { open, agent } = await lbGateway(t, { lbMaxWebSockets: 1 });
  t.is((await open().answer())?.status, 503);
  t.is(agent.taken.items.length, 0);
});

for (const [setting, end, reason] of [
  ['lbWebSocketIdleMs', 'idle', /^idle for 1 s$/],
  ['lbWebSocketMaxMs', 'expired', /^open for 1 s, the maximum$/],
] as const) {
  test(`${setting} closes with 1001 after the worker's last frame, and tells the worker`, async (t) => {
    const made = await lbGateway(t, { [setting]: 1_000 });
    const connection = made.open();
    await opened(connection);
    const taken = await made.agent.taken.next(() => true);
    taken.send({ $case: 'body', value: { bytes: text('last'), ended: false } });
    t.is(await closed(connection, text('last')), 1001);
    t.regex(
      after(connection)
        .subarray(text('last').length + 4)
        .toString(),
      reason,
    );
    const { frame: abort } = await made.agent.frames.next(({ frame: each }) => each?.$case === 'abort');
    t.regex(abort?.$case === 'abort' ? abort.value.message : '', reason);
    t.regex(await metrics(made), new RegExp(`^capstan_lb_websockets_closed_total\\{endpoint="own",reason="${end}"\\} 1$`, 'm'));
  });
}

test('nothing is added within a frame, after a Close frame, or before the connection is open', async (t) => {
  const { open, agent } = await lbGateway(t);
  const long = frame(0x82, Buffer.alloc(70_000, 'x'));
  const cases: readonly [sent: Buffer, code: number | undefined][] = [
    [Buffer.alloc(0), 1012],
    [long, 1012],
    [long.subarray(0, 9), undefined],
    [long.subarray(0, 69_999), undefined],
    [Buffer.concat([text('a'), text('b').subarray(0, 1)]), undefined],
    [frame(0x01, Buffer.from('fragment')), 1012],
    [frame(0x88, Buffer.from([0x0f, 0xa0])), undefined],
  ];
  for (const [sent, code] of cases) {
    for (const ended of [true, false]) {
      const from = agent.taken.items.length;
      const connection = open();
      await opened(connection);
      const taken = await agent.taken.next(() => true, from);
      // In pieces that do not respect the frames.
      for (let at = 0; at < sent.length; at += 30_001) {
        taken.send({ $case: 'body', value: { bytes: sent.subarray(at, at + 30_001), ended: false } });
      }
      if (ended) taken.send({ $case: 'body', value: { bytes: Buffer.alloc(0), ended: true } });
      else taken.send({ $case: 'abort', value: { code: 'WORKER_LOST', message: 'the worker was killed', untouched: false } });
      t.is(await closed(connection, sent), code, `${sent.subarray(0, 10).toString('hex')} ${ended}`);
    }
  }
  agent.onRequest = (taken) => taken.send({ $case: 'abort', value: { code: 'WORKER_LOST', message: 'killed', untouched: false } });
  t.is((await open().answer())?.status, 500);
  agent.onRequest = (taken) => taken.answer(403, 'no', { 'content-length': '2' });
  t.like(await open().answer(), { status: 403, body: 'no' });
});

test('a lost agent is 1014, and the gateway’s own end 1012, without a wait for its grace time', async (t) => {
  const made = await lbGateway(t, { closeGraceMs: 600_000 });
  const { open, agent, gateway, scheduler, invokeAddress } = made;
  const first = open();
  await opened(first);
  agent.break();
  t.is(await closed(first), 1014);
  t.regex(await metrics(made), /^capstan_lb_websockets_closed_total\{endpoint="own",reason="lost"\} 1$/m);
  scheduler.addEndpoint('next', 'acc', EndpointKind.LOAD_BALANCED);
  const other = new FakeAgent(t, invokeAddress, 'node-2').serve('next', { n1: 2 });
  other.onRequest = (taken) => switchTo(taken);
  const second = open({ host: 'next.lb.localhost' });
  await opened(second);
  await gateway.close();
  t.is(await closed(second), 1012);
});

test('a WebSocket ends with its key, and those of other keys go on', async (t) => {
  const { open, scheduler, agent } = await lbGateway(t);
  scheduler.addKey('short-lived');
  const [revoked, other] = [open({ lines: ['Authorization: Bearer short-lived'] }), open()];
  await Promise.all([opened(revoked), opened(other)]);
  scheduler.revokeKey('short-lived');
  t.is(await closed(revoked), 1008);
  const [one] = agent.taken.items as [Taken, Taken];
  await agent.frames.next(({ request, frame: each }) => request === one.number && each?.$case === 'abort');
  t.false(other.socket.destroyed || other.socket.readableEnded);
});

test('a caller that closes its side alone is heard to the end, and cut when its worker says nothing', async (t) => {
  const { open, agent } = await lbGateway(t);
  const [talking, silent] = [open(), open()];
  await Promise.all([opened(talking), opened(silent)]);
  const [one, two] = agent.taken.items as [Taken, Taken];
  talking.write(text('bye')).socket.end();
  silent.socket.end();
  const isEnd = (taken: Taken) =>
    agent.frames.next(({ request, frame: each }) => request === taken.number && each?.$case === 'body' && each.value.ended);
  await Promise.all([isEnd(one), isEnd(two)]);
  one.send({ $case: 'body', value: { bytes: text('bye'), ended: true } });
  t.is(await closed(talking, text('bye')), 1012);
  t.is(await closed(silent), 1001);
  await agent.frames.next(({ request, frame: each }) => request === two.number && each?.$case === 'abort');
});

test('a slow reader stops its worker, and a slow worker its caller', async (t) => {
  const { open, agent } = await lbGateway(t);
  const connection = open();
  await opened(connection);
  const taken = await agent.taken.next(() => true);
  connection.socket.pause();
  const credit = (): number => agent.frames.items.reduce((sum, { frame: each }) => sum + (each?.$case === 'credit' ? each.value : 0), 0);
  const piece = Buffer.alloc(64 * 1024, 'x');
  let sent = 0;
  // Until the buffers of the system are full: from then on no credit is granted.
  for (let granted = -1; granted < credit() || sent - granted < 256 * 1024;) {
    granted = credit();
    while (sent - credit() < 256 * 1024) {
      taken.send({ $case: 'body', value: { bytes: piece, ended: false } });
      sent += piece.length;
    }
    const before = granted;
    await until('credit, or none', () => credit() > before || sent - credit() >= 256 * 1024);
    if (sent > 64 * 1024 * 1024) break;
  }
  t.true(sent < 64 * 1024 * 1024, 'the worker was not stopped');
  connection.socket.resume();
  await until('all is read', () => after(connection).length === sent);

  // In the other direction the gateway sends what the worker's window takes, and reads no more.
  const big = Buffer.alloc(16 * 1024 * 1024, 'y');
  connection.write(big);
  const got = (): number =>
    agent.frames.items.reduce((sum, { frame: each }) => sum + (each?.$case === 'body' ? each.value.bytes.length : 0), 0);
  await until('the window is full', () => got() >= 256 * 1024);
  t.true(got() < 1024 * 1024, String(got()));
  t.true(connection.socket.writableLength > 0);
  let seen = 0;
  await until('the worker has it all', () => {
    const now = got();
    if (now > seen) taken.send({ $case: 'credit', value: now - seen });
    seen = now;
    return now === big.length;
  });
});

test('a reason of the gateway is cut between characters', (t) => {
  for (const [reason, sent] of [
    ['the worker ended', 'the worker ended'],
    [`${'x'.repeat(122)}ü`, 'x'.repeat(122)],
    ['😀'.repeat(31), '😀'.repeat(30)],
  ] as const) {
    const frame = closeFrame(1012, reason);
    t.is(frame.subarray(4).toString(), sent);
    t.deepEqual([frame[1], frame.readUInt16BE(2)], [frame.length - 2, 1012]);
  }
});
