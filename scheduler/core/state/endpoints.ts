/** Endpoints in memory: settings and release, and what scaling and rate limits go by. */
import type { FieldsKeptIn } from '../../../lib/endpoint-settings.ts';
import type { FunctionSpec } from '../../../proto/gen/capstan/v1/nodes.ts';
import type { RejectionGroup } from '../fleet/placement/rejections.ts';
import type { LimitedOperation, Limits, Usage } from '../jobs/rate-limits.ts';
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
  /** The release before, whose workers may finish the jobs that were queued before this one (rollout.ts); null when there was none. */
  readonly previousRelease: string | null;
  /** Jobs at this position of the queue and after it run on the present release. */
  readonly releaseFrom: number;
  /** It is being deleted: takes no calls, and goes once its last job and worker are gone. */
  readonly removing?: { readonly stopJobs: boolean };
}

/** One resource of a manifest, validated, its environment already encrypted. */
export interface EndpointInput
  extends
    Omit<EndpointConfig, 'id' | 'account' | 'environment' | 'release' | 'previousRelease' | 'releaseFrom' | 'removing'>,
    FieldsKeptIn<'release'> {
  readonly functions: readonly FunctionSpec[];
  readonly envSealed: string | null;
  readonly envDigest: string;
}

/** What a worker is started from: an endpoint at a build with its environment. */
export interface Release extends FieldsKeptIn<'release'> {
  readonly id: string;
  readonly endpoint: string;
  readonly buildDigest: string;
  readonly buildSize: number;
  readonly functions: readonly FunctionSpec[];
  /** Encrypted environment values; null when there are none. */
  readonly envSealed: string | null;
  /** SHA-256 of the plain environment, to see whether it changed. */
  readonly envDigest: string;
}

/** Counts of what happened to an endpoint's jobs and attempts. */
export interface Tallies {
  submitted: number;
  /** ttl ran out before the job had ended. */
  expired: number;
  /** Attempts whose handler was entered. */
  started: number;
  /** Attempts whose worker or node was gone. */
  lost: number;
  /** Attempts that an agent would not take. */
  refused: number;
}

/** How the starts of an endpoint's present release went. */
export interface Starts {
  /** Failed in a row. */
  failures: number;
  /** Of the last one, for people. */
  lastError: string;
  /** No further worker is asked for before this monotonic time where every place has failed. */
  retryAt: number;
  /** Nodes with failed starts in a row, and until when (monotonic) each is avoided. */
  readonly nodes: Map<string, { failures: number; avoidUntil: number }>;
}

export function newStarts(): Starts {
  return { failures: 0, lastError: '', retryAt: 0, nodes: new Map() };
}

/** What was decided. */
export type DecisionKind =
  /** A worker was asked for. */
  | 'ASK'
  /** A worker was asked to go. */
  | 'DRAIN'
  /** A worker was wanted, and no node could take it. */
  | 'NO_PLACE'
  /** Starts fail in a row: one worker goes on trying. */
  | 'CRASH_LOOP'
  /** A worker started after such failures. */
  | 'RECOVERED';

export interface ScalingDecision {
  /** Wall time, ms. */
  readonly at: number;
  readonly kind: DecisionKind;
  /** Empty where it is not about one worker, or one node. */
  readonly worker: string;
  readonly node: string;
  readonly reason: string;
}

/** Requests of a load-balanced endpoint at one gateway; never kept beyond the gateway's session. */
export interface RequestLevel {
  readonly held: number;
  readonly inFlight: number;
  /** Monotonic time since the first of those held waits. */
  readonly heldSince: number;
}

export interface EndpointRecord {
  config: EndpointConfig;
  readonly lanes: readonly [Lane, Lane];
  readonly workers: Set<string>;
  counts: { inProgress: number; inProgressLow: number; completed: number; failed: number; retried: number };
  /** What happened since this state was built, for metrics; nothing depends on it. */
  readonly tallies: Tallies;
  /** Why nodes did not take the last worker that was wanted; empty once one was placed. */
  rejections: readonly RejectionGroup[];
  /** Workers that are wanted and have no place, and the monotonic time since when. */
  unplaced: { count: number; since: number };
  /** How the starts of the present release went. */
  starts: Starts;
  /** Workers to have again after some went for another reason than the load; until a monotonic time. */
  replace: { readonly count: number; readonly until: number; readonly reason: string } | null;
  /** Monotonic time at which a job of normal priority was last seen waiting. */
  lastWaiting: number;
  /** Load-balanced: since when (monotonic) it has had more workers than REQUEST_COUNT wants; null when it has not. */
  surplusSince: number | null;
  /** The last decisions of the scaler, oldest first. */
  readonly decisions: ScalingDecision[];
  /** What callers used of the rate limits. */
  readonly usage: Map<LimitedOperation, Usage>;
  /** Load-balanced: its requests at each gateway, by the number of the gateway's session. */
  readonly requests: Map<number, RequestLevel>;
  /** A purge under way: ends every queued job at or below this position. */
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
    starts: newStarts(),
    replace: null,
    lastWaiting: 0,
    surplusSince: null,
    decisions: [],
    usage: new Map(),
    requests: new Map(),
    purge: null,
  };
}

/** Endpoints are unique by name within an account's environment. */
export function endpointNameKey(account: string, environment: string, name: string): string {
  return `${account}/${environment}/${name}`;
}
