/** How many workers an endpoint gets, and when they go. */
import test from 'ava';

import { WorkerState } from '../../../proto/gen/capstan/v1/common.ts';
import { DECISIONS_KEPT } from '../../../scheduler/core/endpoints/decisions.ts';
import { queueInput } from '../../support/endpoint-input.ts';
import { FleetWorld } from './fleet-world.ts';

function fleet(...names: string[]): FleetWorld {
  const world = new FleetWorld();
  for (const name of names) world.node(name);
  return world;
}

test('the first job starts a worker at once, and none stays when the load is gone', (t) => {
  const world = fleet('a');
  const [endpoint = ''] = world.deploy(queueInput('echo'));
  t.is(world.workers(endpoint).length, 0);
  const job = world.submit(endpoint);
  t.is(world.staying(endpoint).length, 1);
  world.settle();
  world.complete(job);
  world.pass(4_000);
  t.is(world.staying(endpoint).length, 1, 'the idle time-out is 5 s');
  world.pass(3_000);
  t.is(world.staying(endpoint).length, 0);
  world.settle();
  t.is(world.workers(endpoint).length, 0);
});

test('a worker whose agent said last that it runs a job goes all the same once the job has ended', (t) => {
  const world = fleet('a');
  const [endpoint = ''] = world.deploy(queueInput('echo'));
  const job = world.submit(endpoint);
  world.settle();
  // Told with another worker's start, and never again: the end of a job is no news of the set of workers.
  for (const { id } of world.workers(endpoint)) world.report(id, { state: WorkerState.RUNNING });
  world.complete(job);
  world.pass(7_000);
  t.is(world.staying(endpoint).length, 0);
});

test('QUEUE_DELAY adds one worker after the other while the oldest job waits too long', (t) => {
  const world = fleet('a');
  const [endpoint = ''] = world.deploy(queueInput('echo', { workersMax: 3, scalerValue: 4 }));
  for (let i = 0; i < 10; i++) world.submit(endpoint);
  world.settle();
  world.pass(3_500);
  t.is(world.staying(endpoint).length, 1, 'nothing has waited for 4 s');
  world.pass(2_000);
  t.is(world.staying(endpoint).length, 2);
  world.pass(5_000);
  t.is(world.staying(endpoint).length, 2, 'the one that starts may be enough');
  world.settle();
  world.pass(2_000);
  t.is(world.staying(endpoint).length, 3);
  world.settle();
  world.pass(10_000);
  t.is(world.staying(endpoint).length, 3, 'workersMax');
});

test('REQUEST_COUNT asks for as many workers as the jobs need, at once, and keeps them for the idle time-out', (t) => {
  const world = fleet('a');
  const [endpoint = ''] = world.deploy(queueInput('echo', { workersMax: 5, scalerType: 'REQUEST_COUNT', scalerValue: 2 }));
  for (let i = 0; i < 5; i++) world.submit(endpoint);
  t.is(world.staying(endpoint).length, 3);
  world.settle();
  while (world.running.length > 0) world.complete(world.running[0]?.job ?? '');
  world.submit(endpoint);
  world.pass(4_000);
  t.is(world.staying(endpoint).length, 3, 'one job needs one worker; the others stay for the idle time-out');
  world.pass(3_000);
  t.is(world.staying(endpoint).length, 1, 'and the one that runs a job stays');
});

test('lowPriority jobs start no worker, whichever scaler looks at them', (t) => {
  const world = fleet('a');
  const [one = '', two = ''] = world.deploy(queueInput('one'), queueInput('two', { scalerType: 'REQUEST_COUNT', scalerValue: 1 }));
  for (const endpoint of [one, two]) for (let i = 0; i < 5; i++) world.submit(endpoint, true);
  world.pass(60_000);
  t.is(world.workers(one).length + world.workers(two).length, 0);
  world.submit(two);
  world.settle();
  world.pass(60_000);
  t.is(world.staying(two).length, 1, 'the normal job has one worker; those of low priority ask for no other');
});

test('a worker that still starts goes when it is no longer needed, before any that is ready', (t) => {
  const world = fleet('a');
  const [endpoint = ''] = world.deploy(queueInput('echo', { workersMax: 2 }));
  const first = world.submit(endpoint);
  world.settle();
  const second = world.submit(endpoint);
  world.pass(6_000);
  const starting = world.staying(endpoint).find((worker) => !worker.ready);
  t.truthy(starting);
  world.cancel(endpoint, second);
  world.pass(6_000);
  t.true(starting?.drain);
  t.is(world.staying(endpoint).length, 1);
  t.true(world.running.some(({ job }) => job === first));
});

test('a worker that cannot start does not keep an endpoint from zero', (t) => {
  const world = fleet('a');
  const [endpoint = ''] = world.deploy(queueInput('echo'));
  const job = world.submit(endpoint);
  const [worker] = world.staying(endpoint);
  for (const failures of [1, 2, 3]) world.fail(worker?.id ?? '', failures);
  world.cancel(endpoint, job);
  world.pass(7_000);
  t.is(world.staying(endpoint).length, 0);
});

test('a lowered workersMax drains the excess, and what runs there finishes', (t) => {
  const world = fleet('a');
  const [endpoint = ''] = world.deploy(queueInput('echo', { workersMin: 3, workersMax: 3 }));
  world.settle();
  const jobs = [1, 2, 3].map(() => world.submit(endpoint));
  t.is(world.running.length, 3);
  world.deploy(queueInput('echo', { workersMin: 0, workersMax: 1 }));
  t.is(world.staying(endpoint).length, 1);
  t.is(world.workers(endpoint).length, 3, 'busy ones are asked to go, and stay while they run');
  for (const job of jobs) world.complete(job);
  t.is(world.workers(endpoint).length, 1);
  t.is(world.endpoint(endpoint).counts.completed, 3);
});

test('a raised workersMin grows at once, and other settings restart nothing', (t) => {
  const world = fleet('a');
  const [endpoint = ''] = world.deploy(queueInput('echo', { workersMin: 1 }));
  world.settle();
  const [before] = world.workers(endpoint);
  world.deploy(
    queueInput('echo', { workersMin: 2, idleTimeoutS: 60, scalerType: 'REQUEST_COUNT', scalerValue: 9, executionTimeoutMs: 9_000 }),
  );
  t.is(world.staying(endpoint).length, 2);
  t.true(world.staying(endpoint).includes(before as never));
  world.pass(1_000);
  t.false(before?.drain);
});

test('workers that are wanted and have no place count as throttled', (t) => {
  const world = new FleetWorld();
  world.node('a', ['gpu-1']);
  const [endpoint = ''] = world.deploy(queueInput('echo', { gpuIds: 'ANY', gpuCount: 1, scalerType: 'REQUEST_COUNT', scalerValue: 1 }));
  for (let i = 0; i < 3; i++) world.submit(endpoint);
  t.deepEqual(world.counts(endpoint), { idle: 0, running: 0, initializing: 1, throttled: 2, unhealthy: 0 });
  t.is(world.endpoint(endpoint).rejections[0]?.reason, 'GPU_BUSY');
  world.node('b', ['gpu-2', 'gpu-3']);
  t.is(world.counts(endpoint).throttled, 0, 'a node that comes is used at once');
  t.is(world.counts(endpoint).initializing, 3);
  const [worker] = world.staying(endpoint);
  world.report(worker?.id ?? '', { state: WorkerState.THROTTLED, reason: 'DEVICE_BUSY' });
  t.is(world.counts(endpoint).throttled, 1, 'and so does one that waits on its node for its device');
});

test('a device that is free again is another endpoint’s before the next look at all of them', (t) => {
  const world = new FleetWorld();
  world.node('a', ['gpu-1']);
  const gpu = { gpuIds: 'ANY', gpuCount: 1 };
  const [first = '', second = ''] = world.deploy(queueInput('first', gpu), queueInput('second', gpu));
  world.complete(worldJob(world, first));
  world.submit(second);
  t.like(world.counts(second), { initializing: 0, throttled: 1 });
  world.pass(200);
  world.deploy(queueInput('first', { ...gpu, workersMax: 0 }));
  world.reap();
  t.is(world.counts(first).idle, 0);
  world.pass(100);
  t.like(world.counts(second), { initializing: 1, throttled: 0 });
});

/** A job of the endpoint that runs on a worker of its own. */
function worldJob(world: FleetWorld, endpoint: string): string {
  const job = world.submit(endpoint);
  world.settle();
  return job;
}

test('jobs go to the least loaded worker, and those nobody needs become idle', (t) => {
  const world = fleet('a', 'b');
  const [endpoint = ''] = world.deploy(queueInput('echo', { workersMin: 4, workersMax: 4, maxConcurrency: 2 }));
  world.settle();
  const jobs = Array.from({ length: 4 }, () => world.submit(endpoint));
  t.is(new Set(world.running.map(({ worker }) => worker)).size, 4, 'never two on one while another idles');
  for (const job of jobs) world.complete(job);
  const used = new Set<string>();
  for (let i = 0; i < 20; i++) {
    const job = world.submit(endpoint);
    used.add(world.running.find((running) => running.job === job)?.worker ?? '');
    world.complete(job);
  }
  t.is(used.size, 1, 'one job at a time needs one worker');
});

test('decisions are kept with their reasons, the last ones', (t) => {
  const world = fleet('a');
  const [endpoint = ''] = world.deploy(queueInput('echo'));
  for (let i = 0; i < 40; i++) {
    const job = world.submit(endpoint);
    world.settle();
    world.complete(job);
    world.pass(7_000);
    world.settle();
  }
  const { decisions } = world.endpoint(endpoint);
  t.is(decisions.length, DECISIONS_KEPT);
  t.deepEqual(
    decisions.slice(-2).map(({ kind, reason }) => `${kind} ${reason}`),
    ['REQUEST QUEUE_DELAY: jobs are waiting and no worker is running', 'DRAIN idle for 5 s'],
  );
});

test('requests at several gateways add up, and those of one that is gone count no more', (t) => {
  const world = fleet('a');
  const input = { ...queueInput('web', { workersMax: 5, scalerType: 'REQUEST_COUNT', scalerValue: 4 }), kind: 'LOAD_BALANCED' as const };
  const [endpoint = ''] = world.deploy(input);
  const requests = (gateway: number, held: number, inFlight: number): void =>
    world.event({ kind: 'levels', gateway, levels: [{ endpointId: endpoint, held, inFlight, oldestHeldMs: 0 }] });
  requests(1, 3, 3);
  requests(2, 0, 6);
  world.settle();
  t.is(world.staying(endpoint).length, 3);
  for (const { id } of world.staying(endpoint)) world.report(id, { state: WorkerState.RUNNING });
  world.event({ kind: 'gateway-closed', gateway: 1 });
  for (let n = 0; n < 4; n += 1) world.pass(6_000);
  t.is(world.staying(endpoint).length, 2);
});

test('of a load-balanced endpoint that needs fewer for the idle time-out one worker goes after the other, though all of them serve', (t) => {
  const world = fleet('a');
  const input = { ...queueInput('web', { workersMax: 3, scalerType: 'REQUEST_COUNT', scalerValue: 4 }), kind: 'LOAD_BALANCED' as const };
  const [endpoint = ''] = world.deploy(input);
  const requests = (inFlight: number): void =>
    world.event({ kind: 'levels', gateway: 1, levels: [{ endpointId: endpoint, held: 0, inFlight, oldestHeldMs: 0 }] });
  requests(12);
  world.settle();
  t.is(world.staying(endpoint).length, 3);
  for (const { id } of world.staying(endpoint)) world.report(id, { state: WorkerState.RUNNING });
  world.pass(60_000);
  t.is(world.staying(endpoint).length, 3, 'each is needed');
  requests(8);
  world.pass(4_000);
  requests(12);
  world.pass(4_000);
  requests(8);
  world.pass(4_000);
  t.is(world.staying(endpoint).length, 3, 'never for the whole time-out of 5 s');
  requests(1);
  world.pass(2_000);
  t.is(world.staying(endpoint).length, 2);
  world.pass(3_000);
  t.is(world.staying(endpoint).length, 2, 'the next one goes after another time-out');
  world.pass(4_000);
  t.is(world.staying(endpoint).length, 1);
  requests(0);
  world.pass(60_000);
  t.is(world.staying(endpoint).length, 1, 'the last one stays while its agent says that it serves');
});

test('a job that timed out is final at once; its slot is used again when the agent says that its handler has ended', (t) => {
  const world = new FleetWorld();
  world.node('a');
  const [id = ''] = world.deploy(queueInput('e', { workersMin: 1, workersMax: 1 }));
  world.settle();
  const late = world.submit(id);
  const handlerEnds = world.timeOut(late);
  t.is(world.endpoint(id).counts.failed, 1);
  const next = world.submit(id);
  t.false(
    world.running.some(({ job }) => job === next),
    'the slot is taken',
  );
  handlerEnds();
  t.true(world.running.some(({ job }) => job === next));
  t.is(world.endpoint(id).counts.failed, 1, 'told twice, counted once');
});
