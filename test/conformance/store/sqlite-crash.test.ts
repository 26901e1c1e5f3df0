/** Acknowledged means durable (invariant 1): what was acknowledged is there, whole, however the process ends. */
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

import test, { type ExecutionContext } from 'ava';

import { SqliteEngine } from '../../../scheduler/store/sqlite/engine.ts';
import { idOf } from './jobs.ts';
import { folderOf } from '../../support/folder.ts';

const child = fileURLToPath(new URL('crash-child.ts', import.meta.url));
const PER_BATCH = 7;

function start(t: ExecutionContext, command: string, args: readonly string[]): ChildProcess {
  const started = spawn(command, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  t.teardown(() => {
    if (started.exitCode === null && started.signalCode === null) started.kill('SIGKILL');
  });
  return started;
}

/** Every batch up to the acknowledged one is there; of a later one all or nothing. Gives the highest number. */
function check(t: ExecutionContext, file: string, first: number, acknowledged: number): number {
  const engine = new SqliteEngine({ file });
  try {
    const highest = engine.read('highest').seq;
    t.true(highest >= acknowledged, `acknowledged ${acknowledged}, found ${highest}`);
    t.is((highest - first + 1) % PER_BATCH, 0, 'batches are whole');
    for (let seq = first; seq <= highest; seq++) {
      const whole = engine.read('job', 'endpoint-a', idOf(seq));
      const behind = Math.ceil((highest - seq + 1) / PER_BATCH);
      t.is(whole?.job.state, behind === 1 ? 'IN_QUEUE' : behind === 2 ? 'LEASED' : 'COMPLETED');
      t.truthy(engine.read('payload', seq));
      t.is(whole?.output === null, behind < 3);
    }
    return highest;
  } finally {
    engine.close();
  }
}

test('kill -9 under load loses nothing that was acknowledged', async (t) => {
  const file = join(await folderOf(t), 'capstan.db');
  let first = 1;
  for (const batches of [20, 150, 400]) {
    const running = start(t, process.execPath, [child, file, String(first)]);
    let acknowledged = 0;
    let seen = 0;
    const exited = once(running, 'exit');
    for await (const line of createInterface({ input: running.stdout as NodeJS.ReadableStream })) {
      acknowledged = Number(line);
      if (++seen === batches) running.kill('SIGKILL');
    }
    t.deepEqual(await exited, [null, 'SIGKILL']);
    t.true(seen >= batches);
    first = check(t, file, first, acknowledged) + 1;
  }
});

test('when the disk takes no more, the batch is refused whole and the store stops', async (t) => {
  const file = join(await folderOf(t), 'capstan.db');
  // 512-byte or 1 KiB blocks, by the shell: one to two MB.
  const running = start(t, '/bin/sh', ['-c', 'ulimit -f 2000 && exec "$@"', 'sh', process.execPath, child, file, '1']);
  const exited = once(running, 'exit');
  let acknowledged = 0;
  let failure: { code?: string; message?: string; later?: string } = {};
  for await (const line of createInterface({ input: running.stdout as NodeJS.ReadableStream })) {
    if (line.startsWith('failed ')) failure = JSON.parse(line.slice(7)) as typeof failure;
    else acknowledged = Number(line);
  }
  t.deepEqual(await exited, [0, null]);
  t.is(failure.code, 'DATA_DIR');
  t.regex(
    failure.message ?? '',
    /(writing the batch failed|checkpointing the write-ahead log failed): (the disk is full|reading or writing the disk failed) \(SQLITE_/,
  );
  t.is(failure.later, 'rejected');
  t.true(acknowledged > 0);
  t.is(check(t, file, 1, acknowledged), acknowledged);
});
