/**
 * The life of a job against a model of it: whatever
 * callers, agents, time and restarts do in whatever order, every job is in the state the model says,
 * with the fields that belong to it, and every refusal has the right code.
 */
import { fc, testProp } from '@fast-check/ava';
import test, { type ExecutionContext } from 'ava';

import { CapstanError } from '../../lib/errors.ts';
import { AttemptOutcome, RefusalReason } from '../../proto/gen/capstan/v1/nodes.ts';
import { QueueWorld, type Held } from './queue-world.ts';

const TTL_MS = 120_000;
const RETENTION_MS = 60_000;
const MAX_ATTEMPTS = 2;
const SLOTS = 2;
const ids = ['a', 'b', 'c', 'd', 'e', 'f'] as const;

test('a lost attempt is logged with its job, endpoint and token', (t) => {
  const world = new QueueWorld();
  world.submit('a');
  for (const message of ['attempt lost', 'the last attempt was lost']) {
    const held = world.attempt('a');
    if (held === null) throw new Error('not dispatched');
    world.logs.length = 0;
    world.enter(held);
    world.end(held, { outcome: AttemptOutcome.WORKER_LOST, error: 'killed by SIGSEGV' });
    const [line] = world.logs;
    t.like(line, { level: 'warn', message });
    t.like(line?.facts, {
      job: 'a',
      endpoint: world.endpoint,
      attempt: held.token,
      worker: held.worker,
      node: 'node',
      how: 'killed by SIGSEGV',
    });
  }
  world.close();
});

type State = 'IN_QUEUE' | 'IN_PROGRESS' | 'COMPLETED' | 'FAILED' | 'CANCELLED' | 'TIMED_OUT';

interface ModelJob {
  state: State;
  /** Started attempts since the submission or the last retry. */
  attempts: number;
  /** Place in the queue. */
  queuePosition: number;
  /** Token of the attempt that counts; null while it waits. */
  lease: number | null;
  started: boolean;
  deleteAt: number;
  error: string | null;
}

const id = fc.constantFrom(...ids);
const pick = fc.nat(3);
const outcome = fc.constantFrom(AttemptOutcome.COMPLETED, AttemptOutcome.FAILED, AttemptOutcome.TIMED_OUT, AttemptOutcome.WORKER_LOST);

const action = fc.oneof(
  { weight: 6, arbitrary: fc.record({ act: fc.constant('submit' as const), id }) },
  { weight: 6, arbitrary: fc.record({ act: fc.constant('enter' as const), pick }) },
  { weight: 6, arbitrary: fc.record({ act: fc.constant('end' as const), pick, outcome }) },
  { weight: 1, arbitrary: fc.record({ act: fc.constant('refuse' as const), pick }) },
  { weight: 2, arbitrary: fc.record({ act: fc.constant('cancel' as const), id }) },
  { weight: 2, arbitrary: fc.record({ act: fc.constant('retry' as const), id }) },
  { weight: 1, arbitrary: fc.record({ act: fc.constant('purge' as const) }) },
  // A message of an attempt that is over: late progress, or the result of an earlier token.
  {
    weight: 2,
    arbitrary: fc.record({ act: fc.constant('late' as const), id, progress: fc.boolean(), token: fc.integer({ min: 1, max: 3 }) }),
  },
  { weight: 3, arbitrary: fc.record({ act: fc.constant('pass' as const), ms: fc.integer({ min: 1, max: 40_000 }) }) },
  { weight: 1, arbitrary: fc.record({ act: fc.constant('restart' as const) }) },
);

type Action = typeof action extends fc.Arbitrary<infer A> ? A : never;

class Model {
  readonly jobs = new Map<string, ModelJob>();
  readonly submitted = new Set<string>();
  #queuePosition = 0;

  submit(job: string, now: number): void {
    this.submitted.add(job);
    if (this.jobs.has(job)) return;
    this.jobs.set(job, {
      state: 'IN_QUEUE',
      attempts: 0,
      queuePosition: this.#queuePosition++,
      lease: null,
      started: false,
      deleteAt: now + TTL_MS,
      error: null,
    });
  }

  /** The job this attempt counts for. */
  leasedBy(held: Pick<Held, 'job' | 'token'>): ModelJob | null {
    const job = this.jobs.get(held.job);
    return job?.lease === held.token ? job : null;
  }

  finish(job: ModelJob, state: State, now: number, error: string | null): void {
    Object.assign(job, { state, lease: null, deleteAt: now + RETENTION_MS, error });
  }

  requeue(job: ModelJob): void {
    Object.assign(job, { state: 'IN_QUEUE', lease: null, started: false });
  }

  retry(job: ModelJob, now: number): void {
    this.requeue(job);
    Object.assign(job, { attempts: 0, queuePosition: this.#queuePosition++, deleteAt: now + TTL_MS, error: null });
  }

  expire(now: number): void {
    for (const [job, { deleteAt }] of this.jobs) if (deleteAt <= now) this.jobs.delete(job);
  }
}

function perform(t: ExecutionContext, world: QueueWorld, model: Model, doing: Action): void {
  const { now } = world;
  switch (doing.act) {
    case 'submit': {
      // An id comes twice only when its gateway sends it again, soon, and then it says so.
      const resent = model.submitted.has(doing.id);
      if (resent && !model.jobs.has(doing.id)) return;
      const answer = world.submit(doing.id, { policy: { ttlMs: TTL_MS }, counting: { limitedAs: null, resent } });
      t.false(answer instanceof CapstanError);
      model.submit(doing.id, now);
      return;
    }
    case 'enter': {
      const held = nth(
        [...world.held.values()].filter(({ startedAt, stopped }) => startedAt === null && !stopped),
        doing.pick,
      );
      if (held !== undefined) enter(world, model, held);
      return;
    }
    case 'end': {
      const held = nth([...world.held.values()], doing.pick);
      if (held !== undefined) end(world, model, held, held.stopped ? AttemptOutcome.STOPPED : doing.outcome);
      return;
    }
    case 'refuse': {
      const held = nth(
        [...world.held.values()].filter(({ startedAt }) => startedAt === null),
        doing.pick,
      );
      if (held === undefined) return;
      const job = model.leasedBy(held);
      if (job !== null) model.requeue(job);
      world.held.delete(`${held.job}#${held.token}`);
      const reason = RefusalReason.OVER_CAPACITY;
      world.report({ $case: 'refused', value: { jobId: held.job, token: held.token, reason, detail: '' } });
      return;
    }
    case 'cancel':
    case 'retry': {
      const job = model.jobs.get(doing.id);
      const answer = world.change(doing.act, doing.id);
      const code = answer instanceof CapstanError ? answer.code : 'done';
      if (job === undefined) {
        t.is(code, 'NOT_FOUND');
        return;
      }
      const running = job.state === 'IN_QUEUE' || job.state === 'IN_PROGRESS';
      const changes = doing.act === 'cancel' ? running : job.state === 'FAILED' || job.state === 'TIMED_OUT';
      // The cancel of a job that has ended is no error, and changes nothing.
      t.is(code, changes || doing.act === 'cancel' ? 'done' : 'CONFLICT', `${doing.act} of a job that is ${job.state}`);
      if (!changes) return;
      if (doing.act === 'cancel') model.finish(job, 'CANCELLED', now, null);
      else model.retry(job, now);
      return;
    }
    case 'purge': {
      const waiting = [...model.jobs.values()].filter(({ state, lease }) => state === 'IN_QUEUE' && lease === null);
      for (const job of waiting) model.finish(job, 'CANCELLED', now, 'purged from the queue');
      t.is(world.purge(), waiting.length);
      return;
    }
    case 'late': {
      const late = { jobId: doing.id, token: doing.token };
      const held = world.held.get(`${doing.id}#${doing.token}`);
      // Not of an attempt that is under way: that one is not late.
      if (held !== undefined) return;
      if (doing.progress)
        world.report({ $case: 'progress', value: { ...late, data: { body: { $case: 'inline', value: Buffer.from('1') } } } });
      else
        world.end(
          { job: doing.id, token: doing.token, worker: '', executionTimeoutMs: 0, startedAt: now, stopped: false },
          { outcome: AttemptOutcome.COMPLETED },
        );
      return;
    }
    case 'pass':
      world.pass(doing.ms);
      model.expire(world.now);
      return;
    case 'restart':
      world.restart();
  }
}

function enter(world: QueueWorld, model: Model, held: Held): void {
  const job = model.leasedBy(held);
  if (job !== null) Object.assign(job, { state: 'IN_PROGRESS', started: true, attempts: job.attempts + 1 });
  world.enter(held);
}

function end(world: QueueWorld, model: Model, held: Held, how: AttemptOutcome): void {
  const job = model.leasedBy(held);
  const { now } = world;
  if (job !== null) {
    switch (how) {
      case AttemptOutcome.COMPLETED:
        model.finish(job, 'COMPLETED', now, null);
        break;
      case AttemptOutcome.FAILED:
        model.finish(job, 'FAILED', now, 'no luck');
        break;
      case AttemptOutcome.TIMED_OUT:
        model.finish(job, 'TIMED_OUT', now, 'executionTimeout exceeded');
        break;
      case AttemptOutcome.WORKER_LOST:
        if (job.started && job.attempts >= MAX_ATTEMPTS) model.finish(job, 'FAILED', now, 'the worker died (attempt 2 of 2)');
        else model.requeue(job);
        break;
      default:
        model.requeue(job);
    }
  }
  const error = how === AttemptOutcome.FAILED ? 'no luck' : how === AttemptOutcome.WORKER_LOST ? 'the worker died' : '';
  world.end(held, { outcome: how, error });
}

function nth<T>(list: readonly T[], index: number): T | undefined {
  return list[index % Math.max(1, list.length)];
}

/** Takes over which attempts were handed out; they go out in the order of the queue. */
function noteLeases(t: ExecutionContext, world: QueueWorld, model: Model): void {
  t.true(world.held.size <= SLOTS, 'never more attempts than slots');
  let last = -1;
  for (const held of world.held.values()) {
    const job = model.jobs.get(held.job);
    if (job === undefined || held.stopped || job.state !== 'IN_QUEUE' || job.lease !== null) continue;
    job.lease = held.token;
    last = Math.max(last, job.queuePosition);
  }
  for (const job of model.jobs.values()) {
    if (job.state === 'IN_QUEUE' && job.lease === null) t.true(job.queuePosition > last, 'first come, first served');
  }
}

function compare(t: ExecutionContext, world: QueueWorld, model: Model): void {
  for (const each of ids) {
    const job = model.jobs.get(each);
    const status = world.status(each);
    if (job === undefined || status instanceof CapstanError) {
      t.is(status instanceof CapstanError ? status.code : status.state, job === undefined ? 'NOT_FOUND' : `JOB_STATE_${job.state}`);
      continue;
    }
    const { state, started, attempts, error } = job;
    t.is(status.state, `JOB_STATE_${state}`);
    t.is(status.error ?? null, error);
    t.is(status.delayMs !== undefined, started, `delayTime of ${state}`);
    t.is(status.executionMs !== undefined, started && state !== 'IN_PROGRESS', `executionTime of ${state}`);
    t.is(status.retries, Math.max(0, attempts - 1));
    if (state !== 'IN_QUEUE') t.is(status.queueReason, '');
  }
}

testProp(
  'every job is in the state that the model says, and ends once its attempts do',
  [fc.array(action, { minLength: 1, maxLength: 80, size: 'max' })],
  (t, actions) => {
    const world = new QueueWorld({ runRetentionMs: RETENTION_MS }, { maxConcurrency: SLOTS });
    const model = new Model();
    for (const doing of actions) {
      perform(t, world, model, doing);
      noteLeases(t, world, model);
      compare(t, world, model);
    }
    // A refusal pauses its worker for a moment.
    world.pass(250);
    model.expire(world.now);
    noteLeases(t, world, model);
    for (let held = [...world.held.values()][0]; held !== undefined; held = [...world.held.values()][0]) {
      if (held.startedAt === null && !held.stopped) enter(world, model, held);
      end(world, model, held, held.stopped ? AttemptOutcome.STOPPED : AttemptOutcome.COMPLETED);
      noteLeases(t, world, model);
    }
    compare(t, world, model);
    for (const job of model.jobs.values()) t.false(job.state === 'IN_QUEUE' || job.state === 'IN_PROGRESS');
    world.close();
  },
  { numRuns: 300 },
);
