/** Desired against actual workers, in the core alone. */
import test from 'ava';

import { actualWorkers } from '../../agent/core/report.ts';
import { RESTART_BURST, RESTART_EVERY_MS } from '../../agent/core/restarts.ts';
import { BACKOFF_FIRST_MS, WEBSOCKET_DRAIN_MS } from '../../agent/core/workers.ts';
import { WorkerSpec, type WorkerStatus } from '../../proto/gen/capstan/v1/nodes.ts';
import { release, World } from './core-world.ts';
import { dispatchOf } from './fake-scheduler.ts';

function desire(world: World, epoch: number, workers: readonly Partial<WorkerSpec>[], releases = [release()]): void {
  const specs = workers.map((worker) => ({ ...WorkerSpec.fromPartial({ workerId: 'w1', releaseId: 'r1' }), ...worker }));
  world.feed({ kind: 'desired', desired: { epoch, workers: specs, releases } });
}

function status(world: World, workerId = 'w1'): WorkerStatus | undefined {
  return actualWorkers(world.image).workers.find((worker) => worker.workerId === workerId);
}

function worldWith(...workers: Partial<WorkerSpec>[]): World {
  const world = new World();
  world.feed({ kind: 'welcome' });
  desire(world, 1, workers);
  return world;
}

test('a worker goes from build to host to ready, and says where it is', (t) => {
  const world = worldWith({});
  t.like(status(world), { state: 'WORKER_STATE_INITIALIZING', reason: 'ARTIFACT' });
  world.pass(120);
  world.feed({ kind: 'artifact-ready', workerId: 'w1', start: 1, folder: '/b' });
  t.like(status(world), { state: 'WORKER_STATE_INITIALIZING', reason: 'STARTING', artifactMs: 120 });
  world.pass(30);
  world.feed({ kind: 'host-started', workerId: 'w1', start: 1 });
  world.pass(20);
  world.feed({ kind: 'loaded', workerId: 'w1', start: 1 });
  t.like(status(world), { state: 'WORKER_STATE_IDLE', reason: '', artifactMs: 120, startedMs: 150, loadedMs: 170 });
});

test('a release without a build goes straight to its host, in the runtime that the placement chose', (t) => {
  const world = new World();
  world.feed({ kind: 'welcome' });
  const workers = [{ ...WorkerSpec.fromPartial({ workerId: 'w1', releaseId: 'r1', runtime: 'container' }) }];
  const foreign = release({ buildDigest: '', runtime: '', image: 'someone/worker:2' });
  const effects = world.feed({ kind: 'desired', desired: { epoch: 1, workers, releases: [foreign] } });
  t.like(effects, [{ kind: 'start-host', folder: '', runtime: 'container' }]);
  t.like(status(world), { state: 'WORKER_STATE_INITIALIZING', reason: 'STARTING' });
  world.exit('w1');
  world.pass(BACKOFF_FIRST_MS);
  t.is(world.host('w1')?.start, 2);
});

test('an image being fetched is told with how far it is, and has the time-out anew each time', (t) => {
  const world = worldWith({ runtime: 'container' });
  world.feed({ kind: 'artifact-ready', workerId: 'w1', start: 1, folder: '/b' });
  for (const percent of [0, 40, 80]) {
    world.feed({ kind: 'preparing', workerId: 'w1', start: 1, reason: 'IMAGE_PULL', detail: `${percent}%` });
    t.like(status(world), { state: 'WORKER_STATE_INITIALIZING', reason: 'IMAGE_PULL', detail: `${percent}%` });
    world.pass(9_000);
  }
  world.feed({ kind: 'preparing', workerId: 'w1', start: 1, reason: 'STARTING', detail: '' });
  t.like(status(world), { reason: 'STARTING', detail: '' });
  world.pass(9_999);
  t.like(status(world), { state: 'WORKER_STATE_INITIALIZING' });
  world.pass(1);
  t.like(status(world), { state: 'WORKER_STATE_UNHEALTHY', reason: 'START_TIMEOUT' });
});

test('an image that stands still is a time-out that says so; one that cannot be had has its own reason', (t) => {
  const world = worldWith({ runtime: 'container' });
  const preparing = { kind: 'preparing', workerId: 'w1', reason: 'IMAGE_PULL', detail: '42% of 2.0 GB' } as const;
  world.feed({ kind: 'artifact-ready', workerId: 'w1', start: 1, folder: '/b' });
  world.feed({ ...preparing, start: 1 });
  world.pass(10_000);
  t.like(status(world), { reason: 'START_TIMEOUT', detail: 'the worker was not ready after 10000 ms: IMAGE_PULL 42% of 2.0 GB' });
  world.exit('w1');
  world.pass(BACKOFF_FIRST_MS);
  world.feed({ kind: 'artifact-ready', workerId: 'w1', start: 2, folder: '/b' });
  // The first start's words come late.
  world.feed({ ...preparing, start: 1 });
  t.like(status(world), { reason: 'STARTING' });
  world.feed({ kind: 'start-failed', workerId: 'w1', start: 2, reason: 'IMAGE_PULL_FAILED', detail: 'no such image' });
  t.like(status(world), { state: 'WORKER_STATE_UNHEALTHY', reason: 'IMAGE_PULL_FAILED', detail: 'no such image', failures: 2 });
});

test('an older desired set is ignored; the epoch applied is reported', (t) => {
  const world = worldWith({});
  desire(world, 5, [{}, { workerId: 'w2' }]);
  desire(world, 4, []);
  t.is(actualWorkers(world.image).epoch, 5);
  t.is(world.image.workers.size, 2);
});

test('another identity of the node starts counting epochs anew', (t) => {
  const world = worldWith({});
  desire(world, 9, [{}]);
  world.feed({ kind: 'rejoined' });
  desire(world, 1, []);
  world.settle();
  t.is(world.image.workers.size, 0);
});

test('a worker out of the desired set finishes what it holds first', (t) => {
  const world = worldWith({});
  world.settle();
  world.feed({ kind: 'dispatch', dispatch: dispatchOf({ jobId: 'j1' }) });
  world.feed({ kind: 'handler-entered', key: 'j1#1' });
  desire(world, 2, []);
  t.is(status(world)?.state, 'WORKER_STATE_DRAINING');
  t.is(world.host('w1')?.asked, 'no');
  world.feed({ kind: 'dispatch', dispatch: dispatchOf({ jobId: 'j2' }) });
  t.like(world.reports.at(-1), { $case: 'refused', value: { jobId: 'j2', reason: 'REFUSAL_REASON_DRAINING' } });
  world.feed({ kind: 'handler-ended', key: 'j1#1', result: { kind: 'returned', output: Buffer.from('1'), ms: 5 } });
  t.is(world.host('w1')?.asked, 'gently');
  world.exit('w1');
  t.is(status(world), undefined);
});

test('a worker out of the desired set waits for its requests, and for WebSockets half a minute in all', (t) => {
  const requests = (world: World, count: number, webSockets: number): unknown =>
    world.feed({ kind: 'requests', workerId: 'w1', start: 1, count, webSockets });
  const draining = (count: number, webSockets: number): World => {
    const world = worldWith({});
    world.settle();
    requests(world, count, webSockets);
    desire(world, 2, []);
    return world;
  };
  const open = draining(2, 2);
  open.pass(WEBSOCKET_DRAIN_MS - 1);
  t.is(open.host('w1')?.asked, 'no');
  open.pass(1);
  t.is(open.host('w1')?.asked, 'gently');
  // Its server closes them, one after the other.
  requests(open, 1, 1);
  requests(open, 0, 0);
  open.exit('w1');
  t.is(status(open), undefined);

  // One that ends in time is not ended twice, and ordinary requests have no such limit.
  const both = draining(2, 1);
  both.pass(10 * WEBSOCKET_DRAIN_MS);
  t.is(both.host('w1')?.asked, 'no');
  requests(both, 1, 1);
  t.is(both.host('w1')?.asked, 'gently');
  const early = draining(1, 1);
  requests(early, 0, 0);
  t.is(early.host('w1')?.asked, 'gently');

  // An agent that closes has less time, and gives its servers all of it.
  const closing = worldWith({});
  closing.settle();
  requests(closing, 1, 1);
  closing.feed({ kind: 'close' });
  t.is(closing.host('w1')?.asked, 'gently');
  const later = draining(1, 1);
  later.feed({ kind: 'close' });
  t.is(later.host('w1')?.asked, 'gently');
});

test('a drained worker that stays in the set is not started again', (t) => {
  const world = worldWith({});
  world.settle();
  desire(world, 2, [{ drain: true }]);
  world.settle();
  t.is(status(world), undefined);
  t.is(world.hosts.size, 0);
});

test('a worker id with another release is replaced after its end', (t) => {
  const world = worldWith({});
  world.settle();
  desire(world, 2, [{ releaseId: 'r2' }], [release(), release({ releaseId: 'r2' })]);
  world.settle();
  t.like(status(world), { releaseId: 'r2', state: 'WORKER_STATE_IDLE' });
});

test('failing starts back off, doubling to a minute, and are a crash loop from the third on', (t) => {
  const world = worldWith({});
  const waits: number[] = [];
  for (let start = 1; start <= 9; start += 1) {
    world.feed({ kind: 'artifact-ready', workerId: 'w1', start, folder: '/b' });
    world.feed({ kind: 'load-failed', workerId: 'w1', start, detail: `fault ${start}` });
    t.like(status(world), {
      state: 'WORKER_STATE_UNHEALTHY',
      reason: start < 3 ? 'LOAD_FAILED' : 'CRASH_LOOP',
      detail: `fault ${start}`,
      failures: start,
    });
    world.exit('w1');
    const before = world.now;
    while (world.fetches.length < start + 1) world.pass(100);
    waits.push(world.now - before);
    t.is(status(world)?.state, start < 3 ? 'WORKER_STATE_INITIALIZING' : 'WORKER_STATE_UNHEALTHY');
  }
  t.deepEqual(waits, [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000, 60_000]);
});

test('a host must be gone before its worker starts again', (t) => {
  const world = worldWith({});
  world.feed({ kind: 'artifact-ready', workerId: 'w1', start: 1, folder: '/b' });
  world.feed({ kind: 'load-failed', workerId: 'w1', start: 1, detail: 'broken' });
  t.is(world.host('w1')?.asked, 'force');
  world.pass(60_000);
  t.is(world.fetches.length, 1);
  world.exit('w1');
  world.pass(1);
  t.is(world.fetches.length, 2);
});

test('a start that takes too long is a failure', (t) => {
  const world = worldWith({});
  world.feed({ kind: 'artifact-ready', workerId: 'w1', start: 1, folder: '/b' });
  world.pass(10_000);
  t.like(status(world), { reason: 'START_TIMEOUT', detail: 'the worker was not ready after 10000 ms' });
  t.is(world.host('w1')?.asked, 'force');
});

test('a build that cannot be had is told and tried again', (t) => {
  const world = worldWith({});
  world.feed({ kind: 'artifact-failed', workerId: 'w1', start: 1, detail: 'no blob' });
  t.like(status(world), { state: 'WORKER_STATE_UNHEALTHY', reason: 'ARTIFACT_FAILED', detail: 'no blob' });
  world.pass(1_000);
  t.like(status(world), { state: 'WORKER_STATE_INITIALIZING', reason: 'ARTIFACT' });
});

test('a job that ends well forgives earlier failures', (t) => {
  const world = worldWith({});
  world.feed({ kind: 'artifact-failed', workerId: 'w1', start: 1, detail: 'no blob' });
  world.pass(1_000);
  world.fetches.shift();
  world.settle();
  t.is(status(world)?.failures, 1);
  world.feed({ kind: 'dispatch', dispatch: dispatchOf({ jobId: 'j1' }) });
  world.settle();
  t.is(status(world)?.failures, 0);
});

test('what an earlier start still says is ignored', (t) => {
  const world = worldWith({});
  world.settle();
  world.exit('w1');
  world.pass(1_000);
  world.settle();
  t.is(status(world)?.state, 'WORKER_STATE_IDLE');
  world.feed({ kind: 'exited', workerId: 'w1', start: 1, detail: 'late', hardStop: false });
  t.is(status(world)?.state, 'WORKER_STATE_IDLE');
});

test('a device goes to the next worker only when the last process on it is gone', (t) => {
  const world = worldWith({ deviceUuids: ['GPU-1'] });
  world.settle();
  desire(world, 2, [{ workerId: 'w2', deviceUuids: ['GPU-1'] }]);
  t.like(status(world, 'w2'), { state: 'WORKER_STATE_THROTTLED', reason: 'DEVICE_BUSY' });
  t.is(world.fetches.length, 0);
  world.exit('w1');
  t.is(status(world, 'w2')?.reason, 'ARTIFACT');
});

test('a worker killed to stop a job starts again at once, uncharged', (t) => {
  const world = worldWith({});
  world.settle();
  world.exit('w1', true);
  t.like(status(world), { state: 'WORKER_STATE_INITIALIZING', reason: 'ARTIFACT', failures: 0 });
});

test('workers that their own work ends start again at once, up to a rate of their endpoint', (t) => {
  const world = worldWith({}, { workerId: 'w2' });
  world.settle();
  const crash = (workerId: string): string | undefined => {
    world.exit(workerId, true);
    const { reason } = status(world, workerId) ?? {};
    world.settle();
    return reason;
  };
  for (let n = 0; n < RESTART_BURST; n += 1) t.is(crash(n % 2 === 0 ? 'w1' : 'w2'), 'ARTIFACT');
  t.is(crash('w1'), 'RESTARTS_LIMITED');
  t.like(status(world, 'w1'), { state: 'WORKER_STATE_INITIALIZING', failures: 0 });
  // Both wait for their turn, one after the other.
  t.is(crash('w2'), 'RESTARTS_LIMITED');
  world.pass(RESTART_EVERY_MS);
  world.settle();
  t.deepEqual([status(world, 'w1')?.state, status(world, 'w2')?.state], ['WORKER_STATE_IDLE', 'WORKER_STATE_INITIALIZING']);
  world.pass(RESTART_EVERY_MS);
  world.settle();
  t.is(status(world, 'w2')?.state, 'WORKER_STATE_IDLE');
  // One every second has no wait, however long.
  world.pass(RESTART_BURST * RESTART_EVERY_MS);
  for (let n = 0; n < 100; n += 1) {
    t.is(crash('w1'), 'ARTIFACT');
    world.pass(1_000);
  }
});

test('a worker that its requests have lost starts again at once, however late its end is known', (t) => {
  const world = worldWith({});
  world.settle();
  const setRequests = (count: number, isLost: boolean): void =>
    void world.feed({ kind: 'requests', workerId: 'w1', start: 1, count, webSockets: 0, isLost });
  setRequests(1, false);
  setRequests(0, true);
  world.pass(5_000);
  world.exit('w1');
  t.like(status(world), { state: 'WORKER_STATE_INITIALIZING', reason: 'ARTIFACT', failures: 0 });
});

test('a worker that dies a while after its last request waits before its next start', (t) => {
  const world = worldWith({});
  world.settle();
  for (const count of [1, 0]) world.feed({ kind: 'requests', workerId: 'w1', start: 1, count, webSockets: 0, isLost: false });
  world.pass(5_000);
  world.exit('w1');
  t.like(status(world), { state: 'WORKER_STATE_UNHEALTHY', reason: 'WORKER_DIED', failures: 1 });
});

test('a worker that waits for its restart ends at once when it is no longer wanted', (t) => {
  const world = worldWith({});
  world.settle();
  for (let n = 0; n <= RESTART_BURST; n += 1) {
    world.exit('w1', true);
    world.settle();
  }
  t.is(status(world, 'w1')?.reason, 'RESTARTS_LIMITED');
  world.feed({ kind: 'close' });
  t.is(world.image.workers.size, 0);
});

test('a worker whose device cannot be used takes nothing and is not started; it goes on when the device is usable again', (t) => {
  const world = worldWith({ deviceUuids: ['GPU-a'] }, { workerId: 'w2', deviceUuids: ['GPU-b'] });
  world.settle();
  world.feed({ kind: 'dispatch', dispatch: dispatchOf({ jobId: 'runs', workerId: 'w1' }) });
  const [runs] = world.host('w1')?.tasks.keys() ?? [];
  world.feed({ kind: 'handler-entered', key: runs ?? '' });
  world.feed({ kind: 'devices', problems: new Map([['GPU-a', 'fallen off the bus']]) });
  t.like(status(world), { state: 'WORKER_STATE_UNHEALTHY', reason: 'DEVICE_PROBLEM', detail: 'GPU-a: fallen off the bus' });
  t.like(status(world, 'w2'), { state: 'WORKER_STATE_IDLE', reason: '' });
  const refused = world.feed({ kind: 'dispatch', dispatch: dispatchOf({ jobId: 'late', workerId: 'w1' }) });
  t.like(refused, [{ kind: 'report', event: { event: { $case: 'refused', value: { jobId: 'late' } } } }]);
  t.is(refused.length, 1);
  // What runs is not stopped; its end is its own.
  t.is(world.image.attempts.get(runs ?? '')?.stop, undefined);
  world.exit('w1');
  world.pass(BACKOFF_FIRST_MS);
  t.is(world.host('w1'), undefined, 'no start on a lost device');
  t.like(status(world), { state: 'WORKER_STATE_UNHEALTHY', reason: 'DEVICE_PROBLEM' });
  world.feed({ kind: 'devices', problems: new Map() });
  world.settle();
  t.like(status(world), { state: 'WORKER_STATE_IDLE', reason: '' });
});

test('attempts that have not entered their handler are returned when the device is lost', (t) => {
  const world = worldWith({ deviceUuids: ['GPU-a'] });
  world.settle();
  const input = { body: { $case: 'blob', value: { id: 'i', size: 1 } } } as const;
  world.feed({ kind: 'dispatch', dispatch: { ...dispatchOf({ jobId: 'fetches', workerId: 'w1' }), input } });
  const effects = world.feed({ kind: 'devices', problems: new Map([['GPU-a', 'lost']]) });
  t.true(effects.some((effect) => effect.kind === 'report' && effect.event.event?.$case === 'refused'));
  t.is(world.image.attempts.size, 0);
});

test('a worker that alone has lost its GPUs takes nothing new, ends what it runs, and starts anew', (t) => {
  const world = worldWith({ deviceUuids: ['GPU-a'] });
  world.settle();
  const start = world.host('w1')?.start ?? 0;
  world.feed({ kind: 'dispatch', dispatch: dispatchOf({ jobId: 'runs', workerId: 'w1' }) });
  const [runs] = world.host('w1')?.tasks.keys() ?? [];
  world.feed({ kind: 'handler-entered', key: runs ?? '' });
  const detail = 'its GPU cannot be opened from inside: /dev/nvidiactl cannot be opened';
  world.feed({ kind: 'gpus-lost', workerId: 'w1', start: start - 1, detail: 'of an earlier start' });
  t.like(status(world), { reason: '' });
  world.feed({ kind: 'gpus-lost', workerId: 'w1', start, detail });
  t.like(status(world), { state: 'WORKER_STATE_UNHEALTHY', reason: 'DEVICE_PROBLEM', detail });
  const refused = world.feed({ kind: 'dispatch', dispatch: dispatchOf({ jobId: 'late', workerId: 'w1' }) });
  t.like(refused, [{ kind: 'report', event: { event: { $case: 'refused', value: { jobId: 'late', detail } } } }]);
  t.is(world.host('w1')?.asked, 'no', 'what runs goes on: its context is open');
  world.feed({ kind: 'handler-ended', key: runs ?? '', result: { kind: 'returned', output: Buffer.from('1'), ms: 1 } });
  world.settle();
  t.is(world.host('w1'), undefined, 'the host has ended');
  t.like(status(world), { state: 'WORKER_STATE_UNHEALTHY', reason: 'DEVICE_PROBLEM', detail });
  world.pass(BACKOFF_FIRST_MS);
  world.settle();
  t.like(status(world), { state: 'WORKER_STATE_IDLE', reason: '' });
  t.is(world.host('w1')?.start, start + 1);
});

test('a worker that holds nothing when it loses its GPUs starts anew at once; a draining one only ends', (t) => {
  const world = worldWith({ deviceUuids: ['GPU-a'] });
  world.settle();
  world.feed({ kind: 'gpus-lost', workerId: 'w1', start: world.host('w1')?.start ?? 0, detail: 'lost' });
  t.is(world.host('w1')?.asked, 'force');
});
