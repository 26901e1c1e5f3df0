/**
 * The memory image the core works on: what is leased, a head window of every queue, waiters,
 * workers and control rows. It is rebuilt from the store at take-over and is changed by
 * `step` alone.
 */
import type { Device, FunctionSpec, Inventory, WorkerStatus } from '../../proto/gen/capstan/v1/nodes.ts';
import type { KeyScope } from '../../proto/gen/capstan/v1/control.ts';
import type { Body, ControlKind, HookHead, JobKind, Lease } from '../store/store.ts';

import { Deadlines, type Deadline } from './deadlines.ts';
import type { RandomState } from './random.ts';
import { defaultLimits, defaultRequestsPerWorker, type LimitedOperation, type Limits, type Usage } from './rate-limits.ts';
import type { Phase } from './transitions.ts';

/** Both clocks, ms. Wall for ttl and retention, never running backwards; mono for everything else. */
export interface Now {
  readonly wall: number;
  readonly mono: number;
}

/** Fixed figures of one scheduler; times in ms. */
export interface Settings {
  /** Defaults of SPEC.md, policy object. */
  readonly executionTimeoutMs: number;
  readonly ttlMs: number;
  readonly runRetentionMs: number;
  readonly runsyncRetentionMs: number;
  /** Charged attempts before a job ends FAILED. */
  readonly maxAttempts: number;
  /** Sum of workersMax an account may have (SPEC.md, Other limits). */
  readonly workerQuota: number;
  /** Agents send something at least this often. */
  readonly heartbeatMs: number;
  /** A session silent for this long is dead. */
  readonly silenceMs: number;
  /** How long the leases of a node without a session are kept. */
  readonly nodeGraceMs: number;
  /** How long a worker may take to become ready. */
  readonly startTimeoutMs: number;
  /** A start is recorded in the store when the job still runs after this time. */
  readonly recordStartAfterMs: number;
  /** Queued jobs kept in memory per endpoint and priority. */
  readonly windowSize: number;
  /** Bytes of unread chunks kept per job, and for all jobs together. */
  readonly streamBytes: number;
  readonly allStreamsBytes: number;
  /** Rate limits of an account's endpoints, where an endpoint has none of its own. */
  readonly limits: Limits;
  readonly requestsPerWorker: number;
  /** Webhooks sent at once: in all, and to one host. */
  readonly hooksOpen: number;
  readonly hooksPerHost: number;
}

export const defaultSettings: Settings = {
  executionTimeoutMs: 600_000,
  ttlMs: 86_400_000,
  runRetentionMs: 1_800_000,
  runsyncRetentionMs: 60_000,
  maxAttempts: 2,
  workerQuota: 30,
  heartbeatMs: 2_000,
  silenceMs: 10_000,
  nodeGraceMs: 15_000,
  startTimeoutMs: 900_000,
  recordStartAfterMs: 1_000,
  windowSize: 1_000,
  streamBytes: 16 * 1024 * 1024,
  allStreamsBytes: 128 * 1024 * 1024,
  limits: defaultLimits,
  requestsPerWorker: defaultRequestsPerWorker,
  hooksOpen: 256,
  hooksPerHost: 8,
};

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

/** Chunks of the present attempt that nobody has read. */
export interface StreamImage {
  /** Index of the chunk after the last one that came. */
  next: number;
  chunks: Body[];
  bytes: number;
}

/** A gateway request that waits for a job's end or its next chunk. */
export interface Waiter {
  readonly channel: number;
  readonly request: number;
  readonly endpoint: string;
  readonly job: string;
  readonly mode: 'job' | 'stream';
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
  readonly release: string;
}

/** What a worker is started from: an endpoint at a build with its environment. */
export interface Release {
  readonly id: string;
  readonly endpoint: string;
  readonly buildDigest: string;
  readonly buildSize: number;
  readonly runtime: string;
  readonly functions: readonly FunctionSpec[];
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
  /** Per-node rejections of the last placement that failed, for people. */
  rejections: readonly { readonly node: string; readonly reason: string }[];
  /** What callers used of the rate limits. */
  readonly usage: Map<LimitedOperation, Usage>;
  /** A purge under way: ends every queued job at or below this position. */
  purge: { upTo: number; removed: number; readonly calls: number[] } | null;
}

/** A worker that is desired, or that a node still reports. */
export interface WorkerImage {
  readonly id: string;
  readonly endpoint: string;
  readonly release: string;
  readonly node: string;
  readonly devices: readonly string[];
  readonly maxConcurrency: number;
  /** Why it was asked for, or asked to go. */
  decision: string;
  drain: boolean;
  /** Last report of the agent; null before the first. */
  status: WorkerStatus | null;
  /** Attempts the agent holds or was sent: `<job id>` → token. A slot is free when the agent says so. */
  readonly attempts: Map<string, number>;
  /** Grows with each use, for most-recently-used. */
  lastUsed: number;
  /** Monotonic time since it has had nothing to do. */
  idleSince: number;
  /** After a refusal: not used again before this monotonic time. */
  notBefore: number;
}

export interface NodeConfig {
  readonly id: string;
  readonly name: string;
  /** SHA-256 of the node's secret, hex. */
  readonly secretHash: string;
}

export interface NodeImage {
  config: NodeConfig;
  /** Number of the open session; null while there is none. */
  session: number | null;
  incarnation: string;
  lastHeard: number;
  inventory: Inventory | null;
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
  readonly endpoints: readonly string[];
  readonly name: string;
}

export interface AccountRow {
  /** Signing secret of the account's webhooks, encrypted; null before it was first wanted. */
  readonly webhookSecretSealed: string | null;
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
  /** Hashes of join tokens. */
  readonly joinTokens: Set<string>;
  /** Version of every control row, `<kind>/<key>`. */
  readonly versions: Map<string, number>;
  /** Waiters by job id. */
  readonly waiters: Map<string, Waiter[]>;
  /** Open requests by channel, for abandon and for a channel's end. */
  readonly channels: Map<number, Map<number, Waiter>>;
  readonly deadlines: Deadlines<Due>;
  /** Bytes of unread chunks. */
  streamBytes: number;
  /** Wall time at which the store is next asked for jobs due for deletion. */
  nextDeletion: number;
  /**
   * Reads of stored jobs under way, and which jobs ended, or were drained of their last chunks,
   * since the oldest of them was asked for: a row that was read may be out of date by then.
   */
  readonly reads: { open: number; readonly ended: Set<number>; readonly drained: Set<number> };
  /** A read of due jobs is under way. */
  readingDue: boolean;
  readonly hooks: HookDesk;
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
    usage: new Map(),
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
    joinTokens: new Set(),
    versions: new Map(),
    waiters: new Map(),
    channels: new Map(),
    deadlines: new Deadlines(),
    streamBytes: 0,
    nextDeletion: 0,
    reads: { open: 0, ended: new Set(), drained: new Set() },
    readingDue: false,
    hooks: { nextAt: 0, reading: false, backlog: false, open: new Map(), perHost: new Map(), failing: new Set() },
    settling: true,
    unsettled: new Set(),
    dirtyNodes: new Set(),
  };
}

/** Devices of a node that are healthy and not given to a worker. */
export function freeDevices(image: Image, node: NodeImage): Device[] {
  const taken = new Set<string>();
  for (const id of node.workers) for (const device of image.workers.get(id)?.devices ?? []) taken.add(device);
  return (node.inventory?.devices ?? []).filter((device) => device.healthy && !taken.has(device.uuid));
}

/** A read of stored jobs was asked for. */
export function readOpened(image: Image): void {
  image.reads.open++;
}

/** Its answer has been handled. */
export function readClosed(image: Image): void {
  image.reads.open--;
  if (image.reads.open > 0) return;
  image.reads.ended.clear();
  image.reads.drained.clear();
}
