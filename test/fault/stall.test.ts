/**
 * A part that is silent for longer than the limits, and then speaks again: what it says of leases
 * that were given up meanwhile counts no more (invariants 2, 5 and 6).
 */
import { join } from 'node:path';

import test from 'ava';

import { Random } from '../simulator/random.ts';
import { canFindProcesses } from '../support/processes.ts';
import { Stack } from '../support/stack.ts';
import { until } from '../support/until.ts';
import { expectAllCompleted, expectStored } from './check.ts';
import { GatedJob } from './gated-job.ts';
import { Load } from './load.ts';

const RATE = 100;
const JOBS = 100;

/** As small as a busy machine lets them be: the agent must be heard this often while nothing is wrong. */
const LIMITS = { CAPSTAN_HEARTBEAT_MS: '200', CAPSTAN_SILENCE_MS: '2000', CAPSTAN_NODE_GRACE_MS: '1000' };

const linux = canFindProcesses ? test.serial : test.serial.skip;
if (!canFindProcesses) console.log('skipped: the processes of a stack are found through /proc, which this system lacks');

linux('jobs of an agent that was silent for too long run again, and its late results change nothing', async (t) => {
  t.timeout(120_000);
  const stack = await Stack.start({ CAPSTAN_RUNSYNC_RETENTION_MS: '300000', ...LIMITS });
  t.teardown(() => stack.close());
  const endpoints = await stack.deploy(join(import.meta.dirname, 'app'));
  const endpoint = endpoints.get('echo') ?? '';
  const held = await GatedJob.start(stack, endpoints.get('gated') ?? '');
  const random = new Random(1);
  const load = new Load(stack, endpoint, () => random.next(), RATE);
  t.teardown(() => load.close());
  load.start();
  await load.more(JOBS);

  const agent = stack.signal('agent', 'SIGSTOP');
  // Its worker runs on and ends the job; the agent cannot say so.
  await held.open();
  await until('the lease was given up', async () => (await held.status()).status === 'IN_QUEUE');
  process.kill(agent, 'SIGCONT');
  await load.complete();
  await load.more(JOBS);
  t.is(stack.pid('agent'), agent, 'it is the same agent');

  const document = await held.ended();
  // The result that counts is that of the lease that stood, although the first one's came earlier.
  t.like(document, { status: 'COMPLETED', output: { n: held.n, entry: held.entries().length } });
  t.true((document.retries ?? 0) >= 1, 'it was run again');
  await load.stop();
  await expectAllCompleted(t, stack, endpoint, load);
  t.deepEqual(await held.status(), document);
  const repeated = load.acknowledged.filter((job) => (job.ended?.retries ?? 0) > 0).length;
  t.log(`${load.acknowledged.length} jobs, ${repeated} of them run again`);
  t.is(await stack.interrupt(), 0);
  await stack.gone();
  expectStored(t, stack, load, 1);
});

linux('a scheduler that stood still takes nobody for dead', async (t) => {
  t.timeout(120_000);
  // The agent gives the silent session up; the grace period covers its way back.
  const stack = await Stack.start({ ...LIMITS, CAPSTAN_NODE_GRACE_MS: '30000' });
  t.teardown(() => stack.close());
  const held = await GatedJob.start(stack, (await stack.deploy(join(import.meta.dirname, 'app'))).get('gated') ?? '');

  const heard = await stack.heard('agent');
  const scheduler = stack.signal('scheduler', 'SIGSTOP');
  await heard('no session with the scheduler');
  process.kill(scheduler, 'SIGCONT');
  await heard('session open');
  t.like(await held.status(), { status: 'IN_PROGRESS' });
  await held.open();
  const document = await held.ended();
  t.like(document, { status: 'COMPLETED', output: { n: held.n, entry: 1 } });
  t.is(document.retries, undefined, 'it ran once');
  t.is(held.entries().length, 1);
  t.is(stack.pid('scheduler'), scheduler);
});
