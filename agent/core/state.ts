/**
 * The agent's state: the desired set it last applied, the actual workers, and every attempt it
 * holds. Only the core (step.ts) changes it.
 *
 * Phases of a worker:
 *
 *   waiting ──devices free──▶ artifact ──unpacked──▶ starting ──loaded──▶ ready
 *                                 ▲  │                  │ │                 │
 *                                 │  └────── fails ─────┘ │    dies         │
 *                                 │            ▼          │     │           │
 *                                 └─time─── backoff ◀─────┼─────┘           │
 *                                                         ▼                 ▼
 *                                      (not wanted and holding nothing) ending ──exited──▶ gone
 *
 * A worker that its own work ended goes from ready straight to artifact, or to `restarting` until then while that happens
 * too often (restarts.ts).
 *
 * The phases of an attempt are in attempt-transitions.ts.
 */
import type { Payload } from '../../lib/payload.ts';
import type { AttemptOutcome, Dispatch, ReleaseSpec, WorkerSpec } from '../../proto/gen/capstan/v1/nodes.ts';
import type { AttemptPhase } from './attempt-transitions.ts';
import type { ChunkLog } from './chunks.ts';

/** Identifies one attempt: job and fencing token. */
export type AttemptKey = string;

export function attemptKey(jobId: string, token: number): AttemptKey {
  return `${jobId}#${token}`;
}

export type WorkerPhase = 'waiting' | 'artifact' | 'starting' | 'ready' | 'backoff' | 'restarting' | 'ending';

export interface Worker {
  readonly id: string;
  readonly releaseId: string;
  readonly release: ReleaseSpec;
  /** Name of the runtime that the placement chose. */
  readonly runtime: string;
  readonly deviceUuids: readonly string[];
  /** Why its GPUs cannot be used from inside of it, although the host can; empty while they can. Of the current start. */
  viewProblem: string;
  phase: WorkerPhase;
  /** Accepts nothing new and ends once it holds nothing. Never reset. */
  draining: boolean;
  /** Attempts that hold a slot. */
  readonly attempts: Set<AttemptKey>;
  /** False while HTTP requests do not reach a worker that is alive. */
  reachable: boolean;
  /** HTTP requests in progress; each holds a slot. */
  requests: number;
  /** Those of them that are open WebSockets. */
  webSockets: number;
  /** The last request that ended lost its connection: the worker may be about to end, although it holds nothing any more. */
  hasLostRequest: boolean;
  /** When a draining worker no longer waits for its WebSockets, monotonic ms. */
  webSocketsUntil: number | undefined;
  /** It has requests or had one a moment ago. This value is reported, so that short requests cause no reports. */
  busy: boolean;
  /** When `busy` ends, monotonic ms. */
  busyUntil: number | undefined;
  /** Number of the current start; events of earlier starts are ignored. */
  start: number;
  /** A host process was requested in this start and has not been reported gone. */
  hostAlive: boolean;
  /** Jobs that a foreign worker takes at once, as it has shown in this start; undefined: those of its release. */
  slots: number | undefined;
  /** The runtime was asked to end the host of this start; asked once. */
  endAsked: boolean;
  /** Consecutive failed starts or lives. */
  failures: number;
  /** Why it does not serve; empty when it is healthy. */
  reason: string;
  detail: string;
  /** What a start waits for: what was tried and what came back; empty when unknown. */
  waitingFor: string;
  /** Monotonic ms. */
  askedAt: number;
  readyAt: number;
  /** When `backoff` or `restarting` ends or `starting` times out. */
  deadline: number | undefined;
  artifactMs: number;
  startedMs: number;
  loadedMs: number;
}

/** Why a running handler was asked to stop; decides the outcome that is reported. */
export type StopCause = 'stopped' | 'timed-out';

export interface Attempt {
  readonly key: AttemptKey;
  readonly jobId: string;
  readonly token: number;
  readonly workerId: string;
  readonly accountId: string;
  /** The start of the worker that it was handed to; absent before. */
  start: number | undefined;
  readonly executionTimeoutMs: number;
  /** Changed only by `apply` (attempt-records.ts). */
  readonly phase: AttemptPhase;
  /** Held only until the attempt is handed to its worker. */
  dispatch: Dispatch | undefined;
  stop: StopCause | undefined;
  startedAt: number | undefined;
  /**
   * End of executionTimeout, monotonic ms; once it has passed, when TIMED_OUT is reported whatever the handler does.
   */
  deadline: number | undefined;
  chunks: ChunkLog | undefined;
  progress: Payload | undefined;
  /** When progress may be reported again, monotonic ms; absent before the first report. */
  progressAfter: number | undefined;
  /** The latest progress waits for that time. */
  progressWaits: boolean;
  end: AttemptEnd | undefined;
}

export interface AttemptEnd {
  outcome: AttemptOutcome;
  output: Payload | undefined;
  error: string;
  executionMs: number;
  at: number;
  /** Of the output, while it is kept here. */
  bytes: number;
  /** The output is being written to the blob store. */
  storing: boolean;
  /** As in AttemptEnded. */
  readonly suspected: boolean;
}

export interface State {
  /** Epoch of the desired set last applied. */
  epoch: number;
  desired: readonly WorkerSpec[];
  releases: Map<string, ReleaseSpec>;
  /** Unusable devices, each with the reason. */
  deviceProblems: ReadonlyMap<string, string>;
  readonly workers: Map<string, Worker>;
  readonly attempts: Map<AttemptKey, Attempt>;
  /** When each endpoint has all its restarts without a wait again, monotonic ms (restarts.ts). */
  readonly restarts: Map<string, number>;
  /** The newest attempt of each job. */
  readonly newest: Map<string, AttemptKey>;
  /** The scheduler has sent Welcome in the current session. */
  online: boolean;
  /** Messages wait for the connection: chunks are held back, so that other reports do not queue behind them. */
  congested: boolean;
  /** The agent is closing: it accepts nothing new. */
  closing: boolean;
  /** The set of workers differs from the last report. */
  workersChanged: boolean;
}

export function newState(): State {
  return {
    epoch: 0,
    desired: [],
    releases: new Map(),
    deviceProblems: new Map(),
    workers: new Map(),
    attempts: new Map(),
    restarts: new Map(),
    newest: new Map(),
    online: false,
    congested: false,
    closing: false,
    workersChanged: false,
  };
}
