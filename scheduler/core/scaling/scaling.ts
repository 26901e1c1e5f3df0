/**
 * Decides how many workers an endpoint gets. Jobs with lowPriority are excluded from every input.
 *
 * The scaler decides growth; from zero to one worker at once. The idle timeout decides shrinking, for both scalers,
 * which dampens oscillation: a worker stays for the idle timeout after its last job, after it became ready, and, while
 * it starts, after a job was last seen waiting. Workers still starting are drained first, then the least recently used.
 * Workers beyond workersMax are drained at once and finish their work.
 *
 * Requests of a load-balanced endpoint go to its least busy worker, so under load no worker is ever idle. There one
 * surplus worker is drained per idle timeout in which REQUEST_COUNT constantly wanted fewer; never the last one.
 */
import { invariant, present } from '../../../lib/invariant.ts';
import { NO_NODE } from '../../../lib/job-errors.ts';
import { WorkerState } from '../../../proto/gen/capstan/v1/common.ts';

import type { StepContext } from '../context.ts';
import type { State } from '../state.ts';
import type { EndpointRecord } from '../state/endpoints.ts';
import type { WorkerRecord } from '../state/fleet.ts';
import { listedWorker, nodeOfWorker } from '../references.ts';
import type { Now } from '../now.ts';
import { explainMissing, missingSecrets } from '../endpoints/secret-use.ts';
import { takeClaim, releaseClaims } from '../fleet/placement/claims.ts';
import { avoidedNodes, inCrashLoop, NODE_FAILURES } from '../endpoints/crash-loops.ts';
import { noteDecision } from '../endpoints/decisions.ts';
import { isReady } from '../jobs/slots.ts';
import { place, Placer, type Plan } from '../fleet/placement.ts';
import { knownRefusal, noteRefusal } from '../fleet/placement/refusals.ts';
import { explainRejections } from '../state/rejections.ts';
import { loadOf } from './load.ts';
import { preempt } from './preemption.ts';
import type { PreemptionRound } from './preemption-round.ts';
import { makeRoom, retireOld } from './rollout.ts';
import { isWithoutRequests, type Load } from './scaling-requests.ts';
import { requestWorker, drainWorker } from '../fleet/workers.ts';

/** Interval at which waiting endpoints are checked again, ms. */
export const SCALE_INTERVAL_MS = 1_000;

/** The input of a scaler. */
export interface ScalingInput {
  readonly scalerType: 'QUEUE_DELAY' | 'REQUEST_COUNT';
  /** Seconds of waiting, or jobs per worker. */
  readonly scalerValue: number;
  readonly workersMin: number;
  readonly workersMax: number;
  /** Normal jobs that wait or run. */
  readonly queued: number;
  readonly running: number;
  /** Waiting time of the first normal job, ms. */
  readonly oldestWaitMs: number;
  /** Workers that stay: started or starting, not draining. */
  readonly workers: number;
  /** Those of them that are not ready yet. */
  readonly starting: number;
}

/** Returns the wanted number of workers, and why. */
function wantedWorkers(input: ScalingInput): { readonly count: number; readonly reason: string } {
  const { workersMin, workersMax, queued, running, workers } = input;
  let count = Math.max(workers, workersMin);
  let reason = workersMin > workers ? `workersMin is ${workersMin}` : '';
  if (input.scalerType === 'REQUEST_COUNT') {
    const needed = Math.ceil((queued + running) / Math.max(1, input.scalerValue));
    if (needed > count) {
      count = needed;
      reason = `REQUEST_COUNT: ${queued + running} jobs, ${input.scalerValue} per worker`;
    }
  } else if (queued > 0 && count === 0) {
    count = 1;
    reason = 'QUEUE_DELAY: jobs are waiting and no worker is running';
  } else if (queued > 0 && input.starting === 0 && input.oldestWaitMs > input.scalerValue * 1_000 && workers + 1 > count) {
    count = workers + 1;
    reason = `QUEUE_DELAY: the oldest job has waited ${Math.round(input.oldestWaitMs / 1_000)} s`;
  }
  return count > workersMax ? { count: workersMax, reason } : { count, reason };
}

/** Scales one endpoint: requests or drains workers. `round` is shared by the endpoints that a step scales. */
export function scaleEndpoint(ctx: StepContext, endpoint: EndpointRecord, round: PreemptionRound): void {
  const { config } = endpoint;
  const fresh: WorkerRecord[] = [];
  const old: WorkerRecord[] = [];
  for (const id of endpoint.workers) {
    const worker = listedWorker(ctx.state, id);
    if (!worker.drain) (worker.release === config.release ? fresh : old).push(worker);
  }
  if (old.length > 0)
    retireOld(
      ctx,
      endpoint,
      old,
      fresh.some((worker) => serves(ctx.state, worker)),
    );
  moveFailing(ctx, endpoint, fresh);
  const staying = fresh.filter((worker) => !worker.drain);
  if (endpoint.trialUntil <= ctx.now.mono) endpoint.trialUntil = 0;
  const load = loadOf(ctx.state, endpoint, ctx.now);
  if (load.waiting > 0) endpoint.lastWaiting = ctx.now.mono;
  const wanted = wantedNow(endpoint, ctx.now, staying, load);
  if (staying.length < wanted.count) {
    endpoint.surplusSince = null;
    const missing = missingSecrets(ctx.state, endpoint);
    if (missing.length > 0) {
      // No room helps: nobody else's worker has to end.
      recordUnplaced(ctx, endpoint, { rejected: [], reason: explainMissing(missing), count: wanted.count - staying.length });
      releaseClaims(ctx.state, endpoint);
      return;
    }
    grow(ctx, endpoint, wanted.count - staying.length, wanted.reason);
    if (endpoint.unplaced.count > 0) preempt(ctx, endpoint, round);
    else releaseClaims(ctx.state, endpoint);
    return;
  }
  releaseClaims(ctx.state, endpoint);
  endpoint.rejections = [];
  endpoint.unplaced.count = 0;
  shrink(ctx, endpoint, staying, load);
}

/** Returns the wanted number: the scaler's number and the workers to replace, limited during a crash loop. */
function wantedNow(
  endpoint: EndpointRecord,
  now: Now,
  staying: readonly WorkerRecord[],
  load: Load,
): { readonly count: number; readonly reason: string } {
  const { config } = endpoint;
  const wanted = wantedWorkers({
    scalerType: config.scalerType,
    scalerValue: config.scalerValue,
    workersMin: config.workersMin,
    workersMax: config.workersMax,
    queued: load.waiting,
    running: load.running,
    oldestWaitMs: load.oldestWaitMs,
    workers: staying.length,
    starting: staying.filter((worker) => worker.status === null || worker.status.state === WorkerState.INITIALIZING).length,
  });
  if (endpoint.replace !== null && (now.mono >= endpoint.replace.until || staying.length >= endpoint.replace.count))
    endpoint.replace = null;
  const again = Math.min(endpoint.replace?.count ?? 0, config.workersMax);
  const { count, reason } = again > wanted.count ? { count: again, reason: endpoint.replace?.reason ?? '' } : wanted;
  if (!inCrashLoop(endpoint)) return { count, reason };
  const probing = staying.filter(isReady).length + 1;
  return count > probing ? { count: probing, reason: 'starts fail: one worker retries' } : { count, reason };
}

/** Whether the worker takes jobs, as far as the scheduler knows. */
function serves(state: State, worker: WorkerRecord): boolean {
  return isReady(worker) && nodeOfWorker(state, worker).session !== null;
}

/** Tries workers whose starts fail on their node on another node that can take them. */
function moveFailing(ctx: StepContext, endpoint: EndpointRecord, fresh: WorkerRecord[]): void {
  if (endpoint.starts.failures === 0) return;
  // A database that was restored in part lacks the release's row.
  const release = ctx.state.releases.get(endpoint.config.release);
  if (release === undefined) return;
  const trying = fresh.filter((worker) => !worker.ready);
  for (const worker of trying) {
    const here = endpoint.starts.nodes.get(worker.node);
    if (here === undefined || here.failures < NODE_FAILURES || worker.failuresSeen === 0) continue;
    const { plan } = place(ctx.state, endpoint, release, new Set([...avoidedNodes(endpoint, ctx.now), worker.node]));
    if (plan === null) continue;
    drainWorker(ctx.state, ctx.now, worker, `starts fail on this node (${endpoint.starts.lastError})`);
    fresh.push(placeWorker(ctx, endpoint, plan, `starts fail on another node (${endpoint.starts.lastError})`));
    return;
  }
  if (!inCrashLoop(endpoint)) return;
  for (const worker of trying.slice(1)) drainWorker(ctx.state, ctx.now, worker, 'starts fail: one worker retries');
}

function grow(ctx: StepContext, endpoint: EndpointRecord, by: number, reason: string): void {
  // A database that was restored in part lacks the release's row.
  const release = ctx.state.releases.get(endpoint.config.release);
  if (release === undefined) return;
  const avoid = avoidedNodes(endpoint, ctx.now);
  const refusal = avoid.size === 0 ? knownRefusal(ctx.state, endpoint, release) : null;
  if (refusal !== null) {
    recordUnplaced(ctx, endpoint, { rejected: refusal, count: by });
    makeRoom(ctx.state, ctx.now, endpoint);
    return;
  }
  const placer = new Placer(ctx.state, endpoint, release, avoid);
  for (let left = by; left > 0; left--) {
    let placed = placer.next();
    // Every remaining place has failed: try them again after a pause.
    if (placed.plan === null && avoid.size > 0 && ctx.now.mono >= endpoint.starts.retryAt) placed = place(ctx.state, endpoint, release);
    if (placed.plan === null) {
      if (avoid.size === 0) noteRefusal(ctx.state, endpoint, { release, groups: placed.rejections });
      recordUnplaced(ctx, endpoint, { rejected: placed.rejections, count: left });
      makeRoom(ctx.state, ctx.now, endpoint);
      return;
    }
    placeWorker(ctx, endpoint, placed.plan, reason);
  }
  endpoint.rejections = [];
  endpoint.unplaced.count = 0;
}

function placeWorker(ctx: StepContext, endpoint: EndpointRecord, plan: Plan, reason: string): WorkerRecord {
  const worker = requestWorker(ctx, endpoint, plan, reason);
  // Planned and requested in one step, so nothing can change in between.
  invariant(!('reason' in worker), 'a worker is requested where it was planned', { endpoint: endpoint.config.id });
  takeClaim(ctx.state, endpoint, worker.node);
  const facts = { endpoint: endpoint.config.id, worker: worker.id, node: worker.node, reason };
  ctx.emit({ kind: 'log', level: 'info', message: 'worker requested', facts });
  return worker;
}

interface Unplaced {
  readonly rejected: EndpointRecord['rejections'];
  readonly count: number;
  /** Why, where it is not for what nodes lack. */
  readonly reason?: string;
}

/** Handles wanted workers that no node can take. */
function recordUnplaced({ now }: StepContext, endpoint: EndpointRecord, { rejected, count, reason: other }: Unplaced): void {
  if (endpoint.unplaced.count === 0) endpoint.unplaced.since = now.mono;
  endpoint.unplaced.count = count;
  if (endpoint.rejections !== rejected || rejected.length === 0) {
    const reason = other ?? (explainRejections(rejected) || NO_NODE);
    if (other === undefined || endpoint.decisions.at(-1)?.reason !== reason)
      noteDecision(endpoint, now, { kind: 'NO_PLACE', worker: '', node: '', reason });
  }
  endpoint.rejections = rejected;
}

function shrink({ state, now }: StepContext, endpoint: EndpointRecord, staying: readonly WorkerRecord[], load: Load): void {
  const { config } = endpoint;
  const order = [...staying].sort(firstToGo);
  let left = staying.length;
  for (const worker of order) {
    if (left <= config.workersMax) break;
    drainWorker(state, now, worker, `workersMax is ${config.workersMax}`);
    left--;
  }
  const needed = config.scalerType === 'REQUEST_COUNT' ? Math.ceil((load.waiting + load.running) / Math.max(1, config.scalerValue)) : 0;
  const floor = Math.max(config.workersMin, needed, endpoint.replace?.count ?? 0, endpoint.trialUntil > now.mono ? 1 : 0);
  if (load.waiting > 0 || left <= Math.max(1, floor) || config.kind !== 'LOAD_BALANCED' || config.scalerType !== 'REQUEST_COUNT')
    endpoint.surplusSince = null;
  else endpoint.surplusSince ??= now.mono;
  if (load.waiting + endpoint.lanes[1].count > 0) return;
  for (const worker of order) {
    if (left <= floor) break;
    if (worker.drain || worker.attempts.size > 0) continue;
    // For a worker that serves jobs the agent reports this only together with other changes, so its last report may be
    // outdated.
    if (config.kind === 'LOAD_BALANCED' && !isWithoutRequests(worker)) continue;
    const idleMs = now.mono - (worker.ready ? worker.idleSince : Math.max(worker.askedAt, endpoint.lastWaiting));
    if (idleMs < config.idleTimeoutS * 1_000) continue;
    drainWorker(state, now, worker, worker.ready ? `idle for ${config.idleTimeoutS} s` : 'no longer needed');
    left--;
  }
  if (endpoint.surplusSince === null || left <= Math.max(1, floor) || now.mono - endpoint.surplusSince < config.idleTimeoutS * 1_000)
    return;
  const [surplus] = order.filter((worker) => !worker.drain);
  drainWorker(
    state,
    now,
    present(surplus, 'more workers stay than are needed', { endpoint: config.id, left, floor }),
    `not needed for ${config.idleTimeoutS} s`,
  );
  endpoint.surplusSince = now.mono;
}

/**
 * Orders workers to drain: those still starting (the last requested first), then the idle ones, the least recently used
 * first.
 */
function firstToGo(a: WorkerRecord, b: WorkerRecord): number {
  if (a.ready !== b.ready) return a.ready ? 1 : -1;
  if (!a.ready) return b.lastUsed - a.lastUsed;
  return a.attempts.size - b.attempts.size || a.lastUsed - b.lastUsed;
}

/** Whether the periodic check must include the endpoint. */
export function needsScaling(endpoint: EndpointRecord): boolean {
  const { lanes, requests, workers, unplaced, config, trialUntil } = endpoint;
  return trialUntil > 0 || lanes[0].count > 0 || requests.size > 0 || workers.size > 0 || config.workersMin > 0 || unplaced.count > 0;
}
