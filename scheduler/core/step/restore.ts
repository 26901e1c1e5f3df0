/** Take-over: builds the state from the store, before any event. */
import { DEFAULT_FIELDS, fieldsKeptIn } from '../../../lib/endpoint-settings.ts';
import type { CapstanError } from '../../../lib/errors.ts';
import type { AuditPosition, BodyUsage, ControlRow, EndpointCounts, JobRow } from '../ports/store.ts';

import { StepContext } from '../context.ts';
import { adoptBuilds, BUILD_SWEEP_MS } from '../control/builds.ts';
import type { StepResult } from '../effects.ts';
import { type State, newState } from '../state.ts';
import {
  type AccountRow,
  type BuildRow,
  type DeploymentRow,
  environmentKey,
  type EnvironmentRow,
  type KeyRow,
  type MasterKeyRow,
  rowKey,
  type AlertChannelRow,
  type SecretRow,
} from '../state/control-rows.ts';
import { type EndpointConfig, endpointNameKey, newEndpointRecord, type Release } from '../state/endpoints.ts';
import { attemptKey, type JoinTokenRow, newNodeRecord, type NodeConfig } from '../state/fleet.ts';
import { heldAttempt } from '../jobs/jobs.ts';
import { emptyLane } from '../state/jobs.ts';
import type { Now } from '../now.ts';
import type { Settings } from '../settings.ts';
import { fromRow } from '../jobs/job-records.ts';
import { awaitExpiry, keyDefaults } from '../control/keys.ts';
import { fill } from '../jobs/dispatch.ts';
import { AUDIT_EXPORT_SETTING } from '../control/audit-export.ts';
import { MASTER_KEY_SETTING } from '../control/encryption.ts';
import type { RandomState } from '../random.ts';
import { awaitNode, finishRecoveryIfReported } from '../fleet/sessions.ts';
import { SCALE_INTERVAL_MS } from '../scaling/scaling.ts';
import { changedPlacements } from '../fleet/placement/placed-workers.ts';
import { workerReserve } from '../fleet/placement/cpu-size.ts';
import { addWorker, initialWorkerState, notePast, type DesiredRow, type DesiredWorker } from '../fleet/workers.ts';

/** A row that an earlier version may have written without some fields. */
type Stored<Row, Newer extends keyof Row> = Omit<Row, Newer> & Partial<Pick<Row, Newer>>;

/** Rows of earlier versions have no past workers. */
type StoredDesired = Stored<DesiredRow, 'past'>;

/** A node, or what is kept of one that was removed or moved. */
type StoredNode = Stored<NodeConfig, 'draining'> & { readonly removedAt?: number; readonly movedTo?: string };

/** Everything that take-over reads. */
export interface StoredState {
  readonly control: readonly ControlRow[];
  readonly counts: readonly EndpointCounts[];
  readonly leased: readonly JobRow[];
  readonly bodies: readonly BodyUsage[];
  readonly highest: { readonly seq: number; readonly queuePosition: number };
}

/** The parts of the state that are not stored. */
export interface RestoreOptions {
  readonly settings: Settings;
  readonly random: RandomState;
  /** Why no new jobs are accepted now; null if they are. */
  readonly diskRefusal: CapstanError | null;
}

/** Builds the state and requests the first reads. */
export function restore({ settings, random, diskRefusal }: RestoreOptions, stored: StoredState, now: Now, result: StepResult): State {
  const state = newState(settings, random);
  state.diskRefusal = diskRefusal;
  const ctx = new StepContext(state, now, result);
  state.nextSeq = stored.highest.seq + 1;
  state.nextQueuePosition = stored.highest.queuePosition + 1;
  state.nextDeletion = now.wall;
  state.deliveries.nextAt = now.wall;
  const desired: [string, StoredDesired][] = [];
  for (const row of stored.control) {
    state.versions.set(rowKey(row.kind, row.key), row.version);
    const desiredRow = takeRow(state, row);
    if (desiredRow !== null) desired.push([row.key, desiredRow]);
  }
  completeReleases(state);
  for (const { config } of state.endpoints.values()) restoreEnvironment(state, config);
  for (const key of state.keys.values()) awaitExpiry(state, now, key);
  for (const [node, row] of desired) restoreDesired(state, now, node, row);
  adoptBuilds(ctx);
  for (const { account, bytes } of stored.bodies) state.bodyUse.set(account, { stored: bytes, pending: 0 });
  restoreCounts(state, stored.counts);
  for (const row of stored.leased) restoreLease(state, now, row);
  for (const node of state.nodes.values()) awaitNode(state, now, node);
  finishRecoveryIfReported(state);
  state.deadlines.add(now.mono + SCALE_INTERVAL_MS, { kind: 'scale' });
  state.deadlines.add(now.mono + BUILD_SWEEP_MS, { kind: 'build-sweep' });
  for (const endpoint of state.endpoints.values()) fill(ctx, endpoint);
  return state;
}

/** Earlier rows do not contain the types of parameters. */
function withTypes(release: Release): Release {
  const functions = release.functions.map((fn) => {
    const parameters = fn.parameters.map((parameter) => ({ ...parameter, type: (parameter.type as string | undefined) ?? '' }));
    return { ...fn, parameters };
  });
  return { ...release, functions };
}

function takeRow(state: State, row: ControlRow): StoredDesired | null {
  switch (row.kind) {
    case 'key': {
      state.keys.set(row.key, { ...keyDefaults, ...(JSON.parse(row.value) as KeyRow) });
      return null;
    }
    case 'endpoint': {
      // Rows of earlier versions have no rollout and lack some settings. Missing fields are added after the existing
      // ones, so that a complete row stays the same JSON.
      const stored = JSON.parse(row.value) as Stored<EndpointConfig, 'previousRelease' | 'releaseFrom'>;
      const defaults = { ...fieldsKeptIn('endpoint', DEFAULT_FIELDS), previousRelease: null, releaseFrom: 0 };
      const config: EndpointConfig = { ...stored, ...defaults, ...stored };
      // A position must not be used twice: a job would count as submitted before a deployment.
      state.nextQueuePosition = Math.max(state.nextQueuePosition, config.releaseFrom);
      state.endpoints.set(config.id, newEndpointRecord(config));
      if (config.removing === undefined)
        state.endpointsByName.set(endpointNameKey(config.account, config.environment, config.name), config.id);
      return null;
    }
    case 'release':
      state.releases.set(row.key, withTypes(JSON.parse(row.value) as Release));
      return null;
    case 'build':
      // Rows of earlier versions have no owners: see adoptBuilds.
      state.builds.set(row.key, { owners: [], ...(JSON.parse(row.value) as Stored<BuildRow, 'owners'>) });
      return null;
    case 'node': {
      const node = { draining: false, ...(JSON.parse(row.value) as StoredNode) };
      if (node.movedTo !== undefined) state.movedNodes.set(row.key, { ...node, movedTo: node.movedTo });
      else if (node.removedAt === undefined) state.nodes.set(row.key, newNodeRecord(node));
      else state.removedNodes.set(row.key, { ...node, removedAt: node.removedAt });
      return null;
    }
    case 'join-token': {
      // Rows of earlier versions are empty.
      const unlimited = { name: '', createdAt: 0, expiresAt: null, maxUses: null, uses: 0, revoked: false };
      state.joinTokens.set(row.key, { ...unlimited, ...(JSON.parse(row.value) as Partial<JoinTokenRow>) });
      return null;
    }
    case 'desired':
      return JSON.parse(row.value) as StoredDesired;
    case 'account':
      // Rows of earlier versions have no storage quotas.
      state.accounts.set(row.key, {
        buildQuota: null,
        bodyQuota: null,
        ...(JSON.parse(row.value) as Stored<AccountRow, 'buildQuota' | 'bodyQuota'>),
      });
      return null;
    case 'secret':
      state.secrets.set(row.key, JSON.parse(row.value) as SecretRow);
      return null;
    case 'alert-channel':
      state.alertChannels.set(row.key, JSON.parse(row.value) as AlertChannelRow);
      return null;
    case 'environment':
      state.environments.set(row.key, JSON.parse(row.value) as EnvironmentRow);
      return null;
    case 'deployment': {
      const deployment = withSettings(JSON.parse(row.value) as DeploymentRow);
      const key = environmentKey(deployment.account, deployment.environment);
      state.deployments.set(key, [...(state.deployments.get(key) ?? []), deployment]);
      return null;
    }
    case 'setting':
      if (row.key === MASTER_KEY_SETTING) state.masterKey = JSON.parse(row.value) as MasterKeyRow;
      if (row.key === AUDIT_EXPORT_SETTING) state.auditExport = JSON.parse(row.value) as AuditPosition;
      return null;
  }
}

/** Endpoints may be older than the rows of environments. */
function restoreEnvironment(state: State, { account, environment, removing }: EndpointConfig): void {
  const key = environmentKey(account, environment);
  if (removing !== undefined || state.environments.has(key)) return;
  state.environments.set(key, { account, name: environment, createdAt: 0, deployments: 0 });
}

/** Rows of earlier versions lack some settings. */
function withSettings(row: DeploymentRow): DeploymentRow {
  return { ...row, endpoints: row.endpoints.map((each) => ({ ...each, input: { ...each.input, ...DEFAULT_FIELDS, ...each.input } })) };
}

/** Rows older than releases stored placement settings elsewhere. */
function completeReleases(state: State): void {
  for (const [id, row] of state.releases) {
    const config = state.endpoints.get(row.endpoint)?.config;
    const { imageName = '', gpuIds = '', gpuCount = 0, cpu = '' } = config ?? {};
    const kept: Partial<Release> = row;
    const defaults = fieldsKeptIn('release', DEFAULT_FIELDS);
    state.releases.set(id, {
      ...row,
      ...defaults,
      ...{ imageName, command: [], packages: [], python: '', gpuIds, gpuCount, cpu },
      ...kept,
    });
  }
}

function restoreDesired(state: State, now: Now, nodeId: string, row: StoredDesired): void {
  const node = state.nodes.get(nodeId);
  // It was removed, or moved to another cell.
  if (node === undefined) return;
  node.epoch = row.epoch;
  for (const [worker, endpoint] of row.past ?? []) notePast(node, worker, endpoint);
  const { unsizedCpuMillis: cpuMillis, unsizedMemoryBytes: memoryBytes } = state.settings;
  for (const worker of row.workers) {
    // Rows of several nodes name one worker where one of them was restored from elsewhere: the first node keeps it.
    if (state.workers.has(worker.id)) continue;
    const release = state.releases.get(worker.release);
    const reserve = release === undefined ? { cpuMillis, memoryBytes } : workerReserve(release, { cpuMillis, memoryBytes });
    const kept: Partial<DesiredWorker> = worker;
    addWorker(state, {
      ...worker,
      // Rows older than these fields.
      ...{ runtime: release?.runtime === 'process' ? ('process' as const) : ('thread' as const), tokenKey: '', ...reserve },
      ...kept,
      node: nodeId,
      ...initialWorkerState(state, now),
    });
  }
  // Gateways receive the restored placements with the whole directory.
  changedPlacements(state, nodeId);
}

function restoreCounts(state: State, counts: readonly EndpointCounts[]): void {
  for (const { endpoint: id, state: jobState, priority, count, retried } of counts) {
    const endpoint = state.endpoints.get(id);
    if (endpoint === undefined) continue;
    endpoint.counts.retried += retried;
    switch (jobState) {
      case 'IN_QUEUE':
        Object.assign(endpoint.lanes[priority], emptyLane(false), { count });
        break;
      case 'LEASED':
        endpoint.counts.inProgress += count;
        if (priority === 1) endpoint.counts.inProgressLow += count;
        break;
      case 'COMPLETED':
        endpoint.counts.completed += count;
        break;
      case 'FAILED':
      case 'TIMED_OUT':
        endpoint.counts.failed += count;
        break;
      case 'CANCELLED':
        break;
    }
  }
}

function restoreLease(state: State, now: Now, row: JobRow): void {
  const job = fromRow(row);
  state.jobs.set(job.id, job);
  if (row.lease === null) return;
  state.workers.get(row.lease.worker)?.attempts.set(attemptKey(job.id, job.token), heldAttempt(state, job, now));
  const node = state.nodes.get(row.lease.node);
  if (node !== undefined) awaitNode(state, now, node);
}
