/**
 * The scheduler's core and engine over a store in memory, for one node in the same process: without services, keys or
 * an account's limits. `capstan run` queues its jobs here.
 */
import { randomBytes, randomUUID } from 'node:crypto';

import { CapstanError } from '../../lib/errors.ts';
import { DEFAULT_FIELDS } from '../../lib/endpoint-settings.ts';
import { fromPayloadMessage } from '../../lib/payload.ts';
import type { S3Config } from '../../proto/gen/capstan/v1/common.ts';
import type { JobReply, JobRequest } from '../../proto/gen/capstan/v1/jobs.ts';
import { CallStyle, type AgentEvent, type Hello, type SchedulerEvent } from '../../proto/gen/capstan/v1/nodes.ts';
import type { Write } from '../core/effects.ts';
import { failureReply } from '../core/jobs/views.ts';
import type { Outcome } from '../core/ports/store.ts';
import { defaultSettings, type Settings } from '../core/settings.ts';
import { endpointNameKey, type EndpointInput } from '../core/state/endpoints.ts';
import { SystemClock } from '../engine/clock.ts';
import { Engine } from '../engine/engine.ts';
import type { EngineLog } from '../engine/engine-options.ts';
import { localStore } from '../engine/loop-store.ts';
import { JobCalls } from '../services/job-calls.ts';
import { countingOf, readEvent, submitEvent } from '../services/job-requests.ts';
import { desiredEvent, dispatchEvent } from '../services/node-events.ts';
import { SqliteEngine } from '../store/sqlite/engine.ts';

export interface LocalEndpoint {
  readonly name: string;
  /** Jobs at once. */
  readonly maxConcurrency: number;
  /** 0: the service's default. */
  readonly executionTimeoutMs: number;
  /** Its jobs wait. */
  readonly isPaused: boolean;
}

export interface EndedJob {
  readonly id: string;
  /** Name. */
  readonly endpoint: string;
  readonly state: 'COMPLETED' | 'FAILED' | 'CANCELLED' | 'TIMED_OUT';
  readonly error: string | null;
  /** It names a webhook, which nobody calls. */
  readonly hasWebhook: boolean;
}

export interface LocalSchedulerOptions {
  /** Sends the node an event. */
  readonly send: (event: SchedulerEvent) => void;
  readonly onEnded: (job: EndedJob) => void;
  /** No row names these bodies any more. */
  readonly dropBodies: (ids: readonly string[]) => void;
  /** Most bytes of the jobs' inputs, outputs and chunks together, all of them in memory. */
  readonly bodyBytes: number;
  readonly log: EngineLog;
}

/** Endpoints belong to the account and environment that need no rows. */
const ACCOUNT = 'default';
const ENVIRONMENT = 'default';
const NODE = 'local';
const CHANNEL = 1;
const SESSION = 1;
const DAY_MS = 86_400_000;
/** Workers stay until their code changes. */
const NO_IDLE_TIMEOUT_S = 1_000_000_000;
const PAYLOAD_BYTES = 16_000_000;

const SETTINGS: Settings = {
  ...defaultSettings,
  workerQuota: 1_000_000,
  // The node is this process: silence means nothing.
  heartbeatMs: DAY_MS,
  silenceMs: 2 * DAY_MS,
  diskReserveBytes: 0,
};

export class LocalScheduler {
  readonly calls: JobCalls;
  readonly #engine: Engine;
  readonly #store: SqliteEngine;
  readonly #options: LocalSchedulerOptions;
  readonly #replies = new Map<number, (reply: JobReply) => void>();
  /** Ids of jobs by their numbers. */
  readonly #jobs = new Map<number, string>();
  /** Names of endpoints by their ids, also of deleted ones: their last jobs are told of. */
  readonly #names = new Map<string, string>();
  #releases = 0;

  private constructor(options: LocalSchedulerOptions) {
    this.#options = options;
    this.#store = new SqliteEngine({ file: ':memory:' });
    const clock = new SystemClock();
    const random = new Uint32Array(randomBytes(16).buffer, 0, 4);
    this.#engine = new Engine(
      {
        store: localStore(this.#store),
        settings: { ...SETTINGS, bodyQuotaBytes: options.bodyBytes },
        clock,
        random: [random[0] ?? 1, random[1] ?? 2, random[2] ?? 3, random[3] ?? 4],
        owner: randomUUID(),
        log: options.log,
        watcher: { committed: (writes, outcomes) => this.#committed(writes, outcomes) },
        payloadBytes: PAYLOAD_BYTES,
        onFatal: (error) => options.log.error({ err: error }, 'the queue failed'),
      },
      {
        reply: (_channel, reply) => this.#reply(reply),
        send: (_node, _session, event) => options.send(event),
        sendDesired: ({ epoch, workers }, state) =>
          options.send(desiredEvent(state, { epoch, workers }, { tokenOf: () => '', openEnv: () => ({}), openSecret: () => '' })),
        sendJob: (effect, input, s3) => options.send(dispatchEvent(effect, input, s3 === null ? undefined : openS3(s3))),
        waitEnded: () => undefined,
        closeSession: () => undefined,
        workerStarted: () => undefined,
        directory: () => undefined,
        dropBodies: (ids) => void this.#dropBodies(ids),
        // Nobody calls webhooks: the delivery is over.
        deliver: (id) => this.#engine.handle({ kind: 'delivery-tried', id, result: 'delivered' }),
        closeAll: () => undefined,
      },
    );
    this.calls = new JobCalls(this.#engine, clock);
  }

  static async open(options: LocalSchedulerOptions): Promise<LocalScheduler> {
    const scheduler = new LocalScheduler(options);
    await scheduler.#engine.takeOver();
    return scheduler;
  }

  /** The node joins with its Hello. */
  async connect(hello: Hello): Promise<void> {
    await this.#engine.command({ kind: 'put-join-token', hash: NODE });
    await this.#engine.command({ kind: 'join', tokenHash: NODE, node: { id: NODE, name: NODE, secretHash: '' } });
    this.#engine.handle({ kind: 'session-opened', node: NODE, session: SESSION, hello });
  }

  /** The node reports. */
  receive(events: readonly AgentEvent[]): void {
    this.#engine.handle({ kind: 'agent', node: NODE, session: SESSION, events });
  }

  /**
   * Makes these the endpoints, each with a new release: jobs that start from now on run on its worker. Other endpoints are
   * deleted: their queued jobs end CANCELLED. The state has changed when this returns.
   */
  deploy(endpoints: readonly LocalEndpoint[]): void {
    const release = String(++this.#releases);
    const names = new Set(endpoints.map(({ name }) => coreName(name)));
    const gone = [...this.#engine.state.endpoints.values()].filter(
      ({ config }) => config.removing === undefined && !names.has(config.name),
    );
    const removed = gone.map(({ config }) => config.id);
    if (removed.length > 0) this.#command({ kind: 'undeploy', account: ACCOUNT, endpoints: removed, stopJobs: false });
    if (endpoints.length > 0) {
      const inputs = endpoints.map((endpoint) => inputOf(endpoint, release));
      this.#command({ kind: 'deploy', account: ACCOUNT, environment: ENVIRONMENT, build: '', endpoints: inputs });
    }
    for (const { name } of endpoints) this.#names.set(this.idOf(name) ?? '', name);
  }

  /** The id of an endpoint by its name. */
  idOf(name: string): string | undefined {
    return this.#engine.state.endpointsByName.get(endpointNameKey(ACCOUNT, ENVIRONMENT, coreName(name)));
  }

  nameOf(id: string): string {
    return this.#names.get(id) ?? id;
  }

  /** Answers a request about jobs; not before this has returned. An abandoned one gets no answer. */
  request(request: JobRequest, answer: (reply: JobReply) => void): void {
    const ref = { channel: CHANNEL, request: request.requestId };
    const { endpointId: endpoint, operation } = request;
    const counting = countingOf(request);
    switch (operation?.$case) {
      case 'submit': {
        const submit = operation.value;
        const input = fromPayloadMessage(submit.input) ?? { inline: Buffer.from('{}') };
        this.#replies.set(request.requestId, answer);
        const s3 = submit.s3Config === undefined ? null : Buffer.from(JSON.stringify(submit.s3Config));
        const webhook = submit.webhook === '' ? null : submit.webhook;
        this.#engine.handle(submitEvent(submit, { ref, counting, endpoint, input, webhook, s3 }));
        return;
      }
      case 'get':
      case 'stream':
        this.#replies.set(request.requestId, answer);
        this.#engine.handle(readEvent(ref, counting, endpoint, operation));
        return;
      case 'abandon':
        this.#replies.delete(operation.value);
        this.#engine.handle({ kind: 'abandon', ref: { channel: CHANNEL, request: operation.value } });
        return;
      case undefined:
        setImmediate(answer, failureReply(request.requestId, new CapstanError('INVALID_ARGUMENT', 'the request has no operation')));
    }
  }

  async close(): Promise<void> {
    await this.#engine.close();
    this.#store.close();
  }

  /** A refusal here would be an error of this program. */
  #command(command: Parameters<Engine['command']>[0]): void {
    this.#engine.command(command).catch((error: unknown) => this.#options.log.error({ err: error }, 'the queue refused its endpoints'));
  }

  #reply(reply: JobReply): void {
    const answer = this.#replies.get(reply.requestId);
    this.#replies.delete(reply.requestId);
    if (answer !== undefined) setImmediate(answer, reply);
  }

  #committed(writes: readonly Write[], outcomes: readonly Outcome[]): void {
    for (const [at, { op, subject }] of writes.entries()) {
      if (outcomes[at]?.kind !== 'ok') continue;
      if (op.kind === 'submit') this.#jobs.set(op.job.seq, op.job.id);
      if (op.kind === 'delete') this.#jobs.delete(op.seq);
      if (op.kind !== 'finish') continue;
      const { state, error, delivery } = op;
      const id = this.#jobs.get(op.seq) ?? '';
      this.#options.onEnded({ id, endpoint: this.nameOf(subject?.endpoint ?? ''), state, error, hasWebhook: delivery !== null });
    }
  }

  async #dropBodies(ids: readonly string[]): Promise<void> {
    const named = new Set(await this.#engine.read('blobsNamed', ids));
    this.#options.dropBodies(ids.filter((id) => !named.has(id)));
  }
}

/** The core refuses a name with the form of an id, and all other endpoints with it. Here URLs hold names only. */
function coreName(name: string): string {
  return `${NODE}/${name}`;
}

function inputOf({ name, maxConcurrency, executionTimeoutMs, isPaused }: LocalEndpoint, release: string): EndpointInput {
  const workers = isPaused ? 0 : 1;
  return {
    ...DEFAULT_FIELDS,
    name: coreName(name),
    kind: 'QUEUE',
    scalerType: 'QUEUE_DELAY',
    routes: {},
    limits: {},
    // The node's runtime knows the function.
    functions: [{ name, module: 'local', callStyle: CallStyle.UNSPECIFIED, parameters: [] }],
    runtime: 'process',
    workersMin: workers,
    workersMax: workers,
    idleTimeoutS: NO_IDLE_TIMEOUT_S,
    maxConcurrency,
    executionTimeoutMs,
    envSealed: null,
    // Each deployment is a new release.
    envDigest: release,
  };
}

function openS3(kept: Uint8Array): S3Config {
  return JSON.parse(Buffer.from(kept).toString()) as S3Config;
}
