/**
 * What the agent knows: the desired set it last applied, the workers that are really here, and
 * every attempt it holds. The state belongs to the core (step.ts); nothing else changes it.
 *
 * Life of a worker:
 *
 *   waiting ──devices free──▶ artifact ──unpacked──▶ starting ──loaded──▶ ready
 *                                 ▲  │                  │ │                 │
 *                                 │  └────── fails ─────┘ │    dies         │
 *                                 │            ▼          │     │           │
 *                                 └─time─── backoff ◀─────┼─────┘           │
 *                                                         ▼                 ▼
 *                                      (not wanted and holding nothing) ending ──exited──▶ gone
 *
 * The life of an attempt is in attempt-transitions.ts.
 */
import type { Payload } from '../../lib/payload.ts';
import type { AttemptOutcome, Dispatch, ReleaseSpec, WorkerSpec } from '../../proto/gen/capstan/v1/nodes.ts';
import type { AttemptPhase } from './attempt-transitions.ts';
import type { ChunkLog } from './chunks.ts';

/** Names one attempt: job and fencing token. */
export type AttemptKey = string;

export function attemptKey(jobId: string, token: number): AttemptKey {
  return `${jobId}#${token}`;
}

export type WorkerPhase = 'waiting' | 'artifact' | 'starting' | 'ready' | 'backoff' | 'ending';

export interface Worker {
  readonly id: string;
  readonly releaseId: string;
  readonly release: ReleaseSpec;
  /** Name of the runtime that the placement chose. */
  readonly runtime: string;
  readonly deviceUuids: readonly string[];
  phase: WorkerPhase;
  /** Takes nothing new and ends once it holds nothing. Never taken back. */
  draining: boolean;
  /** Attempts that take a slot. */
  readonly attempts: Set<AttemptKey>;
  /** False while HTTP requests do not reach it although it is there. */
  reachable: boolean;
  /** HTTP requests under way; each takes a slot. */
  requests: number;
  /** It has requests, or had one a moment ago: what is reported, so that short ones are no news. */
  busy: boolean;
  /** When `busy` ends, monotonic ms. */
  busyUntil: number | undefined;
  /** Number of the present start; what an earlier start still says is ignored. */
  start: number;
  /** A host process was asked for in this start and has not been reported gone. */
  hostAlive: boolean;
  /** The runtime was told to end the host of this start; told once. */
  endAsked: boolean;
  /** Starts, or lives, that failed in a row. */
  failures: number;
  /** Why it is not serving; empty when all is well. */
  reason: string;
  detail: string;
  /** Monotonic ms. */
  askedAt: number;
  readyAt: number;
  /** When `backoff` is over, or `starting` has taken too long. */
  deadline: number | undefined;
  artifactMs: number;
  startedMs: number;
  loadedMs: number;
}

/** Why a running handler was told to stop; decides what its end is called. */
export type StopCause = 'stopped' | 'timed-out';

export interface Attempt {
  readonly key: AttemptKey;
  readonly jobId: string;
  readonly token: number;
  readonly workerId: string;
  readonly executionTimeoutMs: number;
  /** Changed by `apply` alone (attempt-records.ts). */
  readonly phase: AttemptPhase;
  /** Held only until the attempt is handed to its worker. */
  dispatch: Dispatch | undefined;
  stop: StopCause | undefined;
  startedAt: number | undefined;
  /** End of executionTimeout, monotonic ms; after it, when TIMED_OUT is reported whatever the handler does. */
  deadline: number | undefined;
  chunks: ChunkLog | undefined;
  progress: Payload | undefined;
  end: AttemptEnd | undefined;
}

export interface AttemptEnd {
  outcome: AttemptOutcome;
  output: Payload | undefined;
  error: string;
  executionMs: number;
  at: number;
  /** The output is being put into the blob store. */
  storing: boolean;
}

export interface State {
  /** Epoch of the desired set last applied. */
  epoch: number;
  desired: readonly WorkerSpec[];
  releases: Map<string, ReleaseSpec>;
  /** Devices that cannot be used now, each with the reason. */
  deviceProblems: ReadonlyMap<string, string>;
  readonly workers: Map<string, Worker>;
  readonly attempts: Map<AttemptKey, Attempt>;
  /** The newest attempt of each job. */
  readonly newest: Map<string, AttemptKey>;
  /** The scheduler has welcomed the present session. */
  online: boolean;
  /** The agent is on its way out: takes nothing new. */
  closing: boolean;
  /** The set of workers differs from what was last reported. */
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
    newest: new Map(),
    online: false,
    closing: false,
    workersChanged: false,
  };
}
