/** A caller waits for the first worker of a release: one is started whatever the load, and kept until the caller has seen it. */
import test from 'ava';

import { CapstanError } from '../../../lib/errors.ts';
import { StartPhase } from '../../../proto/gen/capstan/v1/control.ts';
import { unservable } from '../../../scheduler/core/fleet/unservable.ts';
import { startProgress, TRIAL_MS, type StartProgress } from '../../../scheduler/core/scaling/trial-starts.ts';
import type { EndpointInput } from '../../../scheduler/core/state/endpoints.ts';
import { queueInput } from '../../support/endpoint-input.ts';
import { FleetWorld } from './fleet-world.ts';

function deployed(input: Partial<EndpointInput> = {}): { world: FleetWorld; endpoint: string; start: () => StartProgress } {
  const world = new FleetWorld();
  world.node('a');
  const [endpoint = ''] = world.deploy(queueInput('echo', { workersMin: 0, workersMax: 2, idleTimeoutS: 5, ...input }));
  const start = (): StartProgress => {
    world.command({ kind: 'start-worker', endpoint });
    return startProgress(world.image, world.endpoint(endpoint), world.now());
  };
  return { world, endpoint, start };
}

for (const scalerType of ['QUEUE_DELAY', 'REQUEST_COUNT'] as const)
  test(`without any job one worker starts, stays while the caller waits, and then ends as idle: ${scalerType}`, (t) => {
    const { world, endpoint, start } = deployed({ scalerType, scalerValue: 1 });
    t.is(world.staying(endpoint).length, 0);
    t.like(start(), { stage: StartPhase.STARTING, node: 'a', failures: 0 });
    const [worker] = world.staying(endpoint);
    for (let i = 0; i < 10; i++) {
      world.pass(5_000);
      start();
    }
    t.deepEqual(world.staying(endpoint), [worker], 'a slow start is waited for, by one worker');
    world.ready(worker?.id ?? '');
    t.like(start(), { stage: StartPhase.READY, workerId: worker?.id });
    world.pass(TRIAL_MS - 1_000);
    t.is(world.staying(endpoint).length, 1);
    world.pass(2_000 + 5_000);
    t.is(world.staying(endpoint).length, 0);
  });

test('failed starts are told with the error, and a good one ends them', (t) => {
  const { world, endpoint, start } = deployed();
  start();
  const [worker] = world.staying(endpoint);
  world.fail(worker?.id ?? '', 1);
  t.like(start(), { stage: StartPhase.STARTING, failures: 1, lastError: 'LOAD_FAILED: no module named x' });
  world.fail(worker?.id ?? '', 3);
  t.like(start(), { stage: StartPhase.CRASH_LOOP, failures: 3 });
  world.ready(world.staying(endpoint)[0]?.id ?? '');
  t.like(start(), { stage: StartPhase.READY, failures: 0 });
});

test('an endpoint that is paused, or deleted, starts nothing', (t) => {
  const { world, endpoint, start } = deployed({ workersMax: 0 });
  t.like(start(), { stage: StartPhase.PAUSED });
  t.is(world.staying(endpoint).length, 0);
  const answer = world.command({ kind: 'start-worker', endpoint: 'unknown' });
  t.is(answer instanceof CapstanError ? answer.code : undefined, 'NOT_FOUND');
});

test('what no node has is told at once', (t) => {
  const { world, endpoint, start } = deployed({ gpuIds: 'NVIDIA H100 80GB HBM3', gpuCount: 1 });
  const found = start();
  t.is(found.stage, StartPhase.NO_NODE);
  t.regex(found.detail, /GPU_MISSING on 1 node: a/);
  t.like(unservable(world.image, world.endpoint(endpoint), world.now()), { reason: 'no node can run it' });
});

test('a node that left a moment ago is waited for', (t) => {
  const { world, endpoint, start } = deployed();
  const isRefused = (): boolean => unservable(world.image, world.endpoint(endpoint), world.now()) !== null;
  world.pass(60_000);
  world.disconnect('a');
  world.pass(1_000);
  t.is(start().stage, StartPhase.PLACING);
  t.false(isRefused());
  world.pass(5_000);
  t.is(start().stage, StartPhase.NO_NODE);
  t.false(isRefused(), 'requests wait longer than a deployment');
  world.pass(10_000);
  t.true(isRefused());
  world.connect('a');
  t.is(start().stage, StartPhase.STARTING);
  t.false(isRefused());
});

test('a size that others use at present is waited for, one larger than every node is not', (t) => {
  const world = new FleetWorld();
  world.node('a', [], { cpuCount: 4, memoryBytes: 16_000_000_000n });
  const sized = (name: string, cpu: string): EndpointInput => queueInput(name, { workersMin: 0, workersMax: 1, cpu });
  const [one = '', two = '', huge = ''] = world.deploy(sized('one', 'cpu3c-4-8'), sized('two', 'cpu3c-4-8'), sized('huge', 'cpu3c-32-64'));
  const phaseOf = (endpoint: string): StartPhase => {
    world.command({ kind: 'start-worker', endpoint });
    return startProgress(world.image, world.endpoint(endpoint), world.now()).stage;
  };
  t.is(phaseOf(one), StartPhase.STARTING);
  t.is(phaseOf(two), StartPhase.PLACING);
  t.is(phaseOf(huge), StartPhase.NO_NODE);
});
