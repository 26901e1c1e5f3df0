/** What operators are told of workers (scheduler/services/fleet-view.ts). */
import test from 'ava';

import { WorkerState } from '../../../proto/gen/capstan/v1/common.ts';
import { workerInfos } from '../../../scheduler/services/fleet-view.ts';
import { FleetWorld, queueInput } from '../core/fleet-world.ts';

test('a worker of a queue endpoint is RUNNING while it has a job, whatever its agent said last', (t) => {
  const world = new FleetWorld();
  world.node('a');
  const [endpoint = ''] = world.deploy(queueInput('echo'));
  const { account } = world.endpoint(endpoint).config;
  const shown = (): (WorkerState | undefined)[] =>
    workerInfos(world.image, { account, all: true, sees: () => true }, endpoint).map(({ status }) => status?.state);
  const job = world.submit(endpoint);
  t.deepEqual(shown(), [WorkerState.INITIALIZING]);
  world.settle();
  t.is(world.running.length, 1);
  t.deepEqual(shown(), [WorkerState.RUNNING]);
  // Agents tell of all their workers when one of them changes: a RUNNING of that moment is old when the job has ended.
  world.report(world.running[0]?.worker ?? '', { state: WorkerState.RUNNING });
  world.complete(job);
  t.deepEqual(shown(), [WorkerState.IDLE]);
});
