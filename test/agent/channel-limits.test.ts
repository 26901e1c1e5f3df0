/** What a worker sends to its agent is limited by its kind before it is parsed or kept, and by its credits. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import test from 'ava';

import { KEPT_CHUNKS } from '../../agent/core/chunks.ts';

import { FrameReader } from '../../agent/runtimes/frames.ts';
import { checkHostFrame, limitsOfHost } from '../../agent/runtimes/host-frames.ts';
import { sendMessage } from '../../agent/runtimes/hosted/message-frames.ts';
import { FIRST_CREDITS } from '../../agent/runtimes/runtime.ts';
import { linesOf, WorkerOutput } from '../../agent/runtimes/worker-output.ts';
import { folderOf } from '../support/folder.ts';
import { addBuild, functionSpec, startAgent, startScheduler } from './fixtures.ts';

const MEBIBYTE = 1024 * 1024;

function frame(header: string, body = ''): Buffer {
  const prefix = Buffer.alloc(8);
  prefix.writeUInt32LE(4 + header.length + body.length, 0);
  prefix.writeUInt32LE(header.length, 4);
  return Buffer.concat([prefix, Buffer.from(header), Buffer.from(body)]);
}

function reader(): { readonly push: (data: Buffer) => void; readonly seen: string[] } {
  const seen: string[] = [];
  const frames = new FrameReader<unknown>({
    onFrame: (header, body) => {
      const { t } = checkHostFrame(header, body);
      seen.push(`${t} ${body.length}`);
    },
    limits: limitsOfHost,
  });
  return { push: (data) => frames.push(data), seen };
}

test('a frame is the same however its bytes arrive', (t) => {
  const bytes = Buffer.concat([
    frame('{"t":"up"}'),
    frame('{"t": "chunk", "key": "j#1"}', 'x'.repeat(MEBIBYTE)),
    frame('{"t":"progress","key":"j#1"}', '7'),
    frame('{"t":"log","stream":"stdout","jobId":""}', 'a\nb\n'),
  ]);
  for (const step of [1, 7, 4_096, 65_536, bytes.length]) {
    const { push, seen } = reader();
    for (let at = 0; at < bytes.length; at += step) push(bytes.subarray(at, at + step));
    t.deepEqual(seen, ['up 0', `chunk ${MEBIBYTE}`, 'progress 1', 'log 4'], `by ${step}`);
  }
});

test('a frame above the limits of its kind is refused by its first bytes', (t) => {
  const begun = (header: string, headerBytes: number, bodyBytes = 0): Buffer => {
    const prefix = Buffer.alloc(8);
    prefix.writeUInt32LE(4 + headerBytes + bodyBytes, 0);
    prefix.writeUInt32LE(headerBytes, 4);
    return Buffer.concat([prefix, Buffer.from(header.padEnd(32))]);
  };
  const refusals: readonly (readonly [bytes: Buffer, message: RegExp])[] = [
    [begun('{"t":"up"', 64 * MEBIBYTE - 4), /a frame up has a header of 67108860 bytes; at most 4096 are allowed/],
    [begun('{"t":"log","text":"', 33_000_000), /a frame log has a header of 33000000 bytes; at most 4096/],
    [begun('{"t":"log"', 40, 66_000), /a frame log has 66000 bytes; at most 65536/],
    [begun('{"t":"chunk"', 40, MEBIBYTE + 1), /a frame chunk has 1048577 bytes; at most 1048576/],
    [begun('{"t":"returned"', 40, 20 * MEBIBYTE + 1), /a frame returned has 20971521 bytes/],
    [begun('{"t":"http-head"', MEBIBYTE), /a frame http-head has a header of 1048576 bytes/],
    [begun('{"key":"j#1","t":"log"', 40), /unknown kind/],
    [begun('{"t":"toString"', 40), /unknown kind/],
    [begun('{"t":"constructor"', 40), /unknown kind/],
    [Buffer.alloc(8, 0xff), /invalid frame/],
  ];
  for (const [bytes, message] of refusals) t.throws(() => reader().push(bytes), { message });
});

test('no more memory is reserved than was sent', (t) => {
  const { push } = reader();
  const before = process.memoryUsage().arrayBuffers;
  const header = '{"t":"returned","key":"j#1","ms":1}';
  const prefix = Buffer.alloc(8);
  prefix.writeUInt32LE(4 + header.length + 20 * MEBIBYTE, 0);
  prefix.writeUInt32LE(header.length, 4);
  push(Buffer.concat([prefix, Buffer.from(header), Buffer.alloc(1_000)]));
  t.true(process.memoryUsage().arrayBuffers - before < MEBIBYTE);
});

test('the body of a frame that is not wanted is not kept, and the frames behind it are read', (t) => {
  const bytes = Buffer.concat([
    frame('{"t":"returned","key":"ended#1","ms":1}', 'x'.repeat(MEBIBYTE)),
    frame('{"t":"returned","key":"j#1","ms":1}', 'y'.repeat(100_000)),
    frame('{"t":"up"}'),
  ]);
  for (const step of [1, 7, 4_096, 65_536]) {
    const seen: string[] = [];
    let asked = 0;
    const frames = new FrameReader<{ readonly t: string; readonly key?: string }>({
      onFrame: ({ t: kind, key = '' }, body) => seen.push(`${kind} ${key} ${body.length}`),
      limits: limitsOfHost,
      accepts: ({ key }) => {
        asked += 1;
        return key !== 'ended#1';
      },
    });
    for (let at = 0; at < bytes.length; at += step) {
      const read = Buffer.from(bytes.subarray(at, at + step));
      frames.push(read);
      // The memory of a read is used again.
      read.fill('z');
    }
    t.deepEqual(seen, ['returned ended#1 0', 'returned j#1 100000', 'up  0'], `by ${step}`);
    t.is(asked, 2, `by ${step}`);
  }
});

test('a long text of lines is several frames, cut at the ends of lines where it has some', (t) => {
  const sent: string[] = [];
  const text = `${'line\n'.repeat(10_000)}${'🙂'.repeat(20_001)}\n`;
  sendMessage({ t: 'log', stream: 'stdout', jobId: 'j', text }, (_header, body) => sent.push(Buffer.from(body).toString()));
  t.is(sent.join(''), text);
  t.true(sent.every((piece) => Buffer.byteLength(piece) <= 64 * 1024 && !piece.includes('�')));
  t.true(sent.slice(0, 3).every((piece) => piece.endsWith('line\n')));
});

test('a flood of empty lines costs as much as one of long ones', (t) => {
  let lines = 0;
  const last: string[] = [];
  const output = new WorkerOutput((_stream, text) => {
    lines += linesOf(text).length;
    last.push(...linesOf(text));
    last.splice(0, last.length - 2);
  });
  const flood = Buffer.alloc(65_536, '\n');
  for (let sent = 0; sent < 200; sent += 1) output.push('stdout', flood);
  output.push('stdout', Buffer.from('the end\n'));
  output.end('stdout');
  t.true(lines < 50_000, `${lines} lines`);
  t.deepEqual(last, ['', 'the end']);
});

const MODULES = {
  'main.js': `
import { existsSync, writeSync } from 'node:fs';
import { setTimeout } from 'node:timers/promises';
export async function attack({ hex, times, when }) {
  const bytes = Buffer.from(hex, 'hex');
  writeSync(3, bytes);
  while (!existsSync(when)) await setTimeout(10);
  for (let sent = 0; sent < times; ) {
    try {
      writeSync(3, bytes);
      sent += 1;
    } catch (error) {
      if (error.code !== 'EAGAIN') throw error;
    }
  }
  return new Promise(() => undefined);
}
`,
  'main.py': `
import os
import time

def attack(hex, times, when):
    os.write(3, bytes.fromhex(hex))
    while not os.path.exists(when):
        time.sleep(0.01)
    for _ in range(times):
        os.write(3, bytes.fromhex(hex))
    time.sleep(60)
`,
};

for (const [name, runtime, module] of [
  ['thread', 'thread', 'main.js'],
  ['node', 'process', 'main.js'],
  ['python', 'process', 'main.py'],
] as const) {
  test.serial(`${name}: chunks beyond the credit end the worker`, async (t) => {
    const scheduler = await startScheduler(t);
    const build = await addBuild(t, scheduler, { [module]: MODULES[module] });
    await startAgent(t, scheduler);
    await scheduler.hello();
    scheduler.desire([{}], [{ ...build, runtime, functions: [functionSpec('attack')] }]);
    await scheduler.worker('w1', ({ state }) => state === 'WORKER_STATE_IDLE');
    const when = join(await folderOf(t), 'now');
    scheduler.dispatch({ jobId: 'j1' }, { hex: frame('{"t":"chunk","key":"j1#1"}', '1').toString('hex'), times: 5_000, when });
    await scheduler.hear('chunk', ({ jobId }) => jobId === 'j1');
    // A reader is there, and reads no more: the agent keeps what it can, and grants nothing beyond.
    scheduler.send({ $case: 'drained', value: { jobId: 'j1', token: 1, nextIndex: 1 } });
    await scheduler.heardAll();
    await writeFile(when, '');
    const { outcome, error, chunks } = await scheduler.ended('j1');
    t.is(outcome, 'ATTEMPT_OUTCOME_WORKER_LOST');
    t.is(error, 'the worker sent more chunks than its credit');
    t.true(chunks <= KEPT_CHUNKS + 2 + FIRST_CREDITS, `${chunks} chunks`);
  });
}
