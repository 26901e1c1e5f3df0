/** The end of the whole stack under load, in order and out of it, and what the next start finds. */
import { join } from 'node:path';

import test, { type ExecutionContext } from 'ava';

import { Random } from '../simulator/random.ts';
import { canFindProcesses } from '../support/processes.ts';
import { Stack } from '../support/stack.ts';
import { until } from '../support/until.ts';
import { expectAllCompleted, expectKeysKept, expectStored } from './check.ts';
import { Load } from './load.ts';

const RATE = 100;
const JOBS = 150;

const linux = canFindProcesses ? test.serial : test.serial.skip;
if (!canFindProcesses) console.log('skipped: the processes of a stack are found through /proc, which this system lacks');

linux('Ctrl+C under load ends every process, and the next start completes what was acknowledged', async (t) => {
  const { stack, endpoint, load } = await loaded(t);
  t.is(await stack.interrupt(), 0);
  await stack.gone();
  await stack.up();
  await goesOn(t, stack, endpoint, load);
});

linux('when the supervisor is killed its parts end by themselves, and the next one takes the folder over', async (t) => {
  const { stack, endpoint, load } = await loaded(t);
  const parts = stack.processes();
  await stack.killSupervisor();
  // At once, as a service manager does: beside parts that are still ending.
  await stack.up();
  await until('the parts of the dead supervisor are gone', () => {
    const now = new Set(stack.processes().map(({ pid }) => pid));
    return parts.every(({ pid }) => !now.has(pid));
  });
  await goesOn(t, stack, endpoint, load);
});

/** A stack whose jobs are on their way: some waiting, some running, some recorded. */
async function loaded(t: ExecutionContext): Promise<{ stack: Stack; endpoint: string; load: Load }> {
  t.timeout(120_000);
  const stack = await Stack.start({ CAPSTAN_RUNSYNC_RETENTION_MS: '300000' });
  t.teardown(() => stack.close());
  const endpoint = (await stack.deploy(join(import.meta.dirname, 'app'))).get('echo') ?? '';
  const random = new Random(1);
  const load = new Load(stack, endpoint, () => random.next(), RATE);
  t.teardown(() => load.close());
  load.start();
  await load.more(JOBS);
  return { stack, endpoint, load };
}

/** The load went on calling; its requests are answered by the new stack. */
async function goesOn(t: ExecutionContext, stack: Stack, endpoint: string, load: Load): Promise<void> {
  await load.complete();
  await load.more(JOBS);
  await load.stop();
  await expectAllCompleted(t, stack, endpoint, load);
  await expectKeysKept(t, load);
  t.log(`${load.acknowledged.length} jobs; ${load.resent} requests sent again, ${load.lost} given up`);
  t.is(await stack.interrupt(), 0);
  await stack.gone();
  expectStored(t, stack, load);
}
