/** Nodes and workers in memory, and the resources allocated on them. */
import type { WorkerRuntime } from '../../../lib/isolation.ts';
import type { Inventory, WorkerStatus } from '../../../proto/gen/capstan/v1/nodes.ts';
import type { Deadline } from './deadlines.ts';
import type { NodeFacts } from './node-facts.ts';
import type { RejectionGroup } from './rejections.ts';
import type { Due } from './jobs.ts';

/** An attempt that holds a slot of a worker. */
export interface HeldAttempt {
  readonly job: string;
  readonly token: number;
  /** It has the worker to itself. */
  readonly isApart: boolean;
  /** Monotonic time since which it is held. */
  readonly since: number;
  /** The agent was told to return it if its handler was not entered. */
  isRecalled: boolean;
}

/** Returns the key of an attempt: a job's id and the token of its lease. */
export function attemptKey(job: string, token: number): string {
  return `${job}#${token}`;
}

/** The time that a worker was wanted before it was placed, and its phases from then on, ms. */
export interface StartPhases {
  readonly runtime: string;
  readonly placedMs: number;
  readonly artifactMs: number;
  readonly startedMs: number;
  readonly loadedMs: number;
}

/** A worker's start, with the wall time at which it became ready. */
export interface WorkerStartFacts extends StartPhases {
  readonly readyAt: number;
}

/** A worker that is desired, or that a node still reports. */
export interface WorkerRecord {
  readonly id: string;
  readonly endpoint: string;
  readonly release: string;
  readonly node: string;
  readonly devices: readonly string[];
  readonly runtime: WorkerRuntime;
  /** Reserved for it on its node. */
  readonly cpuMillis: number;
  readonly memoryBytes: number;
  readonly maxConcurrency: number;
  /** Why it was requested or told to drain. */
  decision: string;
  drain: boolean;
  /** Id of the master key that its token is made with; empty for the first one. */
  readonly tokenKey: string;
  /** Last report of the agent; null before the first. */
  status: WorkerStatus | null;
  /** It was ready, and has not failed since. */
  ready: boolean;
  /** Failed starts that the agent reported. */
  failuresSeen: number;
  /** Monotonic time at which it was requested. */
  readonly askedAt: number;
  /** Time for which it was wanted before a place was found, ms; null once reported, or if unknown. */
  placedMs: number | null;
  /** Its last start, if this scheduler requested it, until it gets its first job; else null. */
  start: WorkerStartFacts | null;
  /**
   * Attempts that the agent holds or was sent, by {@link attemptKey}: a retried job may hold a second slot while its
   * last attempt is still ending.
   */
  readonly attempts: Map<string, HeldAttempt>;
  /** Increases with each use, for most-recently-used. */
  lastUsed: number;
  /** Monotonic time since which it is idle. */
  idleSince: number;
  /** After a refusal: not used before this monotonic time. */
  notBefore: number;
  /** Monotonic time since which it is ready, or since which it drains. */
  readySince: number;
  drainingSince: number;
  /** The endpoint that has claimed its place (preemption.ts): it gets no more jobs, and drains once it is idle. */
  yieldsTo: string | null;
}

/** Room that workers leave for an endpoint: no other endpoint may use it. */
export interface Claim {
  readonly endpoint: string;
  readonly node: string;
  readonly devices: readonly string[];
  readonly cpuMillis: number;
  readonly memoryBytes: number;
  /** Workers that leave it. */
  readonly workers: readonly string[];
}

export interface NodeConfig {
  readonly id: string;
  readonly name: string;
  /** SHA-256 of the node's secret, hex. */
  readonly secretHash: string;
  /** Receives no new workers. */
  readonly draining: boolean;
}

/** The record of a removed node. */
export interface RemovedNode extends NodeConfig {
  /** Wall time, ms. */
  readonly removedAt: number;
}

/** What a node leaves behind in the cell that it was moved from. */
export interface MovedNode extends NodeConfig {
  /** Name of the cell that it was moved to. */
  readonly movedTo: string;
}

export interface JoinTokenRow {
  readonly name: string;
  /** Wall times, ms; 0 if unknown. */
  readonly createdAt: number;
  /** Null for never. */
  readonly expiresAt: number | null;
  /** Limit for nodes that join with it; null for no limit. */
  readonly maxUses: number | null;
  readonly uses: number;
  readonly revoked: boolean;
  /** The token in the data folder: its row stays when it is used up. */
  readonly isOfFolder?: true;
}

export interface NodeUsage {
  /** Reserved for the node's workers. */
  cpuMillis: number;
  memoryBytes: number;
  /** The worker that holds each device. */
  readonly devices: Map<string, string>;
  /** Number of workers by endpoint. */
  readonly endpoints: Map<string, number>;
  /**
   * Devices of workers that the node still runs although they are no longer desired: not free until the workers are
   * gone.
   */
  orphans: ReadonlySet<string>;
}

export function noUsage(): NodeUsage {
  return { cpuMillis: 0, memoryBytes: 0, devices: new Map(), endpoints: new Map(), orphans: new Set() };
}

export interface NodeRecord {
  config: NodeConfig;
  /** Number of the open session; null if there is none. */
  session: number | null;
  incarnation: string;
  /** Of the agent's package; empty until it connects. */
  agentVersion: string;
  lastHeard: number;
  inventory: Inventory | null;
  /** The part of its inventory that placement reads. */
  facts: NodeFacts | null;
  /** Resources allocated on it. */
  readonly usage: NodeUsage;
  /** Room on it that workers leave for an endpoint. */
  claims: readonly Claim[];
  silence: Deadline<Due> | null;
  /** Without a session: when its leases are given up. */
  grace: Deadline<Due> | null;
  /** Whether it has reported since this scheduler started. */
  reported: boolean;
  epoch: number;
  readonly workers: Set<string>;
  /** Past workers of the node with their endpoints, oldest first; bounded. Their logs are still on the node. */
  readonly pastWorkers: Map<string, string>;
}

export function newNodeRecord(config: NodeConfig): NodeRecord {
  return {
    config,
    session: null,
    incarnation: '',
    agentVersion: '',
    lastHeard: 0,
    inventory: null,
    facts: null,
    usage: noUsage(),
    claims: [],
    silence: null,
    grace: null,
    reported: false,
    epoch: 0,
    workers: new Set(),
    pastWorkers: new Map(),
  };
}

export interface Refusals {
  capacityVersion: number;
  /** By the needs of a worker. */
  readonly known: Map<string, readonly RejectionGroup[]>;
}

export function newRefusals(): Refusals {
  return { capacityVersion: 0, known: new Map() };
}

/** A worker with a free slot, and its node's open session. */
export interface Slot {
  readonly worker: WorkerRecord;
  readonly node: NodeRecord;
  readonly session: number;
}
