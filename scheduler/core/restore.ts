/** Take-over: the image as the store tells it, before any event. */
import type { ControlRow, EndpointCounts, JobRow } from '../store/store.ts';

import type { Decision } from './effects.ts';
import {
  emptyLane,
  endpointNameKey,
  newEndpoint,
  newImage,
  newNode,
  rowKey,
  type AccountRow,
  type BuildRow,
  type EndpointConfig,
  type Image,
  type KeyRow,
  type NodeConfig,
  type Now,
  type Release,
  type Settings,
} from './image.ts';
import { fromRow } from './jobs.ts';
import { fill } from './dispatch.ts';
import type { RandomState } from './random.ts';
import { awaitNode, settleIfReported } from './sessions.ts';
import { scaleIntervalMs } from './scaling.ts';
import { addWorker, type DesiredRow } from './workers.ts';

/** Everything take-over reads. */
export interface StoredState {
  readonly control: readonly ControlRow[];
  readonly counts: readonly EndpointCounts[];
  readonly leased: readonly JobRow[];
  readonly highest: { readonly no: number; readonly position: number };
}

/** Builds the image and decides the first reads. */
export function restore(settings: Settings, random: RandomState, stored: StoredState, now: Now, out: Decision): Image {
  const image = newImage(settings, random);
  image.nextNo = stored.highest.no + 1;
  image.nextPosition = stored.highest.position + 1;
  image.nextDeletion = now.wall;
  image.hooks.nextAt = now.wall;
  const desired: [string, DesiredRow][] = [];
  for (const row of stored.control) {
    image.versions.set(rowKey(row.kind, row.key), row.version);
    const desiredRow = takeRow(image, row);
    if (desiredRow !== null) desired.push([row.key, desiredRow]);
  }
  for (const [node, row] of desired) restoreDesired(image, now, node, row);
  restoreCounts(image, stored.counts);
  for (const row of stored.leased) restoreLease(image, now, row);
  for (const node of image.nodes.values()) awaitNode(image, now, node);
  settleIfReported(image);
  image.deadlines.add(now.mono + scaleIntervalMs, { due: 'scale' });
  for (const endpoint of image.endpoints.values()) fill(image, out, now, endpoint);
  return image;
}

function takeRow(image: Image, row: ControlRow): DesiredRow | null {
  switch (row.kind) {
    case 'key': {
      image.keys.set(row.key, JSON.parse(row.value) as KeyRow);
      return null;
    }
    case 'endpoint': {
      const config = JSON.parse(row.value) as EndpointConfig;
      image.endpoints.set(config.id, newEndpoint(config));
      image.endpointsByName.set(endpointNameKey(config.account, config.environment, config.name), config.id);
      return null;
    }
    case 'release':
      image.releases.set(row.key, JSON.parse(row.value) as Release);
      return null;
    case 'build':
      image.builds.set(row.key, JSON.parse(row.value) as BuildRow);
      return null;
    case 'node':
      image.nodes.set(row.key, newNode(JSON.parse(row.value) as NodeConfig));
      return null;
    case 'join-token':
      image.joinTokens.add(row.key);
      return null;
    case 'desired':
      return JSON.parse(row.value) as DesiredRow;
    case 'account':
      image.accounts.set(row.key, JSON.parse(row.value) as AccountRow);
      return null;
    case 'environment':
    case 'setting':
      return null;
  }
}

function restoreDesired(image: Image, now: Now, nodeId: string, row: DesiredRow): void {
  const node = image.nodes.get(nodeId);
  if (node === undefined) return;
  node.epoch = row.epoch;
  for (const worker of row.workers) {
    addWorker(image, {
      ...worker,
      node: nodeId,
      status: null,
      attempts: new Map(),
      lastUsed: image.nextUse++,
      idleSince: now.mono,
      notBefore: 0,
    });
  }
}

function restoreCounts(image: Image, counts: readonly EndpointCounts[]): void {
  for (const { endpoint: id, state, priority, count, retried } of counts) {
    const endpoint = image.endpoints.get(id);
    if (endpoint === undefined) continue;
    endpoint.counts.retried += retried;
    switch (state) {
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

function restoreLease(image: Image, now: Now, row: JobRow): void {
  const job = fromRow(row);
  image.jobs.set(job.id, job);
  if (row.lease === null) return;
  image.workers.get(row.lease.worker)?.attempts.set(job.id, job.token);
  const node = image.nodes.get(row.lease.node);
  if (node !== undefined) awaitNode(image, now, node);
}
