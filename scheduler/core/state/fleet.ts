/** Nodes and workers in memory, and what is given out on them. */
import type { Inventory, WorkerStatus } from '../../../proto/gen/capstan/v1/nodes.ts';
import type { Deadline } from '../deadlines.ts';
import type { NodeFacts } from '../fleet/placement/node-facts.ts';
import type { RejectionGroup } from '../fleet/placement/rejections.ts';
import type { WorkerRuntime } from '../fleet/placement/runtime-choice.ts';
import type { Due } from './jobs.ts';

/** An attempt that holds a slot of a worker. */
export interface HeldAttempt {
  readonly job: string;
  readonly token: number;
}

/** Names one attempt: a job's id and the token of its lease. */
export function attemptKey(job: string, token: number): string {
  return `${job}#${token}`;
}

/** A worker that is desired, or that a node still reports. */
export interface WorkerRecord {
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
  /** Id of the master key its token is made with; empty for the first one. */
  readonly tokenKey: string;
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
  /** Attempts that the agent holds or was sent, by {@link attemptKey}: a retried job may hold a second slot while its last attempt still ends. */
  readonly attempts: Map<string, HeldAttempt>;
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

export interface NodeUsage {
  /** Set aside for the node's workers. */
  cpuMillis: number;
  memoryBytes: number;
  /** Device → the worker it was given to. */
  readonly devices: Map<string, string>;
  /** Workers by endpoint. */
  readonly endpoints: Map<string, number>;
  /** Devices of workers that the node runs although nobody wants them any more: not free before they are gone. */
  orphans: ReadonlySet<string>;
}

export function noUsage(): NodeUsage {
  return { cpuMillis: 0, memoryBytes: 0, devices: new Map(), endpoints: new Map(), orphans: new Set() };
}

export interface NodeRecord {
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
  /** Workers that it ran and that are gone, with their endpoints, oldest first; bounded. Their logs are still on the node. */
  readonly pastWorkers: Map<string, string>;
}

export function newNodeRecord(config: NodeConfig): NodeRecord {
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
    pastWorkers: new Map(),
  };
}

export interface Refusals {
  capacity: number;
  /** By what is needed. */
  readonly known: Map<string, readonly RejectionGroup[]>;
}

export function newRefusals(): Refusals {
  return { capacity: 0, known: new Map() };
}

/** A worker with a free slot, and its node's open session. */
export interface Slot {
  readonly worker: WorkerRecord;
  readonly node: NodeRecord;
  readonly session: number;
}
