/** The clients and the checker together notice a service that lies, and accept one that does not. */
import test from 'ava';

import { Random } from '../simulator/random.ts';
import { folderOf } from '../support/folder.ts';
import { Calls } from './clients/calls.ts';
import { Deliveries } from './clients/deliveries.ts';
import { Life, LIFE_KINDS, type Acknowledged } from './clients/lives.ts';
import { check } from './core/check.ts';
import { IN_ORDER, LyingService, SECRET, type Lie } from './lying-service.ts';
import { readHistory, Recorder } from './recorder.ts';

const LIVES_EACH = 25;
const ENDPOINTS = ['work', 'work-py', 'series', 'series-py', IN_ORDER, 'purged'];

/** The rules that a lie breaks, at least one of which must say so. */
const lies: Readonly<Record<Exclude<Lie, 'none'>, readonly string[]>> = {
  'loses a job': ['nothing acknowledged is lost'],
  'swaps outputs': ['one output, of its own'],
  'forgets keys': ['one job per key'],
  'completes cancelled jobs': ['cancelled is never completed'],
  'changes an end': ['terminal is final'],
  'drops a chunk': ['chunks in order'],
  'drops a webhook': ['webhooks at least once and alike'],
  'changes a webhook': ['webhooks at least once and alike'],
  'runs a job again': ['attempts are bounded'],
  'turns the queue round': ['first in, first out'],
};

async function rulesBrokenBy(t: Parameters<typeof folderOf>[0], lie: Lie): Promise<string[]> {
  const recorder = new Recorder(await folderOf(t));
  const service = await LyingService.open(lie);
  const deliveries = await Deliveries.open(recorder, SECRET, 1);
  const calls = new Calls(service, recorder);
  recorder.record({
    kind: 'settings',
    endpoints: Object.fromEntries(ENDPOINTS.map((name) => [name, { name, maxAttempts: 2, inOrder: name === IN_ORDER }])),
    runRetentionMs: 1_800_000,
    runsyncRetentionMs: 60_000,
    settleMs: 1_000,
    clockStepMs: 0,
  });
  const acknowledged: Acknowledged[] = [];
  const world = {
    calls,
    gateways: service.gateways,
    endpoints: new Map(ENDPOINTS.map((name) => [name, name])),
    handlersFile: recorder.handlersFile,
    webhook: deliveries.url,
    longestPauseMs: 300,
    acknowledged: (job: Acknowledged) => acknowledged.push(job),
  };
  // A life that runs into its limit needs five seconds of it.
  const kinds = LIFE_KINDS.filter((kind) => kind !== 'timeout');
  await Promise.all(
    Array.from({ length: LIVES_EACH * kinds.length }, (_, i) =>
      new Life(world, new Random(i), `life-${i}`).live(kinds[i % kinds.length] ?? 'run'),
    ),
  );
  await service.idle();
  await Promise.all(acknowledged.map((job) => calls.once({ operation: 'status', ...job }, 'gateway')));
  recorder.record({ kind: 'end' });
  await calls.close();
  service.close();
  await deliveries.close();
  await recorder.close();
  return [...new Set(check(await readHistory(recorder.folder)).map(({ rule }) => rule))];
}

test('a service that keeps its promises is accepted', async (t) => {
  t.deepEqual(await rulesBrokenBy(t, 'none'), []);
});

for (const [lie, rules] of Object.entries(lies)) {
  test(`a service that ${lie} is noticed`, async (t) => {
    const broken = await rulesBrokenBy(t, lie as Lie);
    t.true(
      rules.some((rule) => broken.includes(rule)),
      broken.join(', '),
    );
  });
}
