/** Attempts that wait at a busy worker move to one that becomes idle. */
import test from 'ava';

import { RECALL_AFTER_MS } from '../../../scheduler/core/jobs/recall.ts';
import { queueInput } from '../../support/endpoint-input.ts';
import { FleetWorld } from './fleet-world.ts';

function worldOf(maxConcurrency: number): { readonly world: FleetWorld; readonly id: string } {
  const world = new FleetWorld();
  world.node('a');
  const [id = ''] = world.deploy(queueInput('work', { workersMin: 1, workersMax: 2, maxConcurrency }));
  world.settle();
  return { world, id };
}

const workerOf = (world: FleetWorld, job: string): string | undefined => world.running.find((running) => running.job === job)?.worker;

/** Three jobs on one worker, of which the first was entered; a fourth made a second worker start. */
function blocked(): { readonly world: FleetWorld; readonly jobs: readonly string[] } {
  const { world, id } = worldOf(3);
  const jobs = [world.submit(id), world.submit(id), world.submit(id)];
  world.enter(jobs[0] ?? '');
  const last = world.submit(id);
  world.pass(6_000);
  world.settle();
  world.enter(last);
  world.complete(last);
  return { world, jobs };
}

test('an attempt that a busy worker has not entered moves to an idle one, uncharged', (t) => {
  const { world, jobs } = blocked();
  const [first = '', second = '', third = ''] = jobs;
  t.deepEqual(world.giveBack(), [second]);
  t.not(workerOf(world, second), workerOf(world, first));
  t.is(workerOf(world, third), workerOf(world, first));
  t.like(world.image.jobs.get(second), { attempts: 0, phase: 'LEASED' });
  world.enter(second);
  world.pass(RECALL_AFTER_MS * 4);
  t.deepEqual(world.giveBack(), [], 'no worker is idle');
  world.complete(second);
  t.deepEqual(world.giveBack(), [third]);
  t.not(workerOf(world, third), workerOf(world, first));
});

test('an attempt that has just been assigned gets its time', (t) => {
  const { world, id } = worldOf(2);
  const [first, second] = [world.submit(id), world.submit(id)];
  world.enter(first);
  const third = world.submit(id);
  world.pass(6_000);
  world.settle();
  // The new worker has the third job; the second one waits for as long as the first.
  world.enter(third);
  world.enter(second);
  world.complete(second);
  const fourth = world.submit(id);
  t.deepEqual(world.giveBack(), []);
  world.enter(fourth);
  world.complete(third);
  world.pass(RECALL_AFTER_MS * 4);
  t.deepEqual(world.giveBack(), [], 'every attempt was entered');
});
