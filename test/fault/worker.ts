/** kill -9 of worker hosts: their jobs go to the next worker, unless they have used their attempts up (invariant 6). */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';

import test from 'ava';

import { canFindProcesses } from '../support/processes.ts';
import { sharedStack } from '../support/shared-stack.ts';
import type { Stack } from '../support/stack.ts';
import { GatedJob } from './gated-job.ts';

const linux = canFindProcesses ? test.serial : test.serial.skip;
if (!canFindProcesses) console.log('skipped: the processes of a stack are found through /proc, which this system lacks');

const start = sharedStack(test);
let stack: Stack;
let endpoints: ReadonlyMap<string, string>;

test.before(async (t) => {
  t.timeout(120_000);
  stack = await start();
  endpoints = await stack.deploy(join(import.meta.dirname, 'app'));
});

linux('jobs of a killed worker run again on another one', async (t) => {
  t.timeout(60_000);
  const endpoint = endpoints.get('gated') ?? '';
  const jobs = [await GatedJob.start(stack, endpoint), await GatedJob.start(stack, endpoint)];
  const [host] = await Promise.all(jobs.map((job) => job.entered(1)));
  t.true(stack.pids('host').includes(host ?? 0), 'the handlers run in a worker host');
  process.kill(host ?? 0, 'SIGKILL');
  const again = await Promise.all(jobs.map((job) => job.entered(2)));
  t.deepEqual(again, [again[0], again[0]]);
  t.not(again[0], host);
  for (const job of jobs) {
    await job.open();
    t.like(await job.ended(), { status: 'COMPLETED', output: { n: job.n, entry: 2 }, retries: 1 });
  }
  t.like((await stack.health(endpoint)).jobs, { completed: 2, failed: 0, inProgress: 0, inQueue: 0, retried: 2 });
});

linux('a job that kills its workers ends FAILED after max_attempts, and the endpoint serves on', async (t) => {
  t.timeout(60_000);
  const endpoint = endpoints.get('poison') ?? '';
  const started = join(stack.scratch, 'poisoned');
  const failed = await stack.ended(endpoint, await stack.run(endpoint, { started, deadly: true }));
  t.like(failed, { status: 'FAILED', retries: 1 });
  t.is(failed.error, "the worker's process was killed by SIGKILL (attempt 2 of 2)");
  t.is((await lines(started)).length, 2, 'entered max_attempts times and no more');
  const next = await stack.ended(endpoint, await stack.run(endpoint, { started, deadly: false }));
  t.like(next, { status: 'COMPLETED', output: 'alive' });
  t.like((await stack.health(endpoint)).jobs, { completed: 1, failed: 1, inProgress: 0, inQueue: 0 });
});

async function lines(path: string): Promise<string[]> {
  const text = await readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return '';
    throw error;
  });
  return text.split('\n').filter((line) => line !== '');
}
