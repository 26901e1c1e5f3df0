/** What every runtime must do alike with WebSockets of functions: the parameter `websocket`, in all languages. */
import test, { type ExecutionContext } from 'ava';

import { HTTP_WINDOW_BYTES, type HttpRequest } from '../../../agent/runtimes/runtime.ts';
import { folderOf } from '../../support/folder.ts';
import type { HttpBuild } from './functions-http.ts';
import { answered, ask, bodyOf, type Asked, type MakeRuntime } from './http-suite.ts';
import { startWorkerOf, type TestWorker } from './worker-under-test.ts';

const TEXT = 1;
const BINARY = 2;
const CLOSE = 8;
const PING = 9;
const PONG = 10;
/** Of RFC 6455, section 1.3. */
const NONCE = 'dGhlIHNhbXBsZSBub25jZQ==';
const ACCEPT = 's3pPLMBiTxaQ9kYGzzhZRbK+xOo=';

/** A frame of a client. */
function masked(opcode: number, payload: Buffer | string, { isFinal = true, isMasked = true, rsv = 0 } = {}): Buffer {
  const data = Buffer.from(payload as string);
  const { length } = data;
  const head = Buffer.alloc(length < 126 ? 2 : length < 65_536 ? 4 : 10);
  head[0] = (isFinal ? 0x80 : 0) | rsv | opcode;
  head[1] = (isMasked ? 0x80 : 0) | (length < 126 ? length : length < 65_536 ? 126 : 127);
  if (head.length === 4) head.writeUInt16BE(length, 2);
  if (head.length === 10) head.writeBigUInt64BE(BigInt(length), 2);
  const mask = isMasked ? Buffer.from([7, 11, 13, 17]) : Buffer.alloc(0);
  return Buffer.concat([head, mask, isMasked ? data.map((byte, i) => byte ^ (mask[i & 3] ?? 0)) : data]);
}

interface Frame {
  readonly opcode: number;
  readonly data: Buffer;
}

/** The whole frames of a server. */
function framesOf(bytes: Buffer): Frame[] {
  const found: Frame[] = [];
  for (let at = 0; at + 2 <= bytes.length;) {
    const short = bytes[at + 1] ?? 0;
    const extra = short === 126 ? 2 : short === 127 ? 8 : 0;
    if (at + 2 + extra > bytes.length) break;
    const length = extra === 0 ? short : extra === 2 ? bytes.readUInt16BE(at + 2) : Number(bytes.readBigUInt64BE(at + 2));
    const from = at + 2 + extra;
    if (from + length > bytes.length) break;
    found.push({ opcode: (bytes[at] ?? 0) & 0x0f, data: bytes.subarray(from, from + length) });
    at = from + length;
  }
  return found;
}

const upgrade = (room = '', more: readonly (readonly [string, string])[] = []): Partial<HttpRequest> => ({
  url: `http://host.test/chat${room === '' ? '' : `?room=${room}`}`,
  upgrade: true,
  ended: false,
  headers: [['sec-websocket-key', NONCE], ['sec-websocket-version', '13'], ['x-own', 'kept'], ...more],
});

interface Open extends Asked {
  frame(fits: (frame: Frame) => boolean): Promise<Frame>;
  closed(): Promise<readonly [code: number, reason: string]>;
}

function open(asked: Asked): Open {
  const frame: Open['frame'] = async (fits) => {
    const found = (): Frame | undefined => framesOf(bodyOf(asked.heard)).find(fits);
    await asked.heard.next(() => found() !== undefined);
    return found() as Frame;
  };
  return {
    ...asked,
    frame,
    async closed() {
      const { data } = await frame(({ opcode }) => opcode === CLOSE);
      await asked.heard.next(({ on }) => on === 'ended');
      return [data.readUInt16BE(0), data.subarray(2).toString()];
    },
  };
}

const says = (text: string) => (frame: Frame) => frame.opcode === TEXT && frame.data.toString() === text;

export function webSocketConformance(name: string, makeRuntime: MakeRuntime, build: HttpBuild): void {
  const workerOf = async (t: ExecutionContext): Promise<TestWorker> => {
    const folder = await folderOf(t, build.files);
    const runtime = await makeRuntime(t);
    t.teardown(() => runtime.close());
    const worker = startWorkerOf(runtime, folder, '', { functions: build.functions, servesHttp: true, maxConcurrency: 8 });
    await worker.hear('loaded');
    return worker;
  };

  for (const fn of ['chat', 'chatNow']) {
    test(`${name}: ${fn} has the caller's WebSocket: messages, subprotocols, ends`, async (t) => {
      const worker = await workerOf(t);
      const socket = open(ask(worker, fn, upgrade('a', [['sec-websocket-protocol', 'v1, v2']])));
      t.like(await socket.heard.next(({ on }) => on === 'head'), {
        status: 101,
        headers: { 'sec-websocket-accept': ACCEPT, 'sec-websocket-protocol': 'v2' },
      });
      t.truthy(await socket.frame(says('{"room":"a","protocols":["v1","v2"],"own":"kept"}')));
      // In pieces that do not respect the frames, of every form of length.
      for (const length of [0, 125, 126, 65_535, 65_536, 200_000]) {
        const data = Buffer.alloc(length, `${length}`);
        const sent = masked(BINARY, data);
        for (let at = 0; at < sent.length; at += 50_001) socket.call.body(sent.subarray(at, at + 50_001), false);
        await socket.frame((frame) => frame.opcode === BINARY && frame.data.equals(data));
      }
      // Fragments, with a ping between them.
      socket.call.body(Buffer.concat([masked(TEXT, 'grüß', { isFinal: false }), masked(PING, 'alive'), masked(0, ' dich')]), false);
      await socket.frame(says('grüß dich'));
      t.is((await socket.frame(({ opcode }) => opcode === PONG)).data.toString(), 'alive');
      // The caller ends it.
      const code = Buffer.from([0x0f, 0xa2]);
      socket.call.body(masked(CLOSE, Buffer.concat([code, Buffer.from('enough')])), false);
      t.deepEqual(await socket.closed(), [4002, '']);
      await worker.hear('log', ({ text }) => text === 'closed with 4002 enough');

      // The function ends it: by itself, with its end, with an error.
      for (const [message, ...end] of [
        ['bye', 4001, 'as asked'],
        ['return', 1000, ''],
        ['boom', 1011, 'it broke'],
      ] as const) {
        const other = open(ask(worker, fn, { ...upgrade('lazy'), body: masked(TEXT, message) }));
        t.deepEqual(await other.closed(), end);
      }
      await worker.hear('log', ({ stream, text }) => stream === 'stderr' && text.includes('it broke'));
      // The caller goes without a word, in order or not.
      const left = open(ask(worker, fn, upgrade()));
      await left.frame(({ opcode }) => opcode === TEXT);
      left.call.body(Buffer.alloc(0), true);
      t.deepEqual(await left.closed(), [1000, '']);
      await worker.hear('log', ({ text }) => /^closed with 1006 ?$/.test(text));
      const cut = open(ask(worker, fn, upgrade()));
      await cut.frame(({ opcode }) => opcode === TEXT);
      cut.call.abort(false);
      await cut.heard.next(({ on }) => on === 'ended');
      t.is((await answered(ask(worker, 'hello', { method: 'POST', body: Buffer.from('{"name":"Ada"}') }))).status, 200);
    });

    test(`${name}: ${fn} cannot send a code that is reserved, and its reason stays text`, async (t) => {
      const worker = await workerOf(t);
      const socket = open(ask(worker, fn, upgrade('lazy')));
      for (const code of [0, 999, 1004, 1005, 1006, 1015, 1016, 2999, 5000, 65_536]) {
        socket.call.body(masked(TEXT, `close ${code}`), false);
        const { data } = await socket.frame(({ data: text }) => text.toString().includes(`code: ${code} may not be sent`));
        t.regex(data.toString(), /^(RangeError|ValueError) code: \d+ may not be sent; use 1000, or 3000 to 4999/);
      }
      // 122 bytes, and then characters of several bytes.
      for (const [reason, sent] of [
        ['x'.repeat(123), 'x'.repeat(123)],
        [`${'x'.repeat(122)}ü`, 'x'.repeat(122)],
        [`${'x'.repeat(121)}€€`, 'x'.repeat(121)],
        [`${'x'.repeat(120)}😀`, 'x'.repeat(120)],
        ['€'.repeat(60), '€'.repeat(41)],
      ] as const) {
        const other = open(ask(worker, fn, { ...upgrade('lazy'), body: masked(TEXT, `close 4000 ${reason}`) }));
        t.deepEqual(await other.closed(), [4000, sent]);
      }
      for (const code of [1000, 1001, 1003, 1007, 1011, 1012, 1014, 3000, 4999]) {
        const other = open(ask(worker, fn, { ...upgrade('lazy'), body: masked(TEXT, `close ${code}`) }));
        t.deepEqual(await other.closed(), [code, '']);
      }
    });

    test(`${name}: ${fn} comes to an end when its worker is ended with an open WebSocket`, async (t) => {
      const worker = await workerOf(t);
      const socket = open(ask(worker, fn, upgrade()));
      await socket.frame(({ opcode }) => opcode === TEXT);
      worker.worker.end(false);
      t.is((await socket.heard.next(({ on }) => on === 'ended' || on === 'failed')).on, 'ended');
      t.is((await worker.hear('exited')).detail, 'the worker was stopped');
    });

    test(`${name}: ${fn} may refuse a WebSocket, and is called for nothing else`, async (t) => {
      const worker = await workerOf(t);
      const refused = await answered(ask(worker, fn, upgrade('closed')));
      t.like(refused, { status: 403, body: Buffer.from('no room') });
      t.like(await answered(ask(worker, fn, upgrade('unused'))), { status: 200, json: { unused: true } });
      const old = await answered(ask(worker, fn, { ...upgrade(), headers: [['sec-websocket-version', '8']] }));
      t.is(old.status, 426);
      t.is(old.headers['sec-websocket-version'], '13');
      const plain = await answered(ask(worker, fn));
      t.like(plain, { status: 400, json: { detail: 'websocket: is required' } });
      // A function that knows nothing of WebSockets answers as always.
      t.is((await answered(ask(worker, 'item', { ...upgrade(), pathValues: { id: '7' } }))).status, 200);
    });

    test(`${name}: ${fn} is protected from frames that break the protocol, and from slow callers`, async (t) => {
      const worker = await workerOf(t);
      const long = masked(BINARY, '');
      long[1] = 0xff;
      const huge = Buffer.concat([long.subarray(0, 2), Buffer.from([0, 0, 0, 0, 1, 0, 0, 1]), Buffer.alloc(4)]);
      for (const [bytes, code] of [
        [masked(TEXT, 'x', { isMasked: false }), 1002],
        [masked(TEXT, 'x', { rsv: 0x40 }), 1002],
        [masked(3, 'x'), 1002],
        [masked(11, 'x'), 1002],
        [masked(PING, 'x', { isFinal: false }), 1002],
        [masked(PING, Buffer.alloc(126)), 1002],
        [masked(0, 'x'), 1002],
        [Buffer.concat([masked(TEXT, 'x', { isFinal: false }), masked(TEXT, 'y')]), 1002],
        [masked(TEXT, Buffer.from([0xff])), 1007],
        [masked(CLOSE, Buffer.from([3])), 1002],
        [masked(CLOSE, Buffer.from([3, 0xed])), 1002],
        [masked(CLOSE, Buffer.from([7, 0xd0])), 1002],
        [masked(CLOSE, Buffer.from([3, 0xe8, 0xff])), 1007],
        [huge, 1009],
      ] as const) {
        const socket = open(ask(worker, fn, { ...upgrade('lazy'), body: bytes }));
        t.is((await socket.closed())[0], code, bytes.toString('hex').slice(0, 40));
      }
      // No further ahead than it is read; pings of a caller that reads nothing cost nothing.
      const slow = open(ask(worker, fn, { ...upgrade(), body: masked(TEXT, 'flood') }, false));
      const flooded = (): boolean => bodyOf(slow.heard).length >= HTTP_WINDOW_BYTES;
      await slow.heard.next(flooded);
      slow.call.body(Buffer.concat(Array.from({ length: 1_000 }, () => masked(PING, 'x'.repeat(100)))), false);
      t.is((await answered(ask(worker, 'hello', { method: 'POST', body: Buffer.from('{"name":"meanwhile"}') }))).status, 200);
      t.true(bodyOf(slow.heard).length <= HTTP_WINDOW_BYTES + 65_536 + 128, String(bodyOf(slow.heard).length));
      slow.call.credit(16 * 1024 * 1024);
      await slow.heard.next(() => framesOf(bodyOf(slow.heard)).filter(({ opcode }) => opcode === BINARY).length === 12);
      await slow.frame(({ opcode }) => opcode === PONG);
      slow.call.body(masked(TEXT, 'return'), false);
      t.is((await slow.closed())[0], 1000);
      // A function that does not read has at most some messages ahead.
      const pushed = open(ask(worker, fn, { ...upgrade(), body: masked(TEXT, 'flood') }, false));
      await pushed.heard.next(() => bodyOf(pushed.heard).length >= HTTP_WINDOW_BYTES);
      const message = masked(BINARY, Buffer.alloc(HTTP_WINDOW_BYTES / 2));
      let granted = 0;
      for (let sent = 0; sent - granted < HTTP_WINDOW_BYTES && sent < 16 * 1024 * 1024; sent += message.length) {
        pushed.call.body(message, false);
        // Other requests are served in order with the grants.
        await answered(ask(worker, 'hello', { method: 'POST', body: Buffer.from('{"name":"Ada"}') }));
        granted = pushed.heard.items.reduce((sum, item) => sum + (item.on === 'credit' ? item.bytes : 0), 0);
      }
      t.true(granted < 4 * 1024 * 1024, String(granted));
      pushed.call.abort(false);
      await pushed.heard.next(({ on }) => on === 'ended');
    });
  }
}
