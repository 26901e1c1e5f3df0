/**
 * The shell around the core: feeds it events, commits what it decided, and only then carries out
 * the effects. One batch is being committed while the next gathers, so the commit rate follows
 * the disk and a batch grows with the load. Under a stale term the state is dropped, every stream
 * is ended (callers send again) and the shard is taken over anew, and so after a full disk, which takes
 * all of the batch back; any other failure of the store leaves open what of the last batch is durable,
 * so the process must end and start again.
 */
import { CapstanError, assertNever, type ErrorCode } from '../../lib/errors.ts';
import { messageOf } from '../../lib/to-error.ts';
import type { DirectoryUpdate } from '../../proto/gen/capstan/v1/control.ts';
import type { JobReply } from '../../proto/gen/capstan/v1/jobs.ts';
import type { SchedulerEvent } from '../../proto/gen/capstan/v1/nodes.ts';
import { StepResult, type Answer, type Effect, type Pending, type Write } from '../core/effects.ts';
import type { Command, CoreEvent } from '../core/events.ts';
import type { State } from '../core/state.ts';
import type { WorkerRecord } from '../core/state/fleet.ts';
import type { Settings } from '../core/settings.ts';
import type { RandomState } from '../core/random.ts';
import { nextDeadline, step } from '../core/step.ts';
import { restore } from '../core/restore.ts';
import { StaleTermError, type Body, type Fence, type JobRow, type Outcome, type Store } from '../store/store.ts';
import type { Clock } from './clock.ts';
import { BodyCount } from './body-count.ts';
import { PayloadCache } from './payload-cache.ts';
import { readState } from './take-over.ts';

type DispatchEffect = Extract<Effect, { kind: 'dispatch' }>;

/** Where effects go: the open streams of gateways, agents and watchers. */
export interface Ports {
  reply(channel: number, reply: JobReply): void;
  send(node: string, session: number, event: SchedulerEvent): void;
  sendDesired(node: string, session: number, epoch: number, workers: readonly WorkerRecord[], state: State): void;
  sendJob(effect: DispatchEffect, input: Body, s3: Uint8Array | null): void;
  closeSession(node: string, session: number, reason: string): void;
  /** A worker became ready, for metrics. */
  workerStarted(start: Extract<Effect, { kind: 'worker-started' }>): void;
  directory(update: DirectoryUpdate): void;
  /** Deletes the blobs among these that no row names. */
  dropBodies(blobs: readonly string[]): void;
  /** Tries a webhook, and feeds the engine `hook-tried`. */
  deliver(id: string): void;
  /** The state is lost: end every stream so that the other sides send again. */
  closeAll(reason: string): void;
}

/** What the engine tells of itself. */
export interface EngineLog {
  info(facts: object, message: string): void;
  warn(facts: object, message: string): void;
  error(facts: object, message: string): void;
}

/** Who watches the commits, for metrics. */
export interface CommitWatcher {
  /** A batch has been committed; `outcomes` are those of `writes`, in order. */
  committed(writes: readonly Write[], outcomes: readonly Outcome[], ms: number): void;
}

export interface EngineOptions {
  readonly store: Store;
  readonly settings: Settings;
  readonly clock: Clock;
  readonly random: RandomState;
  readonly owner: string;
  readonly log: EngineLog;
  readonly watcher?: CommitWatcher;
  /** Bytes of inputs kept in memory for dispatch. */
  readonly payloadBytes: number;
  /** The store is unusable: the process must end. */
  readonly onFatal: (error: unknown) => void;
}

/** One shard for now: SQLite has one owner of all. */
const SHARD = 0;
const PAYLOAD_INLINE_LIMIT = 65_536;
const TAKE_OVER_RETRY_MS = 1_000;
const MAX_IN_FLIGHT = 2;
/** Why a take-over may fail now and succeed later. */
const mayPass: ReadonlySet<ErrorCode> = new Set(['DISK_FULL', 'UNAVAILABLE']);
/** Operations that are worth a commit beside the one under way. */
const WORTH_ACOMMIT = 12;

export class Engine {
  readonly #options: EngineOptions;
  readonly #ports: Ports;
  readonly #payloads: PayloadCache;
  /** Of the present image. */
  #bodies: BodyCount | null = null;
  readonly #calls = new Map<number, { resolve(answer: Answer): void; reject(error: Error): void }>();
  #state: State | null = null;
  #fence: Fence = { shard: SHARD, term: 0n };
  #gathering = new StepResult();
  #scheduled = false;
  /** Batches sent to the store and not answered. */
  #inFlight = 0;
  #nextCall = 1;
  #stopTimer: (() => void) | null = null;
  #timerAt = Number.POSITIVE_INFINITY;
  #retry: NodeJS.Timeout | null = null;
  #closed = false;
  #diskRefusal: CapstanError | null = null;
  #lastFailure = '';
  #idle: (() => void)[] = [];

  constructor(options: EngineOptions, ports: Ports) {
    this.#options = options;
    this.#ports = ports;
    this.#payloads = new PayloadCache(options.payloadBytes);
  }

  /** The state, for reading; UNAVAILABLE while there is none. */
  get state(): State {
    if (this.#state === null)
      throw new CapstanError('UNAVAILABLE', 'the scheduler is taking over its queue', { retryAfterMs: TAKE_OVER_RETRY_MS });
    return this.#state;
  }

  /** @throws CapstanError UNAVAILABLE while the queue is being taken over. */
  mustBeUp(): void {
    if (this.#state === null)
      throw new CapstanError('UNAVAILABLE', 'the scheduler is taking over its queue', { retryAfterMs: TAKE_OVER_RETRY_MS });
  }

  get up(): boolean {
    return this.#state !== null;
  }

  get store(): Store {
    return this.#options.store;
  }

  /** What the inputs kept for dispatch take. */
  get inputCache(): { readonly jobs: number; readonly bytes: number } {
    return { jobs: this.#payloads.size, bytes: this.#payloads.bytes };
  }

  /** Refuses new jobs for this reason, or accepts them again (null). */
  refuseJobs(refusal: CapstanError | null): void {
    this.#diskRefusal = refusal;
    this.handle({ kind: 'disk', refusal });
  }

  /** Takes the shard and rebuilds the state from the store. */
  async takeOver(): Promise<void> {
    const { store, owner, settings, clock, random } = this.#options;
    const taken = await store.acquire(SHARD, owner, settings.nodeGraceMs);
    if ('heldBy' in taken) throw new CapstanError('UNAVAILABLE', `the queue is held by another scheduler: ${taken.heldBy}`);
    this.#fence = { shard: SHARD, term: taken.term };
    const stored = await readState(store);
    this.#gathering = new StepResult();
    this.#payloads.clear();
    const state = restore(settings, random, stored, clock.now(), this.#gathering);
    state.diskRefusal = this.#diskRefusal;
    this.#state = state;
    this.#bodies = this.#countOf(state);
    this.#schedule();
    this.#rearm();
  }

  /** Feeds one event to the core. */
  handle(event: CoreEvent): void {
    const state = this.#state;
    if (state === null) return;
    step(state, event, this.#options.clock.now(), this.#gathering);
    this.#schedule();
  }

  /** Carries out a command of the control plane; resolves after its commit. */
  command(command: Command): Promise<Answer> {
    const call = this.#nextCall++;
    return new Promise((resolve, reject) => {
      if (this.#state === null) {
        reject(new CapstanError('UNAVAILABLE', 'the scheduler is taking over its queue', { retryAfterMs: TAKE_OVER_RETRY_MS }));
        return;
      }
      this.#calls.set(call, { resolve, reject });
      this.handle({ kind: 'command', call, command });
    });
  }

  /** Lets what is gathered be committed, then stops. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#stopTimer?.();
    if (this.#retry !== null) clearTimeout(this.#retry);
    if (this.#inFlight > 0 || this.#scheduled) await new Promise<void>((resolve) => this.#idle.push(resolve));
    this.#state = null;
  }

  /**
   * Keeps the input of a job that the state holds, so that its dispatch needs no read. Every job that
   * leaves the state is ended or deleted by an operation of its number, which removes the input again.
   */
  #keep(state: State, { id, seq, hasS3 }: JobRow, input: Body): void {
    // A job with credentials is read when its turn comes: those are kept encrypted in the store alone.
    if (hasS3 || state.jobs.get(id)?.seq !== seq || ('inline' in input && input.inline.length > PAYLOAD_INLINE_LIMIT)) return;
    this.#payloads.put(seq, input);
  }

  #schedule(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    setImmediate(() => {
      this.#scheduled = false;
      this.#flush();
    });
  }

  /**
   * Sends what is gathered to the store. A second batch may go before the first is answered once it
   * is worth a commit of its own: then the disk, this thread and the gateways work side by side.
   * The store takes batches in order, so their outcomes come in order, too.
   */
  #flush(): void {
    const state = this.#state;
    if (state === null) {
      this.#settle();
      return;
    }
    const { writes, effects } = this.#gathering;
    const first = this.#inFlight === 0;
    if (first ? writes.length + effects.length === 0 : writes.length < WORTH_ACOMMIT || this.#inFlight >= MAX_IN_FLIGHT) {
      this.#settle();
      return;
    }
    this.#gathering = new StepResult();
    if (writes.length === 0) {
      this.#carryOut(effects, null);
      this.#schedule();
      this.#settle();
      return;
    }
    this.#inFlight++;
    const begun = this.#options.clock.now().mono;
    const ops = writes.map((write) => write.op);
    this.#options.store.commit(this.#fence, ops).then(
      (outcomes) => {
        this.#inFlight--;
        if (this.#state !== state) return;
        this.#options.watcher?.committed(writes, outcomes, this.#options.clock.now().mono - begun);
        const refused = this.#applyOutcomes(state, writes, outcomes);
        this.#bodies?.committed(writes, state.bodyUse.size > 0);
        // The next batch goes first: answering then costs the disk no time. Its effects come after it.
        if (this.#gathering.writes.length > 0) this.#flush();
        this.#carryOut(effects, refused);
        this.#schedule();
      },
      (error: unknown) => {
        this.#inFlight--;
        if (this.#state === state) this.#fail(error);
        else this.#settle();
      },
    );
  }

  #countOf(state: State): BodyCount {
    const stands = (): boolean => this.#state === state && !this.#closed;
    return new BodyCount({
      read: () => this.#options.store.read('bodyUsage'),
      counted: (stored, settled) => {
        if (stands()) this.handle({ kind: 'bodies-counted', stored, settled });
      },
      onFault: (error) => {
        if (stands()) this.#fail(error);
      },
    });
  }

  /** Nothing may be left to do: look at the timer, and at who waits for the end. */
  #settle(): void {
    this.#rearm();
    if (this.#inFlight > 0 || this.#gathering.writes.length > 0 || this.#gathering.effects.length > 0) return;
    for (const resolve of this.#idle.splice(0)) resolve();
  }

  /** Keeps the inputs of the jobs that were stored, and tells the core of the operations that were not carried out. */
  #applyOutcomes(state: State, writes: readonly Write[], outcomes: readonly Outcome[]): ReadonlySet<Write> | null {
    let refused: Set<Write> | null = null;
    for (const [i, write] of writes.entries()) {
      const outcome = outcomes[i];
      if (write.op.kind === 'finish' || write.op.kind === 'delete') this.#payloads.delete(write.op.seq);
      if (outcome?.kind === 'ok' && outcome.dropped !== undefined) this.#ports.dropBodies(outcome.dropped);
      if (outcome === undefined || outcome.kind === 'ok') {
        // Only now is it certain that the job exists: a repeated submission has a number that no job gets.
        if (write.op.kind === 'submit') this.#keep(state, write.op.job, write.op.input);
        continue;
      }
      (refused ??= new Set()).add(write);
      step(state, { kind: 'refused', op: write.op, outcome, cause: write.cause }, this.#options.clock.now(), this.#gathering);
    }
    return refused;
  }

  #carryOut(effects: readonly Pending[], refused: ReadonlySet<Write> | null): void {
    for (const { effect, write } of effects) {
      if (refused !== null && write !== null && refused.has(write)) continue;
      this.#perform(effect);
    }
  }

  #perform(effect: Effect): void {
    switch (effect.kind) {
      case 'reply':
        if (effect.usage !== null) effect.usage.open--;
        return this.#ports.reply(effect.channel, effect.reply);
      case 'answer':
        return this.#answer(effect.call, effect.result);
      case 'send':
        return this.#ports.send(effect.node, effect.session, effect.event);
      case 'send-desired':
        return this.#ports.sendDesired(effect.node, effect.session, effect.epoch, effect.workers, this.state);
      case 'dispatch':
        return this.#dispatch(effect);
      case 'close-session':
        return this.#ports.closeSession(effect.node, effect.session, effect.reason);
      case 'read-job':
        return this.#read(
          (store) => store.read('job', effect.endpoint, effect.job),
          (found) => this.handle({ kind: 'job-read', purpose: effect.purpose, found }),
        );
      case 'read-head':
        return this.#read(
          (store) => store.read('head', effect.endpoint, effect.priority, effect.after, effect.limit, PAYLOAD_INLINE_LIMIT),
          (rows) => {
            this.handle({ kind: 'head-read', endpoint: effect.endpoint, priority: effect.priority, rows, limit: effect.limit });
            // A job that ended while it was read is not in the state.
            for (const { job, input } of rows) if (input !== null && this.#state !== null) this.#keep(this.#state, job, input);
          },
        );
      case 'read-due': {
        const { wall } = this.#options.clock.now();
        return this.#read(
          (store) => store.read('due', wall, effect.limit),
          ({ jobs, nextAt }) => this.handle({ kind: 'due-read', jobs, nextAt, wall }),
        );
      }
      case 'read-hooks': {
        const { skipHosts, skipIds, perHost, limit } = effect;
        const { wall } = this.#options.clock.now();
        return this.#read(
          (store) => store.read('hooks', wall, skipHosts, skipIds, perHost, limit),
          ({ hooks, nextAt }) => this.handle({ kind: 'hooks-read', hooks, nextAt, limit }),
        );
      }
      case 'drop-bodies':
        return this.#ports.dropBodies(effect.blobs);
      case 'deliver':
        return this.#ports.deliver(effect.id);
      case 'worker-started':
        return this.#ports.workerStarted(effect);
      case 'directory':
        return this.#ports.directory(effect.update);
      case 'log':
        return this.#options.log[effect.level](effect.facts, effect.message);
      default:
        return assertNever(effect);
    }
  }

  /** Sends a leased job; its input is at hand, or read first. */
  #dispatch(effect: DispatchEffect): void {
    const input = effect.hasS3 ? undefined : this.#payloads.get(effect.seq);
    if (input !== undefined) {
      this.#ports.sendJob(effect, input, null);
      return;
    }
    this.#read(
      (store) => store.read('payload', effect.seq),
      (payload) => {
        const job = this.#state?.jobs.get(effect.job);
        const stands = job !== undefined && job.token === effect.token && job.lease !== null;
        if (stands && payload !== null) this.#ports.sendJob(effect, payload.input, payload.s3);
        else this.handle({ kind: 'undelivered', node: effect.node, job: effect.job, token: effect.token, worker: effect.worker });
      },
    );
  }

  /** Reads and hands the answer on, unless the state was dropped meanwhile. */
  #read<T>(ask: (store: Store) => Promise<T>, then: (answer: T) => void): void {
    const state = this.#state;
    ask(this.#options.store).then(
      (answer) => {
        if (this.#state === state && state !== null) then(answer);
      },
      (error: unknown) => {
        if (this.#state === state && !this.#closed) this.#fail(error);
      },
    );
  }

  #answer(call: number, result: Answer | CapstanError): void {
    const waiting = this.#calls.get(call);
    this.#calls.delete(call);
    if (result instanceof CapstanError) waiting?.reject(result);
    else waiting?.resolve(result);
  }

  /** One timer for the earliest deadline. It fires, then the sockets are polled, then the core is told. */
  #rearm(): void {
    const state = this.#state;
    if (state === null || this.#closed) return;
    const now = this.#options.clock.now();
    const at = nextDeadline(state, now);
    if (at === null || (this.#stopTimer !== null && this.#timerAt <= at)) return;
    this.#stopTimer?.();
    this.#timerAt = at;
    this.#stopTimer = this.#options.clock.after(Math.min(Math.max(0, Math.ceil(at - now.mono)), 2_147_483_647), () => this.#fire());
  }

  #fire(): void {
    this.#stopTimer = null;
    this.#timerAt = Number.POSITIVE_INFINITY;
    setImmediate(() => {
      this.handle({ kind: 'tick' });
      this.#rearm();
    });
  }

  /** Nothing of the last batch is known to be durable: forget the state. */
  #fail(error: unknown): void {
    if (this.#state === null) return;
    const isStale = error instanceof StaleTermError;
    const isFull = error instanceof CapstanError && error.code === 'DISK_FULL';
    const fatal = !isStale && !isFull;
    this.#options.log.error({ err: error }, isStale ? 'another scheduler took the queue; taking over again' : 'the store failed');
    this.#state = null;
    this.#gathering = new StepResult();
    const unavailable = new CapstanError('UNAVAILABLE', 'the store failed; try again shortly', { retryAfterMs: TAKE_OVER_RETRY_MS });
    for (const call of this.#calls.values()) call.reject(unavailable);
    this.#calls.clear();
    this.#ports.closeAll('the store failed');
    if (fatal) this.#options.onFatal(error);
    else this.#retryTakeOver();
  }

  #retryTakeOver(): void {
    if (this.#closed) return;
    this.#retry = setTimeout(() => {
      this.takeOver().then(
        () => {
          this.#lastFailure = '';
          this.#options.log.info({}, 'the queue is taken over again');
        },
        (error: unknown) => {
          // A disk may be full for hours: said once.
          const failure = messageOf(error);
          if (failure !== this.#lastFailure) this.#options.log.error({ err: error }, 'take-over failed; trying again');
          this.#lastFailure = failure;
          if (error instanceof CapstanError && !mayPass.has(error.code)) this.#options.onFatal(error);
          else this.#retryTakeOver();
        },
      );
    }, TAKE_OVER_RETRY_MS);
  }
}
