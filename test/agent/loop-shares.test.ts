/** Accounts whose workers write without end take their shares of the agent's loop and no more, through real processes. */
import { spawn } from 'node:child_process';
import { performance } from 'node:perf_hooks';
import type { Socket } from 'node:net';

import test from 'ava';

import { AccountReaders } from '../../agent/runtimes/reading/account-readers.ts';
import { WorkerStreams } from '../../agent/runtimes/reading/worker-streams.ts';
import { bootstrap } from '../conformance/runtime/hosts.ts';

const FLOOD = `
const { writeSync } = require('node:fs');
const header = Buffer.from('{"t":"progress","key":"k#1"}');
const frame = Buffer.alloc(9 + header.length, '1');
frame.writeUInt32LE(5 + header.length, 0);
frame.writeUInt32LE(header.length, 4);
header.copy(frame, 8);
const bytes = Buffer.concat(Array(1000).fill(frame));
for (let at = 0; ; )
  try {
    at = (at + writeSync(3, bytes, at)) % bytes.length;
  } catch (error) {
    if (error.code !== 'EAGAIN') throw error;
  }
`;

/** What the agent does with a record, as far as the loop feels it, ms: a flood could keep the loop busy all the time. */
const RECORD_MS = 0.05;
const SAMPLES = 20;
const SAMPLE_MS = 150;
/** All accounts together have 20 of each 50 ms and exceed it by a turn each; without shares the loop is never free. */
const MAX_BUSY = 0.9;

test('floods of two accounts leave the loop to others', async (t) => {
  const readers = new AccountReaders({ bootstrap });
  t.teardown(() => readers.close());
  const records = new Map<string, number>();
  for (const account of ['a', 'b']) {
    const streams = new WorkerStreams(
      {
        frame: () => {
          records.set(account, (records.get(account) ?? 0) + 1);
          for (const end = performance.now() + RECORD_MS; performance.now() < end;);
        },
        lines: () => undefined,
        violation: (text) => t.fail(text),
        entry: () => undefined,
        report: () => undefined,
        ended: () => undefined,
        lost: () => undefined,
      },
      readers.of(account),
    );
    const worker = spawn(process.execPath, ['-e', FLOOD], { stdio: ['ignore', 'ignore', 'inherit', 'pipe'] });
    t.teardown(() => worker.kill('SIGKILL'));
    streams.read('channel', worker.stdio[3] as unknown as Socket);
  }
  while ((records.get('a') ?? 0) < 5_000 || (records.get('b') ?? 0) < 5_000) await new Promise((resolve) => setTimeout(resolve, 20));
  const busy: number[] = [];
  for (let sample = 0; sample < SAMPLES; sample += 1) {
    const before = performance.eventLoopUtilization();
    await new Promise((resolve) => setTimeout(resolve, SAMPLE_MS));
    busy.push(performance.eventLoopUtilization(before).utilization);
  }
  const least = Math.min(...busy);
  t.log(`the loop was busy for ${Math.round(least * 100)} to ${Math.round(Math.max(...busy) * 100)} %`);
  t.true(least < MAX_BUSY, `at least ${Math.round(least * 100)} %`);
});
