/** Jobs whose worker was ended by another one, or by one of several (invariant 6). */
import test from 'ava';

import { queueInput } from '../../support/endpoint-input.ts';
import { FleetWorld } from './fleet-world.ts';

const STARTED = 3;

/** An endpoint with ready workers of three slots each. */
function worldOf(workers: number, maxAttempts = 1): { readonly world: FleetWorld; readonly id: string } {
  const world = new FleetWorld();
  world.node('a');
  const [id = ''] = world.deploy(queueInput('work', { workersMin: workers, workersMax: workers, maxConcurrency: STARTED, maxAttempts }));
  world.settle();
  return { world, id };
}

const phaseOf = (world: FleetWorld, job: string): string | undefined => world.image.jobs.get(job)?.phase;
const workerOf = (world: FleetWorld, job: string): string | undefined => world.running.find((running) => running.job === job)?.worker;

test('a job that a neighbour disturbed is not charged, and its attempts are counted all the same', (t) => {
  const { world, id } = worldOf(1);
  const job = world.submit(id);
  for (let times = 0; times < 30; times += 1) world.disturb(job);
  t.like(world.image.jobs.get(job), { attempts: 30, phase: 'LEASED' });
  const dispatch = world.effects.findLast((effect) => effect.kind === 'dispatch');
  t.is(dispatch?.kind === 'dispatch' ? dispatch.attempt : 0, 31);
  world.lose(job, false);
  t.is(phaseOf(world, job), undefined, 'one loss of its own ends it');
});

test('suspected jobs are tried again together, then each alone, and only then charged', (t) => {
  const { world, id } = worldOf(1, 3);
  const [first, second] = [world.submit(id), world.submit(id)];
  for (let times = 0; times < 2; times += 1) {
    t.is(workerOf(world, first), workerOf(world, second));
    world.lose(first, true);
    world.lose(second, true);
  }
  t.deepEqual([phaseOf(world, first), phaseOf(world, second)], ['LEASED', 'QUEUED']);
  const later = world.submit(id);
  t.is(phaseOf(world, later), 'QUEUED', "it is nobody else's neighbour");
  // An agent that suspects a job that ran alone is not believed.
  world.lose(first, true);
  t.deepEqual([phaseOf(world, first), phaseOf(world, second), phaseOf(world, later)], [undefined, 'LEASED', 'QUEUED']);
  world.complete(second);
  t.is(phaseOf(world, later), 'LEASED');
});

for (const maxAttempts of [1, 2, 3, 5]) {
  test(`a job that always ends its worker runs maxAttempts (${maxAttempts}) times, its neighbours lose nothing`, (t) => {
    const { world, id } = worldOf(1, maxAttempts);
    const [culprit, ...others] = [world.submit(id), world.submit(id), world.submit(id)];
    let runs = 0;
    for (; phaseOf(world, culprit) !== undefined && runs < 20; runs += 1) {
      while (phaseOf(world, culprit) === 'QUEUED') world.complete(world.running[0]?.job ?? '');
      const worker = workerOf(world, culprit);
      const running = world.running.filter((each) => each.worker === worker).map(({ job }) => job);
      for (const job of running) world.lose(job, running.length > 1);
    }
    // Where the only attempt ran beside others, a second one shows which of them it was.
    t.is(runs, Math.max(maxAttempts, 2));
    for (const other of others) if (phaseOf(world, other) !== undefined) t.is(world.image.jobs.get(other)?.attempts, Math.min(runs - 1, 2));
  });
}

test('a job that ended a worker alone has the last attempt for itself', (t) => {
  const { world, id } = worldOf(1, 2);
  const job = world.submit(id);
  world.lose(job, false);
  const other = world.submit(id);
  t.deepEqual([phaseOf(world, job), phaseOf(world, other)], ['LEASED', 'QUEUED']);
  world.lose(job, false);
  t.is(phaseOf(world, job), undefined);
});

test('a suspected job that completes costs nothing, and one whose node is lost is not charged for what others did', (t) => {
  const { world, id } = worldOf(1, 2);
  const [first, second] = [world.submit(id), world.submit(id)];
  world.lose(first, true);
  world.lose(second, true);
  world.complete(first);
  t.is(phaseOf(world, first), undefined);
  t.is(world.image.jobs.get(second)?.attempts, 1);
  world.disturb(second);
  t.is(phaseOf(world, second), 'LEASED');
});

test('a job that runs alone waits for one empty worker; the others go on', (t) => {
  const { world, id } = worldOf(2, 3);
  const [suspect, other] = [world.submit(id), world.submit(id)];
  for (let times = 0; times < 2; times += 1) world.lose(suspect, true);
  t.is(phaseOf(world, suspect), 'LEASED', 'its worker is empty');
  world.complete(suspect);
  const [again, busy] = [world.submit(id), world.submit(id)];
  t.not(workerOf(world, again), workerOf(world, other));
  world.lose(busy, true);
  world.lose(busy, true);
  t.is(phaseOf(world, busy), 'QUEUED', 'both workers run others');
  // One worker is held for it: two more jobs have room on the other one.
  const more = [world.submit(id), world.submit(id), world.submit(id)];
  t.deepEqual(
    more.map((job) => phaseOf(world, job)),
    ['LEASED', 'LEASED', 'QUEUED'],
  );
  const shared = workerOf(world, more[0] ?? '');
  t.is(workerOf(world, more[1] ?? ''), shared);
  world.complete(workerOf(world, again) === shared ? other : again);
  t.not(workerOf(world, busy), shared);
  t.is(phaseOf(world, more[2] ?? ''), 'QUEUED');
});
