/** Drives the core: delivers events, carries out effects, and sends a tick when one is due. */
import type { Logger } from 'pino';

import { assertNever, type CapstanError } from '../../lib/errors.ts';
import { fromServiceError } from '../../lib/grpc-errors.ts';
import type { Tracing } from '../../lib/telemetry/tracing.ts';
import { messageOf } from '../../lib/to-error.ts';
import { EndpointKind } from '../../proto/gen/capstan/v1/common.ts';
import type { ServingWorker } from '../../proto/gen/capstan/v1/invoke.ts';
import type {
  ActualWorkers,
  AgentEvent,
  AttemptRef,
  NodeIsolation,
  ReleaseSpec,
  SchedulerEvent,
} from '../../proto/gen/capstan/v1/nodes.ts';
import type { ArtifactCache, HeldBuild } from '../artifacts/cache.ts';
import type { BlobTransfer } from '../blobs/blob-transfer.ts';
import type { PrintedLine } from '../logs/log-store.ts';
import type { WorkFolders } from '../runtimes/work-folders.ts';
import { isolationRefusal, networkOf, unreachable, type DefaultNetworks } from './isolation-guard.ts';
import { serveOn, servingWorkers } from './serving.ts';
import { AttemptSpans } from '../telemetry/attempt-spans.ts';
import { callVariables } from './call-variables.ts';
import { GatewayUrl } from './gateway-url.ts';
import { StoreTurns } from './store-turns.ts';
import { WorkerLines } from './worker-lines.ts';
import { GpuViews, saysLost } from './gpu-views.ts';
import { deviceProblemOf } from '../core/devices.ts';
import type { CoreEvent, Effect } from '../core/events.ts';
import { newState, type AttemptKey } from '../core/state.ts';
import { actualWorkers, attemptRefs } from '../core/report.ts';
import { crowdedOut } from '../core/held.ts';
import { isIdle, nextDeadline, step } from '../core/step.ts';
import type { HttpCall, HttpEvents, HttpRequest, RunningWorker, Runtime, WorkerEvents } from '../runtimes/runtime.ts';
import type { AccountReaders } from '../runtimes/reading/account-readers.ts';
import { ValidatedResponse } from '../runtimes/validated-response.ts';

/** Longest delay of a timer, ms. */
const MAX_TIMER_MS = 2 ** 31 - 1;
const NONE: ReadonlySet<string> = new Set();

export type AgentEngineLog = Pick<Logger, 'warn'>;

export interface EngineDeps {
  readonly runtimes: ReadonlyMap<string, Runtime>;
  readonly cache: Pick<ArtifactCache, 'acquire' | 'doubt'>;
  readonly blobs: Pick<BlobTransfer, 'get' | 'put'>;
  readonly workFolders: Pick<WorkFolders, 'make' | 'remove'>;
  /** Absent where the agent itself reads the workers. */
  readonly readers?: AccountReaders;
  readonly log: AgentEngineLog;
  /** As the inventory reports it. */
  readonly isolation: () => NodeIsolation | undefined;
  /** Base URL of the HTTP API as workers on this node reach it; empty: the scheduler's value. */
  readonly publicUrl: string;
  readonly defaultNetworks: DefaultNetworks;
  /** The host of the scheduler as this agent reaches it. */
  readonly schedulerHost: () => string;
  /** Called with the address that workers get as CAPSTAN_URL. */
  readonly onGatewayUrl: (url: string) => void;
  readonly send: (event: AgentEvent) => void;
  readonly onLogLine: (line: PrintedLine) => void;
  readonly tracing: Tracing;
  /** The workers that accept HTTP requests may have changed. */
  readonly onServing: () => void;
  /** A worker with devices failed: its devices should be probed. */
  readonly onDeviceDoubt: () => void;
  /** Interval of looks whether workers can use their GPUs, ms. */
  readonly gpuViewMs: number;
  /** Whether the execution time of an endpoint's jobs does not count now, because a debugger holds them. */
  readonly isHeld?: (endpointId: string) => boolean;
}

interface Hosted {
  readonly start: number;
  readonly endpointId: string;
  build: HeldBuild | undefined;
  /** Empty until the host starts. */
  workFolder: string;
  worker: RunningWorker | undefined;
}

export class Engine {
  readonly #deps: EngineDeps;
  readonly #state = newState();
  readonly #hosted = new Map<string, Hosted>();
  readonly #attemptWorkers = new Map<AttemptKey, RunningWorker>();
  readonly #transfers = new Map<AttemptKey, AbortController>();
  /** Secrets of the desired workers. */
  #tokens: ReadonlyMap<string, string> = new Map();
  readonly #gatewayUrl: GatewayUrl;
  #timer: NodeJS.Timeout | undefined;
  #timerAt: number | undefined;
  #turnEnds = false;
  #onIdle: (() => void) | undefined;
  readonly #lines: WorkerLines;
  readonly #stores: StoreTurns;
  readonly #spans: AttemptSpans;
  readonly #views: GpuViews;

  constructor(deps: EngineDeps) {
    this.#deps = deps;
    this.#gatewayUrl = new GatewayUrl(deps.publicUrl, deps.onGatewayUrl);
    this.#lines = new WorkerLines(deps.onLogLine);
    this.#stores = new StoreTurns(deps.blobs, (key) => this.#state.attempts.get(key)?.accountId ?? '');
    this.#spans = new AttemptSpans(deps.tracing);
    this.#views = new GpuViews({
      everyMs: deps.gpuViewMs,
      workers: () => this.#state.workers.values(),
      runtimes: deps.runtimes,
      onLost: (lost) => {
        deps.log.warn({ worker: lost.workerId, problem: lost.detail }, 'a worker has lost its GPUs');
        const worker = this.#state.workers.get(lost.workerId);
        if (worker !== undefined) this.#tellWorkerLog(lost.workerId, worker.release, lost.detail);
        this.feed({ kind: 'gpus-lost', ...lost });
      },
    });
  }

  /** Returns the state for Hello. */
  hello(): { workers: ActualWorkers; attempts: AttemptRef[] } {
    this.#state.workersChanged = false;
    return { workers: actualWorkers(this.#state), attempts: attemptRefs(this.#state, performance.now()) };
  }

  /** Handles messages of the scheduler in order, including those that are not for the core. */
  onScheduler(events: readonly SchedulerEvent[]): void {
    for (const { event } of events) {
      switch (event?.$case) {
        case 'welcome':
          this.#gatewayUrl.welcomed(event.value.publicUrl);
          this.feed({ kind: 'welcome' });
          break;
        case 'gateways':
          this.#gatewayUrl.listed(event.value, this.#deps.schedulerHost());
          break;
        case 'desired':
          this.#tokens = new Map(event.value.workers.map(({ workerId, token }) => [workerId, token]));
          this.feed({ kind: 'desired', desired: event.value });
          break;
        case 'dispatch':
          this.feed({ kind: 'dispatch', dispatch: event.value });
          break;
        case 'stop':
          this.feed({ kind: 'stop', stop: event.value });
          break;
        case 'recall':
          this.feed({ kind: 'recall', recall: event.value });
          break;
        case 'ack':
          this.feed({ kind: 'ack', ack: event.value });
          break;
        case 'drained':
          this.feed({ kind: 'drained', drained: event.value });
          break;
        default:
        // The session handles heartbeats and the log store handles log requests; events of a newer scheduler are
        // ignored.
      }
    }
  }

  feed(event: CoreEvent): void {
    for (const effect of step(this.#state, event, performance.now())) this.#carryOut(effect);
    if (this.#turnEnds) return;
    this.#turnEnds = true;
    process.nextTick(() => {
      this.#turnEnds = false;
      this.#endTurn();
    });
  }

  /** Accepts nothing new; resolves when every worker is gone, killed after `drainMs`. */
  async close(drainMs: number): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#onIdle = resolve;
    this.#views.close();
    this.feed({ kind: 'close' });
    const timer = setTimeout(() => this.feed({ kind: 'close-now' }), drainMs);
    await promise;
    clearTimeout(timer);
    clearTimeout(this.#timer);
  }

  /** Ends its timers: it is given up with its state. */
  stop(): void {
    this.#views.close();
    clearTimeout(this.#timer);
  }

  /** The workers that accept HTTP requests now. */
  serving(): ServingWorker[] {
    return servingWorkers(this.#state);
  }

  /** Hands an HTTP request to a worker; returns null when the worker does not accept it. */
  serve(workerId: string, asked: HttpRequest, listener: HttpEvents): HttpCall | null {
    const counted = (worker: { readonly start: number }, count: number, webSockets: number, isLost = false): void =>
      this.feed({ kind: 'requests', workerId, start: worker.start, count, webSockets, isLost });
    const worker = this.#state.workers.get(workerId);
    if (worker !== undefined && deviceProblemOf(this.#state, worker) !== undefined) return null;
    const { request, events } = this.#spans.request(workerId, asked, listener);
    const response = new ValidatedResponse(request, events, (line) => this.#tellWorkerLog(workerId, worker?.release, line));
    const call = serveOn({ worker, running: this.#hosted.get(workerId)?.worker, counted }, request, response);
    if (call !== null) response.attach(call);
    return call;
  }

  /** Attempts whose end the scheduler has not acknowledged. */
  get unacknowledged(): number {
    return this.#state.attempts.size;
  }

  /** Cancels the remaining transfers. */
  abortTransfers(): void {
    for (const transfer of this.#transfers.values()) transfer.abort();
  }

  #endTurn(): void {
    this.#deps.readers?.hold(crowdedOut(this.#state));
    if (this.#state.workersChanged) {
      this.#state.workersChanged = false;
      this.#deps.send({ event: { $case: 'workers', value: actualWorkers(this.#state) } });
      this.#deps.onServing();
      if (isIdle(this.#state)) this.#onIdle?.();
    } else if (this.#state.closing && isIdle(this.#state)) {
      this.#onIdle?.();
    }
    this.#armTimer();
  }

  #armTimer(): void {
    const at = nextDeadline(this.#state);
    if (at === this.#timerAt) return;
    clearTimeout(this.#timer);
    this.#timerAt = at;
    if (at === undefined) return;
    this.#timer = setTimeout(() => this.#onTimer(), Math.min(MAX_TIMER_MS, Math.max(0, at - performance.now())));
  }

  /**
   * The sockets are polled once more first: an end that has already arrived must not become a time-out (invariant 5).
   */
  #onTimer(): void {
    this.#timerAt = undefined;
    setImmediate(() => setImmediate(() => this.feed({ kind: 'tick', held: this.#held() })));
  }

  /** The workers whose execution times do not count now. */
  #held(): ReadonlySet<string> {
    const { isHeld } = this.#deps;
    if (isHeld === undefined) return NONE;
    return new Set([...this.#state.workers.values()].filter(({ release }) => isHeld(release.endpointId)).map(({ id }) => id));
  }

  #carryOut(effect: Effect): void {
    switch (effect.kind) {
      case 'report':
        this.#deps.send(effect.event);
        break;
      case 'run': {
        const { dispatch } = effect;
        const worker = this.#hosted.get(dispatch.workerId)?.worker;
        if (worker === undefined) break;
        this.#attemptWorkers.set(effect.key, worker);
        const trace = this.#spans.started(effect.key, dispatch, this.#hosted.get(dispatch.workerId)?.endpointId ?? '');
        const { jobId, s3Config, attempt } = dispatch;
        this.#lines.attemptStarts(jobId, attempt, trace);
        worker.run({ key: effect.key, jobId, input: effect.input, s3Config, attempt, trace });
        break;
      }
      case 'cancel':
        this.#attemptWorkers.get(effect.key)?.cancel(effect.key);
        break;
      case 'recall':
        this.#attemptWorkers.get(effect.key)?.recall?.(effect.key);
        break;
      case 'credit':
        this.#attemptWorkers.get(effect.key)?.credit(effect.key, effect.count);
        break;
      case 'forget':
        this.#transfers.get(effect.key)?.abort();
        this.#transfers.delete(effect.key);
        this.#attemptWorkers.delete(effect.key);
        this.#spans.forgotten(effect.key);
        break;
      case 'violation':
        this.#tellWorkerLog(effect.workerId, this.#state.workers.get(effect.workerId)?.release, effect.detail);
        break;
      case 'fetch-artifact':
        this.#fetchArtifact(effect);
        break;
      case 'start-host':
        this.#startHost(effect);
        break;
      case 'end-host': {
        const hosted = this.#hosted.get(effect.workerId);
        if (hosted?.start === effect.start) hosted.worker?.end(effect.force);
        break;
      }
      case 'fetch-input':
        this.#transfer(
          effect.key,
          (signal) => this.#deps.blobs.get(effect.blob, signal),
          (input) => ({ kind: 'input-ready', key: effect.key, input }),
          ({ code, message }) => ({ kind: 'input-failed', key: effect.key, isMissing: code === 'NOT_FOUND', detail: message }),
        );
        break;
      case 'store-output':
        this.#transfer(
          effect.key,
          (signal) => this.#stores.put(effect.key, effect.bytes, signal),
          (blob) => ({ kind: 'output-stored', key: effect.key, output: { blob } }),
          ({ message }) => ({ kind: 'output-refused', key: effect.key, detail: message }),
        );
        break;
      case 'store-chunk': {
        const { key, index, bytes } = effect;
        this.#transfer(
          key,
          (signal) => this.#stores.put(key, bytes, signal),
          (blob) => ({ kind: 'chunk-stored', key, index, data: { blob } }),
          // If the store refuses a chunk, the chunk travels in a message instead.
          () => ({ kind: 'chunk-stored', key, index, data: { inline: bytes } }),
        );
        break;
      }
      default:
        assertNever(effect);
    }
  }

  #transfer<T>(
    key: AttemptKey,
    move: (signal: AbortSignal) => Promise<T>,
    done: (value: T) => CoreEvent,
    failed: (error: CapstanError) => CoreEvent,
  ): void {
    let controller = this.#transfers.get(key);
    if (controller === undefined) {
      controller = new AbortController();
      this.#transfers.set(key, controller);
    }
    const { signal } = controller;
    void move(signal).then(
      (value) => this.feed(done(value)),
      (error: unknown) => {
        if (!signal.aborted) this.feed(failed(fromServiceError(error)));
      },
    );
  }

  #fetchArtifact({ workerId, start, release }: Extract<Effect, { kind: 'fetch-artifact' }>): void {
    const hosted = this.#hostedOf(workerId, start, release.endpointId);
    void this.#deps.cache.acquire(release.buildDigest).then(
      (build) => {
        if (this.#hosted.get(workerId) !== hosted) {
          build.release();
          return;
        }
        hosted.build = build;
        this.feed({ kind: 'artifact-ready', workerId, start, folder: build.folder });
        // The start was cancelled meanwhile: the build is no longer needed.
        if (hosted.worker === undefined) this.#releaseWorker(workerId, hosted);
      },
      (error: unknown) => {
        const { message } = fromServiceError(error);
        this.#tellWorkerLog(workerId, release, `the build is not available: ${message}`);
        this.feed({ kind: 'artifact-failed', workerId, start, detail: message });
      },
    );
  }

  #startHost({ workerId, start, release, runtime: name, folder, deviceUuids }: Extract<Effect, { kind: 'start-host' }>): void {
    const { endpointId } = release;
    const hosted = this.#hostedOf(workerId, start, endpointId);
    const runtime = this.#deps.runtimes.get(name);
    const own = callVariables(release, { url: this.#gatewayUrl.current, token: this.#tokens.get(workerId) ?? '' });
    const env = { ...release.env, ...own };
    const doubtDevices = (): void => {
      if (deviceUuids.length > 0) this.#deps.onDeviceDoubt();
    };
    const doubtAll = (): void => {
      doubtDevices();
      this.#deps.cache.doubt(release.buildDigest);
    };
    const keep = this.#lines.of(workerId, release, env);
    const events: WorkerEvents = {
      preparing: (reason, detail) => this.feed({ kind: 'preparing', workerId, start, reason, detail }),
      waiting: (detail) => this.feed({ kind: 'waiting', workerId, start, detail }),
      startFailed: (reason, detail) => {
        this.#tellWorkerLog(workerId, release, detail);
        this.feed({ kind: 'start-failed', workerId, start, reason, detail });
      },
      started: () => this.feed({ kind: 'host-started', workerId, start }),
      loaded: () => this.feed({ kind: 'loaded', workerId, start }),
      loadFailed: (detail) => {
        doubtAll();
        this.feed({ kind: 'load-failed', workerId, start, detail });
      },
      entered: (key) => this.feed({ kind: 'handler-entered', workerId, start, key }),
      chunk: (key, data) => this.feed({ kind: 'chunk', workerId, start, key, data }),
      progress: (key, data) => this.feed({ kind: 'progress', workerId, start, key, data }),
      ended: (key, result) => {
        if (this.#attemptWorkers.get(key) === hosted.worker) {
          this.#attemptWorkers.delete(key);
          this.#spans.ended(key, result);
          if (result.kind === 'failed') {
            doubtDevices();
            this.#viewSoon(workerId);
          }
        }
        this.feed({ kind: 'handler-ended', workerId, start, key, result });
      },
      violation: (detail) => this.#tellWorkerLog(workerId, release, detail),
      reloading: () => this.feed({ kind: 'reloading', workerId, start }),
      slots: (count) => this.feed({ kind: 'slots', workerId, start, count }),
      reachable: (is) => this.feed({ kind: 'reachable', workerId, start, is }),
      log: (entry) => {
        keep(entry);
        if (deviceUuids.length > 0 && saysLost(entry.text)) this.#viewSoon(workerId);
      },
      exited: (detail, hardStop, culprit, isUnread) => {
        this.#releaseWorker(workerId, hosted);
        if (this.#state.workers.get(workerId)?.endAsked === false) doubtAll();
        this.feed({ kind: 'exited', workerId, start, detail, hardStop, culprit, isUnread });
      },
    };
    if (runtime === undefined) {
      process.nextTick(() => events.exited(`this node does not have the runtime ${name}`, false));
      return;
    }
    const network = networkOf(release, name, this.#deps.defaultNetworks);
    const refusal = isolationRefusal(release, name, this.#deps.isolation()) ?? unreachable(network, release);
    if (refusal !== undefined) {
      process.nextTick(() => events.exited(`the worker cannot start here: ${refusal}`, false));
      return;
    }
    try {
      hosted.workFolder = this.#deps.workFolders.make();
    } catch (error) {
      process.nextTick(() => events.exited(`creating the worker's working folder failed: ${messageOf(error)}`, false));
      return;
    }
    const { readers } = this.#deps;
    hosted.worker = runtime.start(
      {
        workerId,
        endpointId,
        folder,
        workFolder: hosted.workFolder,
        functions: release.functions,
        servesHttp: release.kind === EndpointKind.LOAD_BALANCED,
        env,
        deviceUuids,
        maxConcurrency: Math.max(1, release.maxConcurrency),
        memoryBytes: Number(release.memoryBytes),
        cpuMillis: release.cpuMillis,
        image: release.image,
        command: release.command,
        startTimeoutMs: release.startTimeoutMs,
        network,
        ...(readers === undefined ? {} : { reading: readers.of(release.accountId ?? '') }),
      },
      events,
    );
  }

  /**
   * Resources of this start of the worker. The start begins with the build, or with the host if the release has no
   * build.
   */
  #hostedOf(workerId: string, start: number, endpointId: string): Hosted {
    const present = this.#hosted.get(workerId);
    if (present?.start === start) return present;
    const hosted: Hosted = { start, endpointId, build: undefined, workFolder: '', worker: undefined };
    this.#releaseWorker(workerId);
    this.#hosted.set(workerId, hosted);
    return hosted;
  }

  /** The worker's build may be evicted from now on. */
  #releaseWorker(workerId: string, only?: Hosted): void {
    const hosted = this.#hosted.get(workerId);
    if (hosted === undefined || (only !== undefined && hosted !== only)) return;
    hosted.build?.release();
    if (hosted.workFolder !== '') this.#deps.workFolders.remove(hosted.workFolder);
    this.#hosted.delete(workerId);
  }

  /** Its GPUs may be lost. */
  #viewSoon(workerId: string): void {
    const worker = this.#state.workers.get(workerId);
    if (worker !== undefined) this.#views.soon(worker);
  }

  /** `release`: undefined for a worker that is gone. */
  #tellWorkerLog(workerId: string, release: ReleaseSpec | undefined, text: string): void {
    const { endpointId = '', endpointName } = release ?? {};
    this.#deps.log.warn({ worker: workerId, ...(release === undefined ? {} : { endpoint: endpointId, endpointName }) }, text);
    this.#lines.system(workerId, release, text);
  }
}
