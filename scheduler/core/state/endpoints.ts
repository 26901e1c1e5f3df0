/** Endpoints in memory: settings and release, and the inputs of scaling and rate limits. */
import type { FieldsKeptIn } from '../../../lib/endpoint-settings.ts';
import type { FunctionSpec } from '../../../proto/gen/capstan/v1/nodes.ts';
import type { RejectionGroup } from './rejections.ts';
import type { LimitedOperation, Limits, Usage } from './rate-limits.ts';
import type { Claim } from './fleet.ts';
import { emptyLane, type Lane } from './jobs.ts';

/** An endpoint with its settings (lib/endpoint-settings.ts), as in its control row. */
export interface EndpointConfig extends Omit<FieldsKeptIn<'endpoint'>, 'scalerType'> {
  readonly id: string;
  readonly account: string;
  readonly environment: string;
  readonly name: string;
  readonly kind: 'QUEUE' | 'LOAD_BALANCED';
  readonly scalerType: 'QUEUE_DELAY' | 'REQUEST_COUNT';
  readonly routes: Readonly<Record<string, string>>;
  /** Rate limits that differ from the account's. */
  readonly limits: Partial<Limits>;
  readonly release: string;
  /**
   * The previous release, whose workers may finish the jobs that were queued before this one (rollout.ts); null if
   * there is none.
   */
  readonly previousRelease: string | null;
  /** Jobs at or after this position of the queue run on the present release. */
  readonly releaseFrom: number;
  /** Being deleted: accepts no calls, and is deleted once its last job and worker are gone. */
  readonly removing?: { readonly stopJobs: boolean };
}

/** One resource of a manifest, validated, with encrypted environment values. */
export interface EndpointInput
  extends
    Omit<EndpointConfig, 'id' | 'account' | 'environment' | 'release' | 'previousRelease' | 'releaseFrom' | 'removing'>,
    FieldsKeptIn<'release'> {
  readonly functions: readonly FunctionSpec[];
  readonly envSealed: string | null;
  readonly envDigest: string;
  /** Names of the secrets that the environment refers to; absent in rows of earlier versions. */
  readonly secretNames?: readonly string[];
}

/** The settings that a worker is started with: an endpoint at a build with its environment. */
export interface Release extends FieldsKeptIn<'release'> {
  readonly id: string;
  readonly endpoint: string;
  readonly buildDigest: string;
  readonly buildSize: number;
  readonly functions: readonly FunctionSpec[];
  /** Encrypted environment values; null if there are none. */
  readonly envSealed: string | null;
  /** SHA-256 of the plain environment, to detect changes. */
  readonly envDigest: string;
  /** The version of each secret that the environment refers to, by name; 0: it did not exist. Absent without any. */
  readonly secrets?: Readonly<Record<string, number>> | undefined;
}

/** Counters of an endpoint's jobs and attempts. */
export interface Tallies {
  submitted: number;
  /** The ttl ended before the job. */
  expired: number;
  /** Attempts whose handler was entered. */
  started: number;
  /** Attempts whose worker or node was lost. */
  lost: number;
  /** Attempts that an agent refused. */
  refused: number;
}

/** Results of the starts of an endpoint's present release. */
export interface Starts {
  /** Consecutive failures. */
  failures: number;
  /** Error of the last failure, for users. */
  lastError: string;
  /** Monotonic time before which no further worker is requested if every place has failed. */
  retryAt: number;
  /** Nodes with consecutive failed starts, and until when (monotonic) each is avoided. */
  readonly nodes: Map<string, { failures: number; avoidUntil: number }>;
}

export function newStarts(): Starts {
  return { failures: 0, lastError: '', retryAt: 0, nodes: new Map() };
}

/** Kinds of decisions. */
export type DecisionKind =
  /** A worker was requested. */
  | 'REQUEST'
  /** A worker was told to drain. */
  | 'DRAIN'
  /** A worker was wanted, but no node could take it. */
  | 'NO_PLACE'
  /** Workers of other endpoints end to make room for its jobs. */
  | 'MAKE_ROOM'
  /** Starts fail repeatedly: one worker keeps trying. */
  | 'CRASH_LOOP'
  /** A worker started after such failures. */
  | 'RECOVERED';

export interface ScalingDecision {
  /** Wall time, ms. */
  readonly at: number;
  readonly kind: DecisionKind;
  /** Empty if it does not concern one worker or one node. */
  readonly worker: string;
  readonly node: string;
  readonly reason: string;
}

/** Requests of a load-balanced endpoint at one gateway; deleted with the gateway's session. */
export interface RequestLevel {
  readonly held: number;
  readonly inFlight: number;
  /** Monotonic time since which the oldest held request waits. */
  readonly heldSince: number;
}

export interface EndpointRecord {
  config: EndpointConfig;
  readonly lanes: readonly [Lane, Lane];
  readonly workers: Set<string>;
  counts: { inProgress: number; inProgressLow: number; completed: number; failed: number; retried: number };
  /** Events since this state was built, for metrics only. */
  readonly tallies: Tallies;
  /** Why nodes rejected the last wanted worker; empty once one was placed. */
  rejections: readonly RejectionGroup[];
  /** Wanted workers without a place, and the monotonic time since when. */
  unplaced: { count: number; since: number };
  /** Room that workers of other endpoints leave for it. */
  claims: readonly Claim[];
  /** Monotonic time before which no other workers are looked for that could leave it room. */
  preemptAfter: number;
  /** Results of the starts of the present release. */
  starts: Starts;
  /** Workers to replace after some left for a reason other than the load; until a monotonic time. */
  replace: { readonly count: number; readonly until: number; readonly reason: string } | null;
  /** Monotonic time until which a caller waits for a first worker of the release (scaling/trial-starts.ts). */
  trialUntil: number;
  /** Monotonic time at which a job of normal priority was last seen waiting. */
  lastWaiting: number;
  /** Monotonic time of the next check for attempts that wait at busy workers (jobs/recall.ts). */
  recallAt: number;
  /** Load-balanced: since when (monotonic) it has had more workers than REQUEST_COUNT wants; null if it has not. */
  surplusSince: number | null;
  /** The scaler's most recent decisions, oldest first. */
  readonly decisions: ScalingDecision[];
  /** Callers' use of the rate limits. */
  readonly usage: Map<LimitedOperation, Usage>;
  /** Load-balanced: its requests at each gateway, by the number of the gateway's session. */
  readonly requests: Map<number, RequestLevel>;
  /** A purge in progress: ends every queued job at or below this position. */
  purge: { upTo: number; removed: number; error: string; readonly calls: number[] } | null;
}

export function newEndpointRecord(config: EndpointConfig): EndpointRecord {
  return {
    config,
    lanes: [emptyLane(true), emptyLane(true)],
    workers: new Set(),
    counts: { inProgress: 0, inProgressLow: 0, completed: 0, failed: 0, retried: 0 },
    tallies: { submitted: 0, expired: 0, started: 0, lost: 0, refused: 0 },
    rejections: [],
    unplaced: { count: 0, since: 0 },
    claims: [],
    preemptAfter: 0,
    starts: newStarts(),
    replace: null,
    trialUntil: 0,
    lastWaiting: 0,
    recallAt: 0,
    surplusSince: null,
    decisions: [],
    usage: new Map(),
    requests: new Map(),
    purge: null,
  };
}

/** Returns the key of an endpoint name, unique within an account's environment. */
export function endpointNameKey(account: string, environment: string, name: string): string {
  return `${account}/${environment}/${name}`;
}
