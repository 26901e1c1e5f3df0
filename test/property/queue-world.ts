/**
 * The scheduler's engine on a real SQLite database in memory, in a world where time passes only when
 * a test says so and everything else takes none: commits, reads, messages. One endpoint, one node
 * whose agent the test plays.
 */
import { CapstanError } from '../../lib/errors.ts';
import { WorkerState } from '../../proto/gen/capstan/v1/common.ts';
import type { Job, JobReply, StreamPart } from '../../proto/gen/capstan/v1/jobs.ts';
import {
  WorkerStatus,
  type AgentEvent,
  type AttemptEnded,
  type AttemptRef,
  type SchedulerEvent,
} from '../../proto/gen/capstan/v1/nodes.ts';
import type { CommandResult, Effect } from '../../scheduler/core/effects.ts';
import type { Command, CoreEvent, Counting, PolicyInput, Ref } from '../../scheduler/core/events.ts';
import type { LimitedOperation } from '../../scheduler/core/state/rate-limits.ts';
import type { Cursor } from '../../scheduler/core/state/jobs.ts';
import type { State } from '../../scheduler/core/state.ts';
import type { EndpointInput } from '../../scheduler/core/state/endpoints.ts';
import { defaultSettings, type Settings } from '../../scheduler/core/settings.ts';
import { nextDeadline } from '../../scheduler/core/step/step.ts';
import { Engine } from '../../scheduler/engine/engine.ts';
import type { EngineLog } from '../../scheduler/engine/engine-options.ts';
import type { Ports } from '../../scheduler/engine/ports.ts';
import type { JobKind } from '../../scheduler/core/ports/store.ts';
import { SqliteEngine } from '../../scheduler/store/sqlite/engine.ts';
import { queueInput } from '../support/endpoint-input.ts';
import { CallbackQueue, instantStore, timerlessClock } from '../support/instant-loop.ts';
import { testInventory } from '../support/scheduler-client.ts';

const NODE = 'node';
const BEGIN = 1_700_000_000_000;
const uncounted: Counting = { limitedAs: null, resent: false };

/** An attempt that the test's agent holds. */
export interface Held {
  readonly job: string;
  readonly token: number;
  readonly worker: string;
  readonly executionTimeoutMs: number;
  startedAt: number | null;
  /** The scheduler wants it stopped. */
  stopped: boolean;
}

export interface SubmitOptions {
  readonly kind?: JobKind;
  readonly policy?: Partial<PolicyInput>;
  readonly counting?: Counting;
  readonly idempotencyKey?: string;
  readonly waitMs?: number;
}

export class QueueWorld {
  readonly endpoint: string;
  readonly settings: Settings;
  /** By `<job>#<token>`. */
  readonly held = new Map<string, Held>();
  /** What the core had to say. */
  readonly logs: Extract<Effect, { kind: 'log' }>[] = [];
  /** Both clocks, ms since the world began. */
  now = 0;
  readonly #store = new SqliteEngine({ file: ':memory:', now: () => BEGIN + this.now });
  readonly #replies = new Map<number, JobReply>();
  readonly #callbacks = new CallbackQueue();
  #engine: Engine;
  #session = 0;
  #next = 1;

  constructor(settings: Partial<Settings> = {}, endpoint: Partial<EndpointInput> = {}) {
    // The agent is there all the time: it need not say so.
    this.settings = { ...defaultSettings, silenceMs: 1e12, ...settings };
    this.#engine = this.#takeOver();
    this.#command({ kind: 'put-build', account: 'account', digest: 'build', size: 1 });
    const deployed = this.#command({
      kind: 'deploy',
      account: 'account',
      environment: 'default',
      build: 'build',
      endpoints: [queueInput('echo', { workersMin: 1, workersMax: 1, idleTimeoutS: 3600, ...endpoint })],
    });
    if (deployed instanceof Error || deployed.kind !== 'deployed') throw new Error('not deployed');
    this.endpoint = deployed.endpoints[0]?.id ?? '';
    this.#command({ kind: 'put-join-token', hash: 'token' });
    this.#command({ kind: 'join', tokenHash: 'token', node: { id: NODE, name: NODE, secretHash: '' } });
    this.openSession();
  }

  get image(): State {
    return this.#engine.state;
  }

  close(): void {
    this.#store.close();
  }

  /** Lets time pass, each deadline at its moment. */
  pass(ms: number): void {
    const until = this.now + ms;
    for (let at = nextDeadline(this.image, this.clock()); at !== null && at <= until; at = nextDeadline(this.image, this.clock())) {
      this.now = Math.max(this.now, at);
      this.#handle({ kind: 'tick' });
    }
    this.now = until;
  }

  clock(): { wall: number; mono: number } {
    return { wall: BEGIN + this.now, mono: this.now };
  }

  // ------------------------------------------------------------ what a gateway asks

  /** Submits a job; the refusal when there is one. */
  submit(job: string, options: SubmitOptions = {}): Job | CapstanError {
    const { kind = 'RUN', policy = {}, counting = uncounted, idempotencyKey, waitMs = 0 } = options;
    return jobOf(
      this.#ask((ref) => ({
        kind: 'submit',
        ref,
        counting,
        endpoint: this.endpoint,
        job,
        jobKind: kind,
        input: { inline: Buffer.from('{}') },
        webhook: null,
        trace: null,
        tags: null,
        policy: { executionTimeoutMs: null, ttlMs: null, lowPriority: false, ...policy },
        s3: null,
        idempotency: idempotencyKey === undefined ? null : { key: `${this.endpoint}/${idempotencyKey}`, bodyHash: Buffer.alloc(32) },
        waitMs,
      })),
    );
  }

  /** The job's status, or why there is none. */
  status(job: string, counting = uncounted): Job | CapstanError {
    return jobOf(this.#ask((ref) => ({ kind: 'get', ref, counting, endpoint: this.endpoint, job, waitMs: 0 })));
  }

  /** Waits for the next chunk of a job; {@link QueueWorld.answered} tells the answer. */
  waitForChunks(job: string, waitMs: number): number {
    return this.#begin((ref) => ({ kind: 'read-stream', ref, counting: uncounted, endpoint: this.endpoint, job, after: null, waitMs }));
  }

  /** Asks without waiting for the answer, which {@link QueueWorld.answered} tells. */
  wait(job: string, waitMs: number, counting = uncounted): number {
    return this.#begin((ref) => ({ kind: 'get', ref, counting, endpoint: this.endpoint, job, waitMs }));
  }

  answered(request: number): JobReply | undefined {
    return this.#replies.get(request);
  }

  stream(job: string, after: Cursor | null = null): StreamPart | CapstanError {
    const asked = { kind: 'read-stream', counting: uncounted, endpoint: this.endpoint, job, after, waitMs: 0 } as const;
    const { result } = this.#ask((ref) => ({ ...asked, ref }));
    if (result?.$case === 'stream') return result.value;
    if (result?.$case === 'failure') return new CapstanError(result.value.code as 'NOT_FOUND', result.value.message);
    throw new Error('an answer to another question');
  }

  change(command: 'cancel' | 'retry', job: string): CommandResult | Error {
    return this.#command({ kind: command, endpoint: this.endpoint, job });
  }

  purge(): number {
    const answer = this.#command({ kind: 'purge', endpoint: this.endpoint });
    if (answer instanceof Error || answer.kind !== 'purged') throw new Error('not purged');
    return answer.removed;
  }

  /** Starts a unary call that counts; it is open until {@link QueueWorld.endCall}. */
  beginCall(operation: LimitedOperation, ticket: number): CommandResult | Error {
    return this.#command({ kind: 'count-listing', endpoint: this.endpoint, counted: { operation, ticket } });
  }

  endCall(ticket: number): void {
    this.#handle({ kind: 'call-ended', ticket });
  }

  // ------------------------------------------------------------ what the agent does

  /** The attempt at a job that the agent holds. */
  attempt(job: string): Held | null {
    return [...this.held.values()].findLast((held) => held.job === job) ?? null;
  }

  enter(held: Held): void {
    held.startedAt = this.now;
    this.report({ $case: 'started', value: { jobId: held.job, token: held.token, agoMs: 0 } });
  }

  end(held: Held, ended: Pick<AttemptEnded, 'outcome'> & Partial<AttemptEnded>): void {
    this.held.delete(keyOf(held));
    const executionMs = held.startedAt === null ? 0 : this.now - held.startedAt;
    const value: AttemptEnded = {
      jobId: held.job,
      token: held.token,
      error: '',
      agoMs: 0,
      started: held.startedAt !== null,
      chunks: 0,
      slotHeld: false,
      executionMs,
      ...ended,
    };
    this.report({ $case: 'ended', value });
  }

  report(...events: NonNullable<AgentEvent['event']>[]): void {
    this.#handle({ kind: 'agent', node: NODE, session: this.#session, events: events.map((event) => ({ event })) });
  }

  /** The scheduler's process ends and starts again on the same database; the agent comes back with what it holds. */
  restart(): void {
    this.#engine = this.#takeOver();
    this.openSession();
  }

  openSession(): void {
    this.#session += 1;
    const attempts: AttemptRef[] = [...this.held.values()].map(({ job, token, worker, startedAt }) => ({
      jobId: job,
      token,
      workerId: worker,
      started: startedAt !== null,
      startedAgoMs: startedAt === null ? 0 : this.now - startedAt,
    }));
    const hello = {
      protocol: 1,
      incarnation: 'first',
      agentVersion: 'test',
      workers: { epoch: 0, workers: this.#workers() },
      attempts,
      inventory: testInventory(),
    };
    this.#handle({ kind: 'session-opened', node: NODE, session: this.#session, hello });
  }

  // ------------------------------------------------------------ what the scheduler's process does

  #takeOver(): Engine {
    const engine = new Engine(
      {
        store: instantStore(this.#store, this.#callbacks),
        settings: this.settings,
        clock: timerlessClock(() => this.clock(), this.#callbacks),
        random: [1, 2, 3, 4],
        owner: `life-${this.#session}`,
        log: this.#log(),
        payloadBytes: 64_000_000,
        onFatal: raise,
      },
      this.#ports(),
    );
    engine.beginTakeOver({ done: () => undefined, failed: raise });
    this.#callbacks.drain();
    return engine;
  }

  #command(command: Command): CommandResult | Error {
    let answer: CommandResult | Error | undefined;
    this.#engine.call(command, (result) => {
      answer = result;
    });
    this.#callbacks.drain();
    if (answer === undefined) throw new Error(`${command.kind} was not answered`);
    return answer;
  }

  #ask(event: (ref: Ref) => CoreEvent): JobReply {
    const request = this.#begin(event);
    const reply = this.#replies.get(request);
    if (reply === undefined) throw new Error('not answered at once');
    return reply;
  }

  #begin(event: (ref: Ref) => CoreEvent): number {
    const request = this.#next++;
    this.#handle(event({ channel: 1, request }));
    return request;
  }

  #handle(event: CoreEvent): void {
    this.#engine.handle(event);
    this.#callbacks.drain();
  }

  #log(): EngineLog {
    const add =
      (level: 'info' | 'warn' | 'error') =>
      (facts: object, message: string): void =>
        void this.logs.push({ kind: 'log', level, message, facts: { ...facts } });
    return { info: add('info'), warn: add('warn'), error: add('error') };
  }

  #ports(): Ports {
    return {
      reply: (_channel, reply) => void this.#replies.set(reply.requestId, reply),
      send: (_node, _session, event) => this.#hear(event),
      sendDesired: ({ node, session, epoch }) => {
        const event = { $case: 'workers', value: { epoch, workers: this.#workers() } } as const;
        this.#engine.handle({ kind: 'agent', node, session, events: [{ event }] });
      },
      sendJob: ({ job, token, worker, executionTimeoutMs }) =>
        void this.held.set(keyOf({ job, token }), { job, token, worker, executionTimeoutMs, startedAt: null, stopped: false }),
      closeSession: () => undefined,
      deliver: () => undefined,
      waitEnded: () => undefined,
      workerStarted: () => undefined,
      directory: () => undefined,
      dropBodies: () => undefined,
      closeAll: (reason) => raise(new Error(reason)),
    };
  }

  #hear({ event }: SchedulerEvent): void {
    if (event?.$case !== 'stop') return;
    const held = this.held.get(keyOf({ job: event.value.jobId, token: event.value.token }));
    if (held !== undefined) held.stopped = true;
  }

  /** Whatever worker is wanted is there and ready. */
  #workers(): WorkerStatus[] {
    return [...this.image.workers.values()]
      .filter(({ drain }) => !drain)
      .map(({ id, endpoint, release }) =>
        WorkerStatus.fromPartial({ workerId: id, endpointId: endpoint, releaseId: release, state: WorkerState.IDLE }),
      );
  }
}

function raise(error: unknown): never {
  throw error;
}

function keyOf({ job, token }: { readonly job: string; readonly token: number }): string {
  return `${job}#${token}`;
}

function jobOf({ result }: JobReply): Job | CapstanError {
  if (result?.$case === 'job') return result.value;
  if (result?.$case === 'failure')
    return new CapstanError(result.value.code as 'NOT_FOUND', result.value.message, { retryAfterMs: result.value.retryAfterMs });
  throw new Error('an answer to another question');
}
