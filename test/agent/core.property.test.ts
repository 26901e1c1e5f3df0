/** Whatever happens in whatever order, the core keeps its promises (invariants 2, 6, 7, 8). */
import { fc, testProp } from '@fast-check/ava';

import { WorkerSpec } from '../../proto/gen/capstan/v1/nodes.ts';
import { attemptKey, type Attempt } from '../../agent/core/state.ts';
import { release, World } from './core-world.ts';
import { dispatchOf } from './fake-scheduler.ts';

const workerIds = ['w1', 'w2', 'w3'] as const;
const worker = fc.constantFrom(...workerIds);
const job = fc.constantFrom('j1', 'j2', 'j3', 'j4');
const token = fc.integer({ min: 1, max: 4 });

const weighted = <A>(weight: number, arbitrary: fc.Arbitrary<A>): { weight: number; arbitrary: fc.Arbitrary<A> } => ({ weight, arbitrary });

const action = fc.oneof(
  weighted(
    1,
    fc.record({
      act: fc.constant('desire' as const),
      workers: fc.uniqueArray(
        fc.record({ workerId: worker, releaseId: fc.constantFrom('r1', 'r2'), device: fc.boolean(), drain: fc.boolean() }),
        { selector: ({ workerId }) => workerId, minLength: 1, maxLength: 3 },
      ),
      stale: fc.boolean(),
    }),
  ),
  // A lease usually has a new token; else it is an old or a repeated one.
  weighted(10, fc.record({ act: fc.constant('dispatch' as const), worker, job, token, fresh: fc.boolean(), large: fc.boolean() })),
  weighted(2, fc.record({ act: fc.constant('stop' as const), pick: fc.nat(5) })),
  weighted(2, fc.record({ act: fc.constant('recall' as const), pick: fc.nat(5) })),
  weighted(4, fc.record({ act: fc.constant('ack' as const), pick: fc.nat(5) })),
  weighted(3, fc.record({ act: fc.constant('drained' as const), pick: fc.nat(5), next: fc.integer({ min: 0, max: 30 }) })),
  weighted(2, fc.record({ act: fc.constant('session' as const), up: fc.boolean() })),
  weighted(4, fc.record({ act: fc.constant('artifact' as const), good: fc.boolean() })),
  weighted(6, fc.record({ act: fc.constant('input' as const), good: fc.boolean() })),
  weighted(5, fc.record({ act: fc.constant('store' as const), good: fc.boolean() })),
  weighted(6, fc.record({ act: fc.constant('load' as const), worker, good: fc.boolean() })),
  weighted(12, fc.record({ act: fc.constant('enter' as const), worker })),
  weighted(8, fc.record({ act: fc.constant('chunk' as const), worker, large: fc.boolean() })),
  weighted(6, fc.record({ act: fc.constant('end' as const), worker, how: fc.constantFrom('returned', 'large', 'failed', 'stopped') })),
  weighted(1, fc.record({ act: fc.constant('reload' as const), worker })),
  weighted(1, fc.record({ act: fc.constant('exit' as const), worker, hardStop: fc.boolean() })),
  weighted(3, fc.record({ act: fc.constant('pass' as const), ms: fc.integer({ min: 0, max: 4_000 }) })),
);

type Action = typeof action extends fc.Arbitrary<infer A> ? A : never;

function perform(world: World, epoch: { value: number }, doing: Action): void {
  switch (doing.act) {
    case 'desire': {
      if (!doing.stale) epoch.value += 1;
      const workers: WorkerSpec[] = doing.workers.map(({ workerId, releaseId, device, drain }) =>
        WorkerSpec.fromPartial({ workerId, releaseId, deviceUuids: device ? ['GPU-1'] : [], drain }),
      );
      const releases = [release({ releaseId: 'r1', maxConcurrency: 1 }), release({ releaseId: 'r2', maxConcurrency: 2 })];
      // An older set than the one applied is ignored.
      world.feed({ kind: 'desired', desired: { epoch: doing.stale ? epoch.value - 1 : epoch.value, workers, releases } });
      return;
    }
    case 'dispatch': {
      const newest = Math.max(
        0,
        ...[...world.ran, ...world.image.attempts.keys()].filter((key) => key.startsWith(`${doing.job}#`)).map(tokenOf),
      );
      const token = doing.fresh ? newest + 1 : doing.token;
      const values = { jobId: doing.job, token, workerId: doing.worker, executionTimeoutMs: 5_000 };
      const input = doing.large ? ({ body: { $case: 'blob', value: { id: 'in', size: 1 } } } as const) : undefined;
      // A lease is dispatched once: the tokens of a job grow over its life.
      if (world.ran.has(attemptKey(doing.job, token)) && !world.image.attempts.has(attemptKey(doing.job, token))) return;
      world.feed({ kind: 'dispatch', dispatch: { ...dispatchOf(values), ...(input === undefined ? {} : { input }) } });
      return;
    }
    case 'stop': {
      const attempt = picked(world, doing.pick) ?? { jobId: 'unknown', token: 1 };
      world.feed({ kind: 'stop', stop: { jobId: attempt.jobId, token: attempt.token, reason: 'STOP_REASON_CANCELLED' } });
      return;
    }
    case 'recall': {
      const { jobId, token } = picked(world, doing.pick) ?? { jobId: 'unknown', token: 1 };
      world.feed({ kind: 'recall', recall: { jobId, token } });
      return;
    }
    case 'ack': {
      const attempt = picked(world, doing.pick);
      if (attempt?.phase === 'ended') world.feed({ kind: 'ack', ack: { jobId: attempt.jobId, token: attempt.token } });
      return;
    }
    case 'drained': {
      const { jobId, token } = picked(world, doing.pick) ?? { jobId: 'unknown', token: 1 };
      const nextIndex = Math.min(doing.next, world.sent.get(attemptKey(jobId, token)) ?? 0);
      world.feed({ kind: 'drained', drained: { jobId, token, nextIndex } });
      return;
    }
    case 'session':
      if (doing.up !== world.online) world.feed({ kind: doing.up ? 'welcome' : 'disconnected' });
      return;
    case 'artifact': {
      const fetch = world.fetches.shift();
      if (fetch === undefined) return;
      world.feed(doing.good ? { kind: 'artifact-ready', ...fetch, folder: '/b' } : { kind: 'artifact-failed', ...fetch, detail: 'gone' });
      return;
    }
    case 'input': {
      const key = world.inputs.shift();
      if (key === undefined) return;
      world.feed(
        doing.good
          ? { kind: 'input-ready', key, input: Buffer.from('{}') }
          : { kind: 'input-failed', key, isMissing: false, detail: 'gone' },
      );
      return;
    }
    case 'store': {
      const chunk = world.chunks.pop();
      const blob = { blob: { id: 'b', size: 1 } } as const;
      if (chunk !== undefined) world.feed({ kind: 'chunk-stored', ...chunk, data: blob });
      const key = world.outputs.shift();
      if (key !== undefined)
        world.feed(doing.good ? { kind: 'output-stored', key, output: blob } : { kind: 'output-refused', key, detail: 'no' });
      return;
    }
    default:
      performOnHost(world, doing);
  }
}

function performOnHost(
  world: World,
  doing: Exclude<
    Action,
    { act: 'desire' | 'dispatch' | 'stop' | 'recall' | 'ack' | 'drained' | 'session' | 'artifact' | 'input' | 'store' }
  >,
): void {
  if (doing.act === 'pass') {
    world.pass(doing.ms);
    return;
  }
  const host = world.host(doing.worker);
  if (host === undefined) return;
  const { workerId, start } = host;
  const [task] = host.tasks;
  switch (doing.act) {
    case 'load':
      if (host.loaded) return;
      host.loaded = doing.good;
      world.feed(doing.good ? { kind: 'loaded', workerId, start } : { kind: 'load-failed', workerId, start, detail: 'broken' });
      return;
    case 'enter':
      if (task?.[1] !== 'handed') return;
      host.tasks.set(task[0], 'entered');
      world.feed({ kind: 'handler-entered', key: task[0] });
      return;
    case 'chunk':
      if (task?.[1] === 'entered') world.feed({ kind: 'chunk', key: task[0], data: Buffer.alloc(doing.large ? 70_000 : 10) });
      return;
    case 'end': {
      if (task?.[1] !== 'entered') return;
      host.tasks.delete(task[0]);
      const output = Buffer.alloc(doing.how === 'large' ? 70_000 : 10);
      const result =
        doing.how === 'failed'
          ? ({ kind: 'failed', error: 'no', ms: 1 } as const)
          : doing.how === 'stopped'
            ? ({ kind: 'stopped', ms: 1 } as const)
            : ({ kind: 'returned', output, ms: 1 } as const);
      world.feed({ kind: 'handler-ended', key: task[0], result });
      return;
    }
    case 'reload':
      if (!host.loaded) return;
      host.loaded = false;
      host.tasks.clear();
      world.feed({ kind: 'reloading', workerId, start });
      return;
    case 'exit':
      world.exit(workerId, doing.hardStop);
      return;
    default:
      throw new Error('unreachable');
  }
}

/** A session, and three workers that serve. */
function start(): { world: World; epoch: { value: number } } {
  const world = new World();
  const epoch = { value: 1 };
  world.feed({ kind: 'welcome' });
  const spec = { releaseId: 'r2' as const, drain: false };
  const workers = workerIds.map((workerId, index) => ({ ...spec, workerId, device: index === 0 }));
  perform(world, epoch, { act: 'desire', workers, stale: false });
  world.settle();
  return { world, epoch };
}

function picked(world: World, pick: number): Attempt | undefined {
  const attempts = [...world.image.attempts.values()];
  return attempts[pick % Math.max(1, attempts.length)];
}

function tokenOf(key: string): number {
  return Number(key.split('#')[1]);
}

testProp(
  'slots and devices are never given out twice, no holder of an attempt is ended, reports keep their order',
  [fc.array(action, { maxLength: 150, size: 'max' })],
  (t, actions) => {
    const { world, epoch } = start();
    for (const doing of actions) perform(world, epoch, doing);
    t.pass();
  },
  { numRuns: 1_500 },
);

testProp(
  'once everything is answered, every attempt has been told an end, and closing leaves nothing behind',
  [fc.array(action, { maxLength: 100, size: 'max' })],
  (t, actions) => {
    const { world, epoch } = start();
    for (const doing of actions) perform(world, epoch, doing);
    if (!world.online) world.feed({ kind: 'welcome' });
    world.settle();
    for (const attempt of [...world.image.attempts.values()]) {
      t.is(attempt.phase, 'ended');
      const told = world.reports.filter(
        (report) => report.$case === 'ended' && attemptKey(report.value.jobId, report.value.token) === attempt.key,
      );
      t.true(told.length > 0);
      world.feed({ kind: 'ack', ack: { jobId: attempt.jobId, token: attempt.token } });
    }
    t.is(world.image.attempts.size, 0);
    world.feed({ kind: 'close' });
    world.settle();
    t.is(world.image.workers.size, 0);
    t.is(world.hosts.size, 0);
  },
  { numRuns: 1_000 },
);
