/**
 * kill -9 of the scheduler, the agent and the gateway under load: what was acknowledged ends as it
 * was asked for and is recorded once (invariants 1, 2 and 3), streams have no gaps, and
 * webhooks arrive (invariant 12). `CAPSTAN_TEST_SEED` replays an order.
 */
import { randomInt } from 'node:crypto';
import { join } from 'node:path';

import test from 'ava';

import { Random } from '../simulator/random.ts';
import { canFindProcesses } from '../support/processes.ts';
import { Stack } from '../support/stack.ts';
import { until } from '../support/until.ts';
import { expectAllCompleted, expectKeysKept, expectStored } from './check.ts';
import { Deliveries } from './deliveries.ts';
import { KINDS, Lives, type Life } from './lives.ts';
import { Load } from './load.ts';

const PARTS = ['scheduler', 'agent', 'gateway'] as const;
const KILLS_EACH = 2;
const RATE = 200;

const linux = canFindProcesses ? test : test.skip;
if (!canFindProcesses) console.log('skipped: the processes of a stack are found through /proc, which this system lacks');

linux('whichever part is killed, every acknowledged job ends as it should and is recorded once', async (t) => {
  t.timeout(240_000);
  const seed = Number(process.env['CAPSTAN_TEST_SEED'] ?? randomInt(2 ** 31));
  t.log(`CAPSTAN_TEST_SEED=${seed}`);
  const random = new Random(seed);
  const stack = await Stack.start({ CAPSTAN_RUNSYNC_RETENTION_MS: '300000' });
  t.teardown(() => stack.close());
  const endpoints = await stack.deploy(join(import.meta.dirname, 'app'));
  const endpoint = endpoints.get('echo') ?? '';
  const deliveries = await Deliveries.open(t);
  const lives = new Lives(stack, endpoints, deliveries.receiver.url());
  t.teardown(() => lives.close());
  const load = new Load(stack, endpoint, () => random.next(), RATE);
  t.teardown(() => load.close());
  load.start();
  lives.start();

  const kills = PARTS.flatMap((part) => Array.from({ length: KILLS_EACH }, () => part));
  for (const part of shuffled(random, kills)) {
    await load.more(random.int(50, 150));
    const hosts = stack.processes().filter((found) => found.role === 'host' && found.parent === stack.pid('agent'));
    const since = performance.now();
    const killed = stack.signal(part, 'SIGKILL');
    await until(`the ${part} is running again`, () => {
      const pid = stack.pid(part);
      return pid !== null && pid !== killed;
    });
    if (part === 'agent') {
      // The dead agent's worker hosts end with their pipe.
      t.true(hosts.length > 0);
      await until('its worker hosts are gone', () => hosts.every(({ pid }) => !stack.pids('host').includes(pid)));
    }
    // A job that goes all the way says that everything is back.
    await load.complete();
    t.log(`${part}: a new job completed ${Math.round(performance.now() - since)} ms after the kill`);
  }

  await load.stop();
  await lives.stop();
  for (const kind of KINDS) {
    const count = lives.over.filter((life) => life.kind === kind).length;
    t.log(`${count} jobs ${kind}`);
    t.true(count > 0, `jobs ${kind}`);
  }
  await expectAllCompleted(t, stack, endpoint, load);
  await expectKeysKept(t, load);
  for (const life of lives.over) t.is((await lives.status(life)).status, lastOf(life), `${life.id}, ${life.kind}`);
  await deliveries.expectAll(t, lives.over, (await stack.tool('webhooks', 'secret', 'get')).trim());
  const repeated = load.acknowledged.filter((job) => (job.ended?.retries ?? 0) > 0).length;
  t.log(`${load.acknowledged.length} jobs, ${repeated} of them run again; ${load.resent} requests sent again, ${load.lost} given up`);
  t.is(await stack.interrupt(), 0);
  await stack.gone();
  expectStored(t, stack, load, 0, new Map(lives.over.map((life) => [life.id, lastOf(life)] as const)));
});

function lastOf({ ends: [first, second = first] }: Life): string {
  return second;
}

function shuffled<T>(random: Random, items: readonly T[]): T[] {
  const left = [...items];
  const order: T[] = [];
  while (left.length > 0) order.push(...left.splice(random.int(0, left.length - 1), 1));
  return order;
}
