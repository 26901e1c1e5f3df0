/** Idle workers make room for the waiting jobs of other endpoints. */
import test, { type ExecutionContext } from 'ava';

import { WorkerState } from '../../../proto/gen/capstan/v1/common.ts';
import type { EndpointInput } from '../../../scheduler/core/state/endpoints.ts';
import { queueInput } from '../../support/endpoint-input.ts';
import { FleetWorld } from './fleet-world.ts';

/** An endpoint that wants GPUs and keeps idle workers for ten minutes. */
function onGpu(name: string, more: Partial<EndpointInput> = {}): EndpointInput {
  return queueInput(name, { gpuIds: 'ANY', gpuCount: 1, idleTimeoutS: 600, workersMax: 4, ...more });
}

/** Runs one job of an endpoint on a worker of its own, which is idle then. */
function warm(world: FleetWorld, endpoint: string): void {
  const job = world.submit(endpoint);
  world.pass(5_000);
  world.settle();
  world.complete(job);
}

/** Every worker that was asked for starts and every job that runs ends, for some rounds of a second. */
function turnsOver(world: FleetWorld, seconds: number, done?: (job: string) => void): void {
  for (let i = 0; i < seconds; i++) {
    world.pass(1_000);
    world.settle();
    for (const { job } of [...world.running]) {
      world.complete(job);
      done?.(job);
    }
  }
}

function reasons(world: FleetWorld, endpoint: string, kind: string): string[] {
  return world
    .endpoint(endpoint)
    .decisions.filter((decision) => decision.kind === kind)
    .map(({ reason }) => reason);
}

test('an idle worker ends for a job of another endpoint that waits for its device, and both endpoints have the reason', (t) => {
  const world = new FleetWorld();
  world.node('n', ['gpu']);
  const [a = '', b = ''] = world.deploy(onGpu('a'), onGpu('b'));
  warm(world, a);
  world.pass(10_000);
  t.is(world.staying(a).length, 1, 'nothing waits');
  const job = world.submit(b);
  t.is(world.staying(a).length, 0);
  t.is(world.workers(b).length, 0, 'the device is not free yet');
  world.reap();
  t.is(world.staying(b).length, 1, 'at once, when the agent says that the worker is gone');
  world.settle();
  t.deepEqual(
    world.running.map((each) => each.job),
    [job],
  );
  t.deepEqual(reasons(world, a, 'DRAIN'), ['idle: makes room for jobs of endpoint b']);
  t.deepEqual(reasons(world, b, 'MAKE_ROOM'), ['jobs wait: a worker of endpoint a ends to make room']);
  t.is(world.endpoint(b).claims.length, 0);
});

test('processor and memory are made room for as devices are', (t) => {
  const world = new FleetWorld();
  world.node('n', [], { cpuCount: 4, memoryBytes: 64_000_000_000n, memoryAvailableBytes: 64_000_000_000n });
  const cpu = { cpu: 'cpu3c-4-40', idleTimeoutS: 600 };
  const [a = '', b = ''] = world.deploy(queueInput('a', cpu), queueInput('b', cpu));
  warm(world, a);
  world.pass(2_000);
  world.submit(b);
  world.settle();
  t.is(world.staying(a).length, 0);
  t.is(world.staying(b).length, 1);
});

test('of several idle workers the least recently used one ends, and no other', (t) => {
  const world = new FleetWorld();
  for (const name of ['n1', 'n2', 'n3']) world.node(name, [`${name}-gpu`]);
  const [a = '', b = '', c = '', d = ''] = world.deploy(onGpu('a'), onGpu('b'), onGpu('c'), onGpu('d'));
  for (const endpoint of [b, a, c]) warm(world, endpoint);
  world.pass(3_000);
  world.submit(d);
  t.deepEqual(
    [a, b, c].map((endpoint) => world.staying(endpoint).length),
    [1, 0, 1],
  );
  world.pass(5_000);
  t.deepEqual(
    [a, b, c].map((endpoint) => world.staying(endpoint).length),
    [1, 0, 1],
    'the room is on its way',
  );
  world.settle();
  t.is(world.staying(d).length, 1);
});

test('a worker with two devices takes the room of two idle ones where one is not enough, and of one where it is', (t) => {
  const world = new FleetWorld();
  world.node('n', ['g1', 'g2', 'g3']);
  const [a = '', b = '', c = '', wide = ''] = world.deploy(onGpu('a'), onGpu('b'), onGpu('c'), onGpu('wide', { gpuCount: 2 }));
  for (const endpoint of [a, b, c]) warm(world, endpoint);
  world.pass(3_000);
  world.submit(wide);
  t.deepEqual(
    [a, b, c].map((endpoint) => world.staying(endpoint).length),
    [0, 0, 1],
  );
  world.settle();
  t.deepEqual(
    world.staying(wide).map(({ devices }) => devices.length),
    [2],
  );
  t.deepEqual(reasons(world, wide, 'MAKE_ROOM'), ['jobs wait: 2 workers of endpoint a, endpoint b end to make room']);

  const other = new FleetWorld();
  other.node('n', ['g1', 'g2', 'g3', 'g4']);
  const [d = '', e = '', pair = '', next = ''] = other.deploy(
    onGpu('d'),
    onGpu('e'),
    onGpu('pair', { gpuCount: 2 }),
    onGpu('next', { gpuCount: 2 }),
  );
  for (const endpoint of [d, e, pair]) warm(other, endpoint);
  other.pass(3_000);
  other.submit(next);
  t.deepEqual(
    [d, e, pair].map((endpoint) => other.staying(endpoint).length),
    [1, 1, 0],
  );
});

test('a worker that was used longer ago stays where its room is of no use', (t) => {
  const world = new FleetWorld();
  world.node('n', ['g1', 'g2']);
  const [cpu = '', a = '', b = '', wide = ''] = world.deploy(
    queueInput('cpu', { idleTimeoutS: 600 }),
    onGpu('a'),
    onGpu('b'),
    onGpu('wide', { gpuCount: 2 }),
  );
  for (const endpoint of [cpu, a, b]) warm(world, endpoint);
  world.pass(3_000);
  world.submit(wide);
  t.deepEqual(
    [cpu, a, b].map((endpoint) => world.staying(endpoint).length),
    [1, 0, 0],
  );
});

test('no worker ends that would not make the job placeable', (t) => {
  const world = new FleetWorld();
  world.node('n', ['g1', 'g2']);
  const [a = '', b = '', c = ''] = world.deploy(
    onGpu('a'),
    onGpu('b', { gpuCount: 3 }),
    queueInput('c', { python: '3.12', runtime: 'process' }),
  );
  warm(world, a);
  world.pass(3_000);
  world.submit(b);
  world.submit(c);
  world.pass(60_000);
  t.is(world.staying(a).length, 1);
});

function keepsItsWorker(t: ExecutionContext, holder: Partial<EndpointInput>, submit: (world: FleetWorld, endpoint: string) => void): void {
  const world = new FleetWorld();
  world.node('n', ['gpu']);
  const [a = '', b = ''] = world.deploy(onGpu('a', holder), onGpu('b'));
  if (holder.workersMin === undefined) warm(world, a);
  else world.settle();
  world.pass(3_000);
  submit(world, b);
  world.pass(120_000);
  t.is(world.staying(a).length, 1);
  t.deepEqual(reasons(world, b, 'MAKE_ROOM'), []);
}

const waits = (world: FleetWorld, endpoint: string): void => void world.submit(endpoint);
test('a worker of workersMin stays', keepsItsWorker, { workersMin: 1 }, waits);
test('a worker of an endpoint that keeps idle ones stays', keepsItsWorker, { keepIdle: true }, waits);
test(
  'a job of low priority ends no worker',
  keepsItsWorker,
  {},
  (world: FleetWorld, endpoint: string) => void world.submit(endpoint, true),
);
test('workersMin of another endpoint ends no worker', keepsItsWorker, {}, (world: FleetWorld) => {
  world.deploy(onGpu('b', { workersMin: 1 }));
});

test('endpoints of other accounts make room, too, and are not named', (t) => {
  const world = new FleetWorld();
  world.node('n', ['gpu']);
  const [a = '', b = ''] = world.deploy(onGpu('a'), onGpu('secret-plan'));
  const other = world.endpoint(b);
  other.config = { ...other.config, account: 'other' };
  warm(world, a);
  world.pass(3_000);
  world.submit(b);
  t.deepEqual(reasons(world, a, 'DRAIN'), ['idle: makes room for jobs of another account']);
  t.deepEqual(reasons(world, b, 'MAKE_ROOM'), ['jobs wait: a worker of another account ends to make room']);
});

test('the room goes to the job that it was made for, whoever else waits', (t) => {
  const world = new FleetWorld();
  world.node('n', ['gpu']);
  const [first = '', a = '', wants = ''] = world.deploy(onGpu('first'), onGpu('a'), onGpu('wants'));
  warm(world, a);
  world.pass(3_000);
  world.submit(wants);
  t.is(world.staying(a).length, 0);
  world.submit(first);
  world.submit(a);
  world.settle();
  t.deepEqual(
    [first, a, wants].map((endpoint) => world.staying(endpoint).length),
    [0, 0, 1],
  );
});

test('when the job is cancelled before the room is there, others may use it', (t) => {
  const world = new FleetWorld();
  world.node('n', ['gpu']);
  const [a = '', b = '', c = ''] = world.deploy(onGpu('a'), onGpu('b'), onGpu('c'));
  warm(world, a);
  world.pass(3_000);
  const job = world.submit(b);
  world.submit(c);
  world.cancel(b, job);
  world.reap();
  world.pass(1_500);
  t.is(world.staying(c).length, 1);
  t.is(world.image.nodes.get('n')?.claims.length, 0);
});

test('after a restart of the scheduler the room on its way is counted: no second worker ends', (t) => {
  const world = new FleetWorld();
  world.node('n', ['g1', 'g2']);
  const [a = '', b = '', c = ''] = world.deploy(onGpu('a'), onGpu('b'), onGpu('c'));
  for (const endpoint of [a, b]) warm(world, endpoint);
  world.pass(3_000);
  world.submit(c);
  t.deepEqual(
    [a, b].map((endpoint) => world.staying(endpoint).length),
    [0, 1],
  );
  world.restart();
  world.connect('n', ['g1', 'g2']);
  world.pass(2_000);
  world.submit(c);
  world.pass(5_000);
  t.deepEqual(
    [a, b].map((endpoint) => world.staying(endpoint).length),
    [0, 1],
  );
});

test('a worker that does not end is not counted on for ever', (t) => {
  const world = new FleetWorld();
  world.node('n', ['g1', 'g2']);
  const [a = '', b = '', c = ''] = world.deploy(onGpu('a'), onGpu('b'), onGpu('c'));
  for (const endpoint of [a, b]) warm(world, endpoint);
  world.pass(3_000);
  world.submit(c);
  world.pass(20_000);
  t.is(world.staying(b).length, 1);
  world.pass(15_000);
  t.is(world.staying(b).length, 0);
});

test('a worker stays as long as its start took, up to 30 s', (t) => {
  for (const { loadedMs, before, after } of [
    { loadedMs: 20, before: 500, after: 1_000 },
    { loadedMs: 12_000, before: 11_000, after: 2_000 },
    { loadedMs: 300_000, before: 29_000, after: 2_000 },
  ]) {
    const world = new FleetWorld();
    world.node('n', ['gpu']);
    const [a = '', b = ''] = world.deploy(onGpu('a'), onGpu('b'));
    const job = world.submit(a);
    for (const { id } of world.workers(a)) world.report(id, { state: WorkerState.IDLE, loadedMs });
    world.complete(job);
    world.submit(b);
    world.pass(before);
    t.is(world.staying(a).length, 1, `${loadedMs}`);
    world.pass(after);
    t.is(world.staying(a).length, 0, `${loadedMs}`);
  }
});

test('a worker that still starts ends first when nothing waits for it', (t) => {
  const world = new FleetWorld();
  world.node('n', ['g1', 'g2']);
  const [a = '', b = '', c = ''] = world.deploy(onGpu('a'), onGpu('b'), onGpu('c'));
  warm(world, a);
  const job = world.submit(b);
  t.is(world.staying(b).length, 1);
  world.cancel(b, job);
  world.pass(3_000);
  world.submit(c);
  t.deepEqual(
    [a, b].map((endpoint) => world.staying(endpoint).length),
    [1, 0],
  );
});

test('held requests of a load-balanced endpoint wait as jobs do, and its idle workers make room as well', (t) => {
  const world = new FleetWorld();
  world.node('n', ['gpu']);
  const web = { ...onGpu('web', { scalerType: 'REQUEST_COUNT' as const }), kind: 'LOAD_BALANCED' as const };
  const [a = '', lb = ''] = world.deploy(onGpu('a'), web);
  const level = (held: number, inFlight: number): void =>
    world.event({ kind: 'levels', gateway: 1, levels: [{ endpointId: lb, held, inFlight, oldestHeldMs: 0 }] });
  warm(world, a);
  world.pass(3_000);
  level(1, 0);
  t.is(world.staying(a).length, 0);
  world.settle();
  t.is(world.staying(lb).length, 1);
  level(0, 1);
  for (const { id } of world.staying(lb)) world.report(id, { state: WorkerState.RUNNING });
  world.pass(3_000);
  world.submit(a);
  world.pass(30_000);
  t.is(world.staying(lb).length, 1, 'it serves a request');
  level(0, 0);
  for (const { id } of world.staying(lb)) world.report(id, { state: WorkerState.IDLE });
  world.pass(2_000);
  t.is(world.staying(lb).length, 0);
});

test('two endpoints with long queues share one device in turns: in runs, and neither starves', (t) => {
  const world = new FleetWorld();
  world.node('n', ['gpu']);
  const [a = '', b = ''] = world.deploy(onGpu('a'), onGpu('b'));
  const owner = new Map<string, string>();
  for (let i = 0; i < 300; i++) for (const endpoint of [a, b]) owner.set(world.submit(endpoint), endpoint);
  const order: string[] = [];
  turnsOver(world, 320, (job) => order.push(owner.get(job) ?? ''));
  const runs: { endpoint: string; jobs: number }[] = [];
  for (const endpoint of order) {
    const last = runs.at(-1);
    if (last?.endpoint === endpoint) last.jobs++;
    else runs.push({ endpoint, jobs: 1 });
  }
  t.true(runs.length >= 4 && runs.length <= 6, JSON.stringify(runs));
  for (const { jobs } of runs.slice(0, -1)) t.true(jobs >= 50 && jobs <= 70, JSON.stringify(runs));
  t.true(reasons(world, a, 'DRAIN').includes('its turn is over: makes room for jobs of endpoint b'));
});

test('three endpoints get their turns one after the other', (t) => {
  const world = new FleetWorld();
  world.node('n', ['gpu']);
  const ids = world.deploy(onGpu('a'), onGpu('b'), onGpu('c'));
  const owner = new Map<string, string>();
  for (let i = 0; i < 200; i++) for (const endpoint of ids) owner.set(world.submit(endpoint), endpoint);
  const order: string[] = [];
  turnsOver(world, 420, (job) => order.push(owner.get(job) ?? ''));
  const runs = order.filter((endpoint, i) => endpoint !== order[i - 1]);
  t.deepEqual(runs.slice(0, 6), [...ids, ...ids]);
});

test('endpoints that each have a worker do not take turns', (t) => {
  const world = new FleetWorld();
  world.node('n', ['g1', 'g2']);
  const [a = '', b = ''] = world.deploy(onGpu('a'), onGpu('b'));
  for (const endpoint of [a, b]) for (let i = 0; i < 400; i++) world.submit(endpoint);
  turnsOver(world, 300);
  for (const endpoint of [a, b]) t.deepEqual(reasons(world, endpoint, 'DRAIN'), []);
});

test('a busy worker whose turn is over ends its job first, gets no other one, and stays if nothing waits any more', (t) => {
  const world = new FleetWorld();
  world.node('n', ['gpu']);
  const [a = '', b = ''] = world.deploy(onGpu('a'), onGpu('b'));
  const long = world.submit(a);
  const next = world.submit(a);
  world.settle();
  const job = world.submit(b);
  world.pass(70_000);
  const [worker] = world.workers(a);
  t.is(worker?.yieldsTo, b);
  t.false(worker?.drain, 'it holds a lease');
  world.cancel(b, job);
  world.pass(1_500);
  t.is(worker?.yieldsTo, null);
  world.complete(long);
  t.deepEqual(
    world.running.map((each) => each.job),
    [next],
  );
});

test('a worker whose starts fail does not keep a device from others for ever', (t) => {
  const world = new FleetWorld();
  world.node('n', ['gpu']);
  const [a = '', b = ''] = world.deploy(onGpu('a'), onGpu('b'));
  world.submit(a);
  for (let failures = 1; failures <= 4; failures++) for (const { id } of world.workers(a)) world.fail(id, failures);
  world.submit(b);
  world.pass(59_000);
  t.is(world.staying(a).length, 1);
  world.pass(3_000);
  world.settle();
  t.is(world.staying(b).length, 1);
});
