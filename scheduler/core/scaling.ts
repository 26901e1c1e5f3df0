/**
 * How many workers an endpoint gets (WIRE.md section 5). Jobs with lowPriority are left out of
 * every input. Growth is decided by the scaler, shrinking by the idle time-out alone.
 */
import { WorkerState } from '../../proto/gen/capstan/v1/common.ts';

import type { Decision } from './effects.ts';
import type { EndpointImage, Image, Now, WorkerImage } from './image.ts';
import { first } from './lanes.ts';
import { place } from './placement.ts';
import { askWorker, drainWorker } from './workers.ts';

/** How often waiting endpoints are looked at again, ms. */
export const scaleIntervalMs = 1_000;

/** What a scaler looks at. */
export interface ScalingInput {
  readonly scalerType: 'QUEUE_DELAY' | 'REQUEST_COUNT';
  /** Seconds of waiting, or jobs per worker. */
  readonly scalerValue: number;
  readonly workersMin: number;
  readonly workersMax: number;
  /** Normal jobs that wait, and that run. */
  readonly queued: number;
  readonly running: number;
  /** Waiting time of the first normal job, ms. */
  readonly oldestWaitMs: number;
  /** Workers that stay: started or starting, not asked to go. */
  readonly workers: number;
  /** Those of them that are not ready yet. */
  readonly starting: number;
}

/** How many workers there shall be, and why. */
export function wantedWorkers(input: ScalingInput): { readonly count: number; readonly reason: string } {
  const { workersMin, workersMax, queued, running, workers } = input;
  let count = Math.max(workers, workersMin);
  let reason = workersMin > workers ? `workersMin is ${workersMin}` : '';
  if (input.scalerType === 'REQUEST_COUNT') {
    const needed = Math.ceil((queued + running) / Math.max(1, input.scalerValue));
    if (needed > count) {
      count = needed;
      reason = `REQUEST_COUNT: ${queued + running} jobs, ${input.scalerValue} a worker`;
    }
  } else if (queued > 0 && count === 0) {
    count = 1;
    reason = 'QUEUE_DELAY: a job waits and no worker runs';
  } else if (queued > 0 && input.starting === 0 && input.oldestWaitMs > input.scalerValue * 1_000 && workers + 1 > count) {
    count = workers + 1;
    reason = `QUEUE_DELAY: the oldest job has waited ${Math.round(input.oldestWaitMs / 1_000)} s`;
  }
  return count > workersMax ? { count: workersMax, reason } : { count, reason };
}

/** Looks at one endpoint: asks for workers, or lets idle ones go. */
export function scaleEndpoint(image: Image, out: Decision, now: Now, endpoint: EndpointImage): void {
  if (endpoint.config.kind !== 'QUEUE') return;
  const all = [...endpoint.workers].flatMap((id) => image.workers.get(id) ?? []);
  const { config } = endpoint;
  for (const worker of all) if (worker.release !== config.release) drainWorker(image, worker, 'a newer release is deployed');
  const staying = all.filter((worker) => !worker.drain);
  const normal = endpoint.lanes[0];
  const head = first(normal);
  const wanted = wantedWorkers({
    scalerType: config.scalerType,
    scalerValue: config.scalerValue,
    workersMin: config.workersMin,
    workersMax: config.workersMax,
    queued: normal.count,
    running: endpoint.counts.inProgress - endpoint.counts.inProgressLow,
    oldestWaitMs: head === null ? 0 : now.wall - head.submittedAt,
    workers: staying.length,
    starting: staying.filter((worker) => worker.status === null || worker.status.state === WorkerState.INITIALIZING).length,
  });
  if (staying.length < wanted.count) grow(image, out, now, endpoint, wanted.count - staying.length, wanted.reason);
  else shrink(image, now, endpoint, staying);
}

function grow(image: Image, out: Decision, now: Now, endpoint: EndpointImage, by: number, reason: string): void {
  const release = image.releases.get(endpoint.config.release);
  if (release === undefined) return;
  for (let i = 0; i < by; i++) {
    const placement = place(image, endpoint, release);
    if (placement.node === null) {
      endpoint.rejections = placement.rejected;
      return;
    }
    const worker = askWorker(image, now, endpoint, placement.node, placement.devices, reason);
    const facts = { endpoint: endpoint.config.id, worker: worker.id, node: worker.node, reason };
    out.do({ effect: 'log', level: 'info', message: 'worker asked for', facts });
  }
  endpoint.rejections = [];
}

function shrink(image: Image, now: Now, endpoint: EndpointImage, staying: readonly WorkerImage[]): void {
  const { config } = endpoint;
  const floor = Math.max(config.workersMin, config.scalerType === 'REQUEST_COUNT' ? busy(endpoint) : 0);
  const waiting = endpoint.lanes[0].count + endpoint.lanes[1].count > 0;
  const idle = staying.filter((worker) => worker.attempts.size === 0).sort((a, b) => a.lastUsed - b.lastUsed);
  let left = staying.length;
  for (const worker of idle) {
    if (left > config.workersMax) {
      drainWorker(image, worker, `workersMax is ${config.workersMax}`);
      left--;
    } else if (left > floor && !waiting) {
      const ready = worker.status !== null && worker.status.state !== WorkerState.INITIALIZING;
      const idleMs = now.mono - worker.idleSince;
      if (!ready || idleMs < config.idleTimeoutS * 1_000) continue;
      drainWorker(image, worker, `idle for ${config.idleTimeoutS} s`);
      left--;
    }
  }
}

/** Workers the present load needs at one per `scalerValue` jobs. */
function busy(endpoint: EndpointImage): number {
  const running = endpoint.counts.inProgress - endpoint.counts.inProgressLow;
  return Math.ceil((endpoint.lanes[0].count + running) / Math.max(1, endpoint.config.scalerValue));
}

/** True for endpoints that the periodic look must see. */
export function needsLook(endpoint: EndpointImage): boolean {
  return endpoint.lanes[0].count > 0 || endpoint.workers.size > 0 || endpoint.config.workersMin > 0;
}
