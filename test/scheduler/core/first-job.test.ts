/**
 * The first waiting job of an endpoint without workers is looked at at once, those behind it with the look at all endpoints. However the
 * first one ends, and whatever kept its worker away, those that still wait get one without a further submission.
 */
import test, { type ExecutionContext } from 'ava';

import { SCALE_INTERVAL_MS } from '../../../scheduler/core/scaling/scaling.ts';
import { queueInput } from '../../support/endpoint-input.ts';
import { FleetWorld } from './fleet-world.ts';

interface Waiting {
  readonly world: FleetWorld;
  readonly endpoint: string;
  readonly jobs: readonly string[];
}

/** Three jobs wait for a worker of an endpoint that has none. `nodes`: what could run it. */
function waiting(more: Parameters<typeof queueInput>[1] = {}, ...nodes: string[]): Waiting {
  const world = new FleetWorld();
  for (const node of nodes) world.node(node);
  const [endpoint = ''] = world.deploy(queueInput('echo', more));
  return { world, endpoint, jobs: [1, 2, 3].map(() => world.submit(endpoint)) };
}

/** All of the jobs run one after another. */
function completes(t: ExecutionContext, { world, endpoint, jobs }: Waiting): void {
  world.settle();
  for (const job of jobs) world.complete(job);
  t.is(world.endpoint(endpoint).lanes[0].count, 0);
}

test('a flood to an endpoint without a place is looked at once, then each second', (t) => {
  const { world, endpoint } = waiting();
  const { lastWaiting } = world.endpoint(endpoint);
  world.mono += 10;
  for (let i = 0; i < 100; i++) world.submit(endpoint);
  t.is(world.endpoint(endpoint).lastWaiting, lastWaiting, 'no submission behind the first was a reason to look');
  world.pass(SCALE_INTERVAL_MS);
  t.true(world.endpoint(endpoint).lastWaiting > lastWaiting);
});

test('those behind get a worker when the first is cancelled before there is room', (t) => {
  const state = waiting();
  const [first = '', ...others] = state.jobs;
  state.world.cancel(state.endpoint, first);
  state.world.node('a');
  t.is(state.world.staying(state.endpoint).length, 1);
  completes(t, { ...state, jobs: others });
});

test('they get another worker when the requested one, or a ready one, is gone', (t) => {
  for (const isReady of [false, true]) {
    const { world, endpoint } = waiting({ workersMax: 1 }, 'a', 'b');
    if (isReady) world.settle();
    const [lost] = world.workers(endpoint);
    world.disconnect(lost?.node ?? '');
    world.pass(world.image.settings.nodeGraceMs + SCALE_INTERVAL_MS);
    const left = world.staying(endpoint).filter(({ id }) => id !== lost?.id);
    t.is(left.length, 1, `isReady ${isReady}`);
    t.not(left[0]?.node, lost?.node);
  }
});

test('they get one when workersMax 0 is raised', (t) => {
  const state = waiting({ workersMax: 0 }, 'a');
  const { world, endpoint } = state;
  world.pass(10 * SCALE_INTERVAL_MS);
  t.is(world.staying(endpoint).length, 0);
  world.deploy(queueInput('echo', { workersMax: 1 }));
  t.is(world.staying(endpoint).length, 1);
  completes(t, state);
});

test('a normal job behind ones of low priority, which ask for nothing, is the first of its own', (t) => {
  const world = new FleetWorld();
  world.node('a');
  const [endpoint = ''] = world.deploy(queueInput('echo'));
  for (let i = 0; i < 3; i++) world.submit(endpoint, true);
  t.is(world.staying(endpoint).length, 0);
  world.submit(endpoint);
  t.is(world.staying(endpoint).length, 1);
});

test('the first job of each endpoint counts, whoever waits at others', (t) => {
  const { world } = waiting({ gpuIds: 'ANY', gpuCount: 1 }, 'a');
  const [other = ''] = world.deploy(queueInput('other'));
  world.submit(other);
  t.is(world.staying(other).length, 1);
});

test('a queue that was empty again has a first job again', (t) => {
  const state = waiting({}, 'a');
  const { world, endpoint } = state;
  completes(t, state);
  world.pass(10_000);
  world.settle();
  t.is(world.workers(endpoint).length, 0);
  world.submit(endpoint);
  t.is(world.staying(endpoint).length, 1);
});

test('REQUEST_COUNT, which counts all of them, looks at each', (t) => {
  const { world, endpoint } = waiting({ workersMax: 5, scalerType: 'REQUEST_COUNT', scalerValue: 1 }, 'a');
  t.is(world.staying(endpoint).length, 3);
});
