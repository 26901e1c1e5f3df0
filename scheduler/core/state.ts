/**
 * The core's state: leased jobs, a head window of every queue, waiters, workers and control rows. It is rebuilt from
 * the store at take-over, and only `step` changes it.
 */
import { invariant } from '../../lib/invariant.ts';
import type { Rate } from '../../lib/rate.ts';
import type { CapstanError } from '../../lib/errors.ts';
import type { Payload } from '../../lib/payload.ts';
import type { LastEntry } from './audit.ts';
import type { AuditPosition, DeliveryHead } from './ports/store.ts';

import { Deadlines } from './state/deadlines.ts';
import type {
  AccountRow,
  AlertChannelRow,
  BodyUse,
  BuildRow,
  BuildUse,
  DeploymentRow,
  EnvironmentRow,
  KeyRow,
  MasterKeyRow,
  SecretRow,
} from './state/control-rows.ts';
import type { EndpointRecord, Release } from './state/endpoints.ts';
import {
  newRefusals,
  type JoinTokenRow,
  type MovedNode,
  type NodeRecord,
  type Refusals,
  type RemovedNode,
  type WorkerRecord,
} from './state/fleet.ts';
import type { Due, HandedChunks, JobRecord, Waiter } from './state/jobs.ts';
import type { Usage } from './state/rate-limits.ts';
import type { RandomState } from './random.ts';
import type { Settings } from './settings.ts';

/** Webhooks that are being sent. */
export interface WebhookDispatcherState {
  /** Wall time of the next check for due deliveries. */
  nextAt: number;
  /** A check is in progress. */
  reading: boolean;
  /** The last check may have left due deliveries for lack of free connections: check again when one is free. */
  backlog: boolean;
  readonly open: Map<string, DeliveryHead>;
  /** Number of deliveries in progress per host. */
  readonly perHost: Map<string, number>;
  /** Hosts whose last delivery failed. */
  readonly failing: Set<string>;
  /** Monotonic time up to which the tries at failing hosts are used up (pace.ts). */
  pacedUntil: number;
  /** Monotonic time until which more hosts fail than are remembered. */
  crowdedUntil: number;
  /** Monotonic time of the last read of due deliveries. */
  readAt: number;
  /** Failures by host since the last warning of each (warnings.ts). */
  readonly warnings: Map<string, WebhookFailures>;
}

/** Failed tries since a warning. */
export interface WebhookFailures {
  failed: number;
  /** Deliveries of them without tries left. */
  exhausted: number;
  /** The last one's. */
  error: string | null;
}

export interface State {
  readonly settings: Settings;
  readonly random: RandomState;
  /** Of the audit log. */
  readonly lastEntry: LastEntry;
  nextSeq: number;
  nextQueuePosition: number;
  nextUse: number;
  /** Leased and windowed jobs by id. */
  readonly jobs: Map<string, JobRecord>;
  readonly endpoints: Map<string, EndpointRecord>;
  readonly endpointsByName: Map<string, string>;
  readonly releases: Map<string, Release>;
  readonly nodes: Map<string, NodeRecord>;
  readonly workers: Map<string, WorkerRecord>;
  readonly keys: Map<string, KeyRow>;
  readonly accounts: Map<string, AccountRow>;
  /** By {@link secretKey}. */
  readonly secrets: Map<string, SecretRow>;
  /** By {@link alertChannelKey}. */
  readonly alertChannels: Map<string, AlertChannelRow>;
  readonly builds: Map<string, BuildRow>;
  /** By account; accounts without builds are left out. */
  readonly buildUse: Map<string, BuildUse>;
  /** Bytes of bodies above the inline size, by account. */
  readonly bodyUse: Map<string, BodyUse>;
  /** By {@link environmentKey}. */
  readonly environments: Map<string, EnvironmentRow>;
  /** Kept deployments, oldest first, by {@link environmentKey}. */
  readonly deployments: Map<string, DeploymentRow[]>;
  readonly removedNodes: Map<string, RemovedNode>;
  /** Nodes that were moved to another cell. */
  readonly movedNodes: Map<string, MovedNode>;
  /** Null until it is first recorded. */
  masterKey: MasterKeyRow | null;
  /** Up to where the audit log was exported; null until it is first recorded. */
  auditExport: AuditPosition | null;
  /** By the hash of the token, hex. */
  readonly joinTokens: Map<string, JoinTokenRow>;
  /** How fast nodes join with each token; not stored. */
  readonly joinRates: Map<string, Rate>;
  /** Version of every control row, by `<kind>/<key>`. */
  readonly versions: Map<string, number>;
  /** Waiters by job id. */
  readonly waiters: Map<string, Waiter[]>;
  /** Open requests by channel, for abandon and for a channel's end. */
  readonly channels: Map<number, Map<number, Waiter>>;
  /** The usage that each open unary call counts towards, by ticket. */
  readonly openCalls: Map<number, Usage>;
  readonly deadlines: Deadlines<Due>;
  /** Bytes of kept chunks. */
  streamBytes: number;
  /** Blobs of bodies that this step dropped and that no row names. */
  readonly droppedBlobs: string[];
  /** By job id, oldest first; bounded, and removed with the channel. */
  readonly handed: Map<string, HandedChunks>;
  /** Refusals of jobs whose input agents did not find, and the time of the first, ms of the monotonic clock; by job id, bounded. */
  readonly missingInputs: Map<string, { readonly count: number; readonly since: number }>;
  /** Wall time of the next query for jobs due for deletion. */
  nextDeletion: number;
  /**
   * Open reads of stored jobs by number, oldest first, and the jobs that ended since the oldest of them was requested:
   * such a job's row in a read may be outdated. For each such job, the number of the first read that was requested
   * after its end; when no earlier read is open, the entry is removed.
   */
  readonly reads: { next: number; readonly open: Set<number>; readonly ended: Map<number, number>; due: number };
  /** Why no new jobs are accepted: the disk is almost full. */
  diskRefusal: CapstanError | null;
  /** A read of due jobs is in progress. */
  readingDue: boolean;
  readonly deliveries: WebhookDispatcherState;
  /** Incremented whenever a worker may find a place that it did not find before. */
  capacityVersion: number;
  /** A check of the endpoints without a place is due, because there may be room. */
  unplacedRetryDue: boolean;
  readonly refusals: Refusals;
  /** After a start nothing is redispatched or scaled until nodes have reported. */
  recovering: boolean;
  /** Endpoints whose scaling inputs changed in this step. */
  readonly dirtyEndpoints: Set<string>;
  /** Nodes whose desired set changed in this step. */
  readonly dirtyNodes: Set<string>;
  /** Ids of each node's placed workers as last sent to gateways; no entry for a node without any. */
  readonly toldPlacements: Map<string, string>;
}

export function newState(settings: Settings, random: RandomState): State {
  return {
    settings,
    random,
    lastEntry: { at: 0, number: 0 },
    nextSeq: 1,
    nextQueuePosition: 1,
    nextUse: 1,
    jobs: new Map(),
    endpoints: new Map(),
    endpointsByName: new Map(),
    releases: new Map(),
    nodes: new Map(),
    workers: new Map(),
    keys: new Map(),
    accounts: new Map(),
    secrets: new Map(),
    alertChannels: new Map(),
    builds: new Map(),
    buildUse: new Map(),
    bodyUse: new Map(),
    environments: new Map(),
    deployments: new Map(),
    removedNodes: new Map(),
    movedNodes: new Map(),
    masterKey: null,
    auditExport: null,
    joinTokens: new Map(),
    joinRates: new Map(),
    versions: new Map(),
    waiters: new Map(),
    channels: new Map(),
    openCalls: new Map(),
    deadlines: new Deadlines(),
    streamBytes: 0,
    droppedBlobs: [],
    nextDeletion: 0,
    handed: new Map(),
    missingInputs: new Map(),
    reads: { next: 1, open: new Set(), ended: new Map(), due: 0 },
    diskRefusal: null,
    readingDue: false,
    deliveries: {
      nextAt: 0,
      reading: false,
      backlog: false,
      open: new Map(),
      perHost: new Map(),
      failing: new Set(),
      pacedUntil: 0,
      crowdedUntil: 0,
      readAt: 0,
      warnings: new Map(),
    },
    capacityVersion: 0,
    unplacedRetryDue: false,
    refusals: newRefusals(),
    recovering: true,
    dirtyEndpoints: new Set(),
    dirtyNodes: new Set(),
    toldPlacements: new Map(),
  };
}

/** Drops a body that is not needed and that no row names. */
export function dropBody(state: State, body: Payload | null): void {
  if (body !== null && 'blob' in body) state.droppedBlobs.push(body.blob.id);
}

/** Returns the endpoints of an account that are not being deleted. */
export function liveEndpoints(state: State, account: string): EndpointRecord[] {
  return [...state.endpoints.values()].filter(({ config }) => config.account === account && config.removing === undefined);
}

/** Records that a read of stored jobs is requested. Returns its number. */
export function readOpened({ reads }: State): number {
  const read = reads.next++;
  reads.open.add(read);
  return read;
}

/** Records that a job has ended or was deleted: the results of open reads may be outdated for it. */
export function noteEnded({ reads }: State, seq: number): void {
  if (reads.open.size === 0) return;
  reads.ended.delete(seq);
  reads.ended.set(seq, reads.next);
}

/** Records that the result of a read was handled. */
export function readClosed({ reads }: State, read: number): void {
  const wasOpen = reads.open.delete(read);
  invariant(wasOpen, 'a read that returns is open', { read });
  const [oldest = reads.next] = reads.open;
  for (const [seq, firstAfter] of reads.ended) {
    if (firstAfter > oldest) return;
    reads.ended.delete(seq);
  }
}
