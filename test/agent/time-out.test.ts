/** executionTimeout of a worker that does nothing any more: the job is final first, the slot is free when the worker has ended. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';

import test from 'ava';

import type { ReleaseSpec } from '../../proto/gen/capstan/v1/nodes.ts';
import { isRunning } from '../conformance/runtime/running.ts';
import { folderOf } from '../support/folder.ts';
import { startWorker } from './fixtures.ts';

const NODE = `
import { writeFileSync } from 'node:fs';
export function freeze(path) { writeFileSync(path, String(process.pid)); process.kill(process.pid, 'SIGSTOP'); for (;;) ; }
`;
const PYTHON = `
import os, signal
def freeze(path):
    with open(path, "w") as file:
        file.write(str(os.getpid()))
    os.kill(os.getpid(), signal.SIGSTOP)
`;
const FOREIGN = await readFile(join(import.meta.dirname, 'foreign_worker.py'), 'utf8');

interface Kind {
  readonly files: Readonly<Record<string, string>>;
  readonly fn: string;
  readonly release: Partial<ReleaseSpec>;
}

const kinds: Readonly<Record<string, Kind>> = {
  thread: { files: { 'main.js': NODE }, fn: 'freeze', release: {} },
  'process, Node': { files: { 'main.js': NODE }, fn: 'freeze', release: { runtime: 'process' } },
  'process, Python': { files: { 'main.py': PYTHON }, fn: 'freeze', release: { runtime: 'process' } },
  foreign: {
    files: { 'worker.py': FOREIGN },
    fn: '',
    release: { runtime: 'process', functions: [], command: ['python3', 'worker.py'] },
  },
};

for (const [name, { files, fn, release }] of Object.entries(kinds)) {
  test.serial(
    `a job of a stopped worker is TIMED_OUT while the worker is still there, and its slot is taken until it is gone: ${name}`,
    async (t) => {
      const path = join(await folderOf(t), 'pid');
      const { scheduler } = await startWorker(t, files, fn, release, { drainMs: 0 });
      scheduler.dispatch({ jobId: 'frozen', executionTimeoutMs: 500 }, fn === '' ? { do: 'freeze', path } : { path });
      const ended = await scheduler.ended('frozen');
      const pid = Number(await readFile(path, 'utf8'));
      t.true(await isRunning(pid), 'the job is final before anybody took the worker away');
      t.like(ended, { outcome: 'ATTEMPT_OUTCOME_TIMED_OUT', error: 'executionTimeout exceeded', started: true, slotHeld: true });
      scheduler.dispatch({ jobId: 'next' }, { path });
      t.is((await scheduler.refused('next')).reason, 'REFUSAL_REASON_OVER_CAPACITY');
      process.kill(pid, 'SIGKILL');
      const freed = await scheduler.hear('ended', ({ jobId, slotHeld }) => jobId === 'frozen' && !slotHeld);
      t.is(freed.outcome, 'ATTEMPT_OUTCOME_TIMED_OUT');
      t.false(await isRunning(pid));
    },
  );
}
