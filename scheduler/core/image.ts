/**
 * The memory image the core works on: what is leased, a head window of every queue, waiters,
 * workers and control rows. It is rebuilt from the store at take-over and is changed by
 * `step` alone.
 */
import type { FunctionSpec, Inventory, WorkerStatus } from '../../proto/gen/capstan/v1/nodes.ts';
import type { KeyScope } from '../../proto/gen/capstan/v1/control.ts';
import type { Body, ControlKind, HookHead, JobKind, Lease } from '../store/store.ts';

import { newStarts, type Starts } from './crash-loops.ts';
import { Deadlines, type Deadline } from './deadlines.ts';
import type { Cursor } from './events.ts';
import type { ScalingDecision } from './decisions.ts';
import type { NodeFacts } from './placement/node-facts.ts';
import { noUsage, type NodeUsage } from './placement/node-usage.ts';
import { noRefusals, type Refusals } from './placement/refusals.ts';
import type { RejectionGroup } from './placement/rejections.ts';
import type { WorkerRuntime } from './placement/runtime-choice.ts';
import type { RandomState } from './random.ts';
import type { LimitedOperation, Limits, Usage } from './rate-limits.ts';
import type { Settings } from './settings.ts';
import type { Phase } from './transitions.ts';

/** Both clocks, ms. Wall for ttl and retention, never running backwards; mono for everything else. */
export interface Now {
  readonly wall: number;
  readonly mono: number;
}

/** A job that is leased or in a head window. */
export interface JobImage {
  readonly no: number;
  readonly id: string;
  readonly endpoint: string;
  readonly kind: JobKind;
  readonly priority: 0 | 1;
  readonly executionTimeoutMs: number;
  readonly ttlMs: number;
  readonly retentionMs: number;
  readonly webhook: string | null;
  readonly hasS3: boolean;
  phase: Phase;
  position: number;
  token: number;
  attempts: number;
  submittedAt: number;
  deleteAt: number;
  lease: Lease | null;
  /** Wall time the present attempt was entered, null before. */
  startedAt: number | null;
  /** The start is in the store. */
  startRecorded: boolean;
  recordStart: Deadline<Due> | null;
  /** Worker of the present or last attempt. */
  worker: string | null;
  progress: Body | null;
  stream: StreamImage | null;
}

/** Chunks of the present attempt that no reader is known to have, without a gap. */
export interface StreamImage {
  /** Index of the first kept chunk. */
  first: number;
  /** Index of the chunk after the last one that came. */
  next: number;
  chunks: Body[];
  bytes: number;
}

/** Chunks that were answered last, and that nobody has said to have received yet. */
export interface HandedChunks {
  readonly channel: number;
  readonly token: number;
  /** Index after the last of them. */
  readonly next: number;
}

/** A gateway request that waits for a job's end or its next chunk. */
export interface Waiter {
  readonly channel: number;
  readonly request: number;
  readonly endpoint: string;
  readonly job: string;
  readonly mode: 'job' | 'stream';
  /** Mode stream: what the reader has. */
  readonly after: Cursor | null;
  /** It was asked before on another channel, whose answers may be lost. */
  readonly resent: boolean;
  /** When it is answered as things stand then; null for one that only awaits a read. */
  deadline: Deadline<Due> | null;
  /** What the request counts towards until it is answered. */
  readonly usage: Usage | null;
  /** Answer with the present state as soon as it is read. */
  immediate: boolean;
  done: boolean;
}

/** One priority of one endpoint's queue. */
export interface Lane {
  /** Queued jobs in order of position; entries whose phase is not QUEUED any more are skipped. */
  window: JobImage[];
  /** Index of the first entry of `window` that was not consumed. */
  head: number;
  /** The window holds every queued job at or below this position; Infinity when it holds all. */
  covered: number;
  /** Queued jobs in all. */
  count: number;
  /** A refill is being read; what changed since it was asked for. */
  refill: { added: boolean; removed: Set<number> } | null;
}

/** An endpoint's settings, as in its control row. */
export interface EndpointConfig {
  readonly id: string;
  readonly account: string;
  readonly environment: string;
  readonly name: string;
  readonly kind: 'QUEUE' | 'LOAD_BALANCED';
  readonly imageName: string;
  readonly workersMin: number;
  readonly workersMax: number;
  readonly idleTimeoutS: number;
  readonly gpuIds: string;
  readonly gpuCount: number;
  readonly cpu: string;
  readonly maxConcurrency: number;
  /** 0: the service's default. */
  readonly executionTimeoutMs: number;
  readonly scalerType: 'QUEUE_DELAY' | 'REQUEST_COUNT';
  readonly scalerValue: number;
  /** 0: the service's default. */
  readonly maxAttempts: number;
  readonly routes: Readonly<Record<string, string>>;
  /** Rate limits that differ from the account's. */
  readonly limits: Partial<Limits>;
  readonly requestsPerWorker: number | null;
  /** Load-balanced: callers need no key. Absent in rows of before. */
  readonly isPublic?: boolean;
  readonly release: string;
  /** The release before, whose workers may finish the jobs that were queued before this one (rollout.ts); null when there was none. */
  readonly previousRelease: string | null;
  /** Jobs at this position of the queue and after it run on the present release. */
  readonly releaseFrom: number;
  /** It is being deleted: takes no calls, and goes once its last job and worker are gone. */
  readonly removing?: { readonly stopJobs: boolean };
}

/** What a worker is started from: an endpoint at a build with its environment. */
export interface Release {
  readonly id: string;
  readonly endpoint: string;
  readonly buildDigest: string;
  readonly buildSize: number;
  /** Forced by the endpoint; empty where each node's best one serves. */
  readonly runtime: string;
  readonly functions: readonly FunctionSpec[];
  /** As the endpoint names it; empty for the default base image. */
  readonly imageName: string;
  /** Of a foreign worker. */
  readonly command: readonly string[];
  /** Packages that the build left out because the base image has them. */
  readonly packages: readonly string[];
  readonly gpuIds: string;
  readonly gpuCount: number;
  /** Selection of a CPU worker; empty for the smallest. */
  readonly cpu: string;
  /** Encrypted environment values; null when there are none. */
  readonly envSealed: string | null;
  /** SHA-256 of the plain environment, to see whether it changed. */
  readonly envDigest: string;
  readonly maxConcurrency: number;
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

export interface EndpointImage {
  config: EndpointConfig;
  readonly lanes: readonly [Lane, Lane];
  readonly workers: Set<string>;
  counts: { inProgress: number; inProgressLow: number; completed: number; failed: number; retried: number };
  /** What happened since this image was built, for metrics; nothing depends on it. */
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
  /** The last decisions of the scaler, oldest first. */
  readonly decisions: ScalingDecision[];
  /** What callers used of the rate limits. */
  readonly usage: Map<LimitedOperation, Usage>;
  /** Load-balanced: its requests at each gateway, by the number of the gateway's session. */
  readonly requests: Map<number, RequestLevel>;
  /** A purge under way: ends every queued job at or below this position. */
  purge: { upTo: number; removed: number; error: string; readonly calls: number[] } | null;
}

/** Requests of a load-balanced endpoint at one gateway; never kept beyond the gateway's session. */
export interface RequestLevel {
  readonly held: number;
  readonly inFlight: number;
  /** Monotonic time since the first of those held waits. */
  readonly heldSince: number;
}

/** A worker that is desired, or that a node still reports. */
export interface WorkerImage {
  readonly id: string;
  readonly endpoint: string;
  readonly release: string;
  readonly node: string;
  readonly devices: readonly string[];
  readonly runtime: WorkerRuntime;
  /** Set aside for it on its node. */
  readonly cpuMillis: number;
  readonly memoryBytes: number;
  readonly maxConcurrency: number;
  /** Why it was asked for, or asked to go. */
  decision: string;
  drain: boolean;
  /** Last report of the agent; null before the first. */
  status: WorkerStatus | null;
  /** It served, and has not failed since. */
  ready: boolean;
  /** Failed starts that the agent told of. */
  failuresSeen: number;
  /** Monotonic time it was asked for. */
  readonly askedAt: number;
  /** How long it was wanted before a place was found, ms; null once it was told, or when it is not known. */
  placedMs: number | null;
  /** Attempts the agent holds or was sent: `<job id>` → token. A slot is free when the agent says so. */
  readonly attempts: Map<string, number>;
  /** Grows with each use, for most-recently-used. */
  lastUsed: number;
  /** Monotonic time since it has had nothing to do. */
  idleSince: number;
  /** After a refusal: not used again before this monotonic time. */
  notBefore: number;
}

/** One resource of a manifest, validated, its environment already encrypted. */
export interface EndpointInput extends Omit<
  EndpointConfig,
  'id' | 'account' | 'environment' | 'release' | 'previousRelease' | 'releaseFrom' | 'removing'
> {
  readonly functions: readonly FunctionSpec[];
  readonly command: readonly string[];
  readonly packages: readonly string[];
  readonly runtime: string;
  readonly envSealed: string | null;
  readonly envDigest: string;
}

export interface NodeConfig {
  readonly id: string;
  readonly name: string;
  /** SHA-256 of the node's secret, hex. */
  readonly secretHash: string;
  /** Out of use: it gets no worker. */
  readonly draining: boolean;
}

/** What is left of a node that was removed. */
export interface RemovedNode extends NodeConfig {
  /** Wall time, ms. */
  readonly removedAt: number;
}

export interface JoinTokenRow {
  readonly name: string;
  /** Wall times, ms; 0 where it is not known. */
  readonly createdAt: number;
  /** Null for never. */
  readonly expiresAt: number | null;
  /** Nodes that may join with it; null for any number. */
  readonly maxUses: number | null;
  readonly uses: number;
  readonly revoked: boolean;
}

export interface NodeImage {
  config: NodeConfig;
  /** Number of the open session; null while there is none. */
  session: number | null;
  incarnation: string;
  lastHeard: number;
  inventory: Inventory | null;
  /** What placement looks at of it. */
  facts: NodeFacts | null;
  /** What is given out on it. */
  readonly usage: NodeUsage;
  silence: Deadline<Due> | null;
  /** While there is no session: when its leases are given up. */
  grace: Deadline<Due> | null;
  /** Whether it reported since this scheduler started. */
  reported: boolean;
  epoch: number;
  readonly workers: Set<string>;
}

export interface KeyRow {
  /** SHA-256 of the key, hex. */
  readonly hash: string;
  readonly account: string;
  readonly scope: KeyScope;
  /** With the scope ENDPOINTS: their ids. */
  readonly endpoints: readonly string[];
  /** With the scope ENVIRONMENT: its name; else empty. */
  readonly environment: string;
  readonly name: string;
  /** The first letters of its text, for people. */
  readonly prefix: string;
  /** Wall clock, ms; 0 when it was made before this was kept. */
  readonly createdAt: number;
  readonly expiresAt: number | null;
  /** To within an hour; null before it was first noted. */
  readonly usedAt: number | null;
}

export interface AccountRow {
  /** Signing secret of the account's webhooks, encrypted; null before it was first wanted. */
  readonly webhookSecretSealed: string | null;
  /** The one before it, and until when it still signs, wall clock ms; absent when there was none. */
  readonly previousWebhookSecret?: { readonly sealed: string; readonly until: number };
  /** Null: the service's default. */
  readonly workerQuota: number | null;
  /** Wall clock, ms; 0 when it was made before this was kept. */
  readonly createdAt: number;
}

export interface EnvironmentRow {
  readonly account: string;
  readonly name: string;
  /** Wall clock, ms; 0 when it was made before this was kept. */
  readonly createdAt: number;
  /** Number of its newest deployment, 0 before the first. */
  readonly deployments: number;
}

/** What a deployment gave an endpoint: enough to deploy it once more. */
export interface DeployedInput {
  readonly id: string;
  readonly build: string;
  readonly input: EndpointInput;
}

export interface DeploymentRow {
  readonly account: string;
  readonly environment: string;
  /** 1, 2, 3, … in its environment. */
  readonly number: number;
  /** Wall clock, ms. */
  readonly at: number;
  readonly cause: 'DEPLOY' | 'ROLLBACK';
  readonly endpoints: readonly DeployedInput[];
}

/** Webhooks that are being sent. */
export interface HookDesk {
  /** Wall time of the next look at due deliveries. */
  nextAt: number;
  /** A look is under way. */
  reading: boolean;
  /** The last look may have left due deliveries for want of room: look again when there is some. */
  backlog: boolean;
  readonly open: Map<string, HookHead>;
  /** How many of them go to a host. */
  readonly perHost: Map<string, number>;
  /** Hosts whose last try failed. */
  readonly failing: Set<string>;
}

export interface BuildRow {
  readonly digest: string;
  readonly size: number;
  readonly createdAt: number;
}

/** What a deadline is about. */
export type Due =
  | { readonly due: 'waiter'; readonly waiter: Waiter }
  | { readonly due: 'record-start'; readonly job: JobImage; readonly token: number }
  | { readonly due: 'silence'; readonly node: string }
  | { readonly due: 'grace'; readonly node: string }
  | { readonly due: 'scale' }
  | { readonly due: 'key-expiry'; readonly hash: string }
  | { readonly due: 'refill'; readonly endpoint: string };

export interface Image {
  readonly settings: Settings;
  readonly random: RandomState;
  nextNo: number;
  nextPosition: number;
  nextUse: number;
  /** Leased and windowed jobs by id. */
  readonly jobs: Map<string, JobImage>;
  readonly endpoints: Map<string, EndpointImage>;
  readonly endpointsByName: Map<string, string>;
  readonly releases: Map<string, Release>;
  readonly nodes: Map<string, NodeImage>;
  readonly workers: Map<string, WorkerImage>;
  readonly keys: Map<string, KeyRow>;
  readonly accounts: Map<string, AccountRow>;
  readonly builds: Map<string, BuildRow>;
  /** By {@link environmentKey}. */
  readonly environments: Map<string, EnvironmentRow>;
  /** Those kept, oldest first, by {@link environmentKey}. */
  readonly deployments: Map<string, DeploymentRow[]>;
  readonly removedNodes: Map<string, RemovedNode>;
  /** By the hash of the token, hex. */
  readonly joinTokens: Map<string, JoinTokenRow>;
  /** Version of every control row, `<kind>/<key>`. */
  readonly versions: Map<string, number>;
  /** Waiters by job id. */
  readonly waiters: Map<string, Waiter[]>;
  /** Open requests by channel, for abandon and for a channel's end. */
  readonly channels: Map<number, Map<number, Waiter>>;
  readonly deadlines: Deadlines<Due>;
  /** Bytes of kept chunks. */
  streamBytes: number;
  /** By job id, oldest first; bounded, and gone with the channel. */
  readonly handed: Map<string, HandedChunks>;
  /** Wall time at which the store is next asked for jobs due for deletion. */
  nextDeletion: number;
  /**
   * Reads of stored jobs under way, and which jobs ended since the oldest of them was asked for: a
   * row that was read may be out of date by then.
   */
  readonly reads: { open: number; readonly ended: Set<number> };
  /** A read of due jobs is under way. */
  readingDue: boolean;
  readonly hooks: HookDesk;
  /** Grows whenever a worker may find a place that it did not find before. */
  capacity: number;
  readonly refusals: Refusals;
  /** Until nodes have reported after a start, nothing is redispatched or scaled. */
  settling: boolean;
  /** Endpoints whose scaling inputs changed in this step. */
  readonly unsettled: Set<string>;
  /** Nodes whose desired set changed in this step. */
  readonly dirtyNodes: Set<string>;
}

/** Key of the row that stands behind a part of the image. */
export function rowKey(kind: ControlKind, key: string): string {
  return `${kind}/${key}`;
}

/** Endpoints are unique by name within an account's environment. */
export function endpointNameKey(account: string, environment: string, name: string): string {
  return `${account}/${environment}/${name}`;
}

export function environmentKey(account: string, environment: string): string {
  return `${account}/${environment}`;
}

/** The endpoints of an account that are not being deleted. */
export function liveEndpoints(image: Image, account: string): EndpointImage[] {
  return [...image.endpoints.values()].filter(({ config }) => config.account === account && config.removing === undefined);
}

export function emptyLane(complete: boolean): Lane {
  return { window: [], head: 0, covered: complete ? Number.POSITIVE_INFINITY : -1, count: 0, refill: null };
}

export function newEndpoint(config: EndpointConfig): EndpointImage {
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
    decisions: [],
    usage: new Map(),
    requests: new Map(),
    purge: null,
  };
}

export function newNode(config: NodeConfig): NodeImage {
  return {
    config,
    session: null,
    incarnation: '',
    lastHeard: 0,
    inventory: null,
    facts: null,
    usage: noUsage(),
    silence: null,
    grace: null,
    reported: false,
    epoch: 0,
    workers: new Set(),
  };
}

export function newImage(settings: Settings, random: RandomState): Image {
  return {
    settings,
    random,
    nextNo: 1,
    nextPosition: 1,
    nextUse: 1,
    jobs: new Map(),
    endpoints: new Map(),
    endpointsByName: new Map(),
    releases: new Map(),
    nodes: new Map(),
    workers: new Map(),
    keys: new Map(),
    accounts: new Map(),
    builds: new Map(),
    environments: new Map(),
    deployments: new Map(),
    removedNodes: new Map(),
    joinTokens: new Map(),
    versions: new Map(),
    waiters: new Map(),
    channels: new Map(),
    deadlines: new Deadlines(),
    streamBytes: 0,
    nextDeletion: 0,
    handed: new Map(),
    reads: { open: 0, ended: new Set() },
    readingDue: false,
    hooks: { nextAt: 0, reading: false, backlog: false, open: new Map(), perHost: new Map(), failing: new Set() },
    capacity: 0,
    refusals: noRefusals(),
    settling: true,
    unsettled: new Set(),
    dirtyNodes: new Set(),
  };
}

/** A read of stored jobs was asked for. */
export function readOpened(image: Image): void {
  image.reads.open++;
}

/** Its answer has been handled. */
export function readClosed(image: Image): void {
  image.reads.open--;
  if (image.reads.open === 0) image.reads.ended.clear();
}
