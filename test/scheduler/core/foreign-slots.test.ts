/** Foreign workers get as many jobs as they have shown to take at once. */
import test from 'ava';

import { WorkerState } from '../../../proto/gen/capstan/v1/common.ts';
import { queueInput } from '../../support/endpoint-input.ts';
import { FleetWorld } from './fleet-world.ts';

test('a worker that takes one job at a time gets one, and the others start a second worker', (t) => {
  const world = new FleetWorld();
  world.node('a', [], { runtimes: ['process'], pythonVersion: '3.12.1' });
  const [id = ''] = world.deploy(
    queueInput('w', { functions: [], command: ['python3', 'handler.py'], maxConcurrency: 100, workersMin: 0, workersMax: 2 }),
  );
  const jobs = Array.from({ length: 12 }, () => world.submit(id));
  for (const { id: worker } of world.workers(id)) world.report(worker, { state: WorkerState.IDLE, slots: 1 });
  t.is(world.running.length, 1);
  world.pass(6_000);
  t.is(world.workers(id).length, 2);
  for (const { id: worker } of world.workers(id)) world.report(worker, { state: WorkerState.IDLE, slots: 1 });
  t.is(new Set(world.running.map(({ worker }) => worker)).size, 2);
  const [first] = world.running;
  if (first === undefined) throw new Error('no job runs');
  // It shows more: more it gets, and never more than the endpoint allows.
  world.report(first.worker, { state: WorkerState.RUNNING, slots: 3 });
  t.is(world.running.filter(({ worker }) => worker === first.worker).length, 3);
  world.report(first.worker, { state: WorkerState.RUNNING, slots: 4_000_000_000 });
  t.is(world.running.length, jobs.length);
});
