/** Which workers may end for the jobs of other endpoints, and when (preemption.ts has the rules). */
import type { Now } from '../now.ts';
import type { State } from '../state.ts';
import type { WorkerRecord } from '../state/fleet.ts';
import { listedWorker } from '../references.ts';
import { loadOf } from './load.ts';
import { isWithoutRequests } from './scaling-requests.ts';

/** Bounds of the time that an idle worker stays after its start, ms. */
const MIN_STAY_MS = 1_000;
const MAX_STAY_MS = 30_000;
/** The turn of a busy worker, in multiples of its start time, and its bounds, ms. */
const TURN_STARTS = 4;
const MIN_TURN_MS = 60_000;
const MAX_TURN_MS = 600_000;
/** A worker that drains and holds nothing is gone within this time, or its room is not counted on, ms. */
const LEAVE_MS = 30_000;

/** Returns the time for which an idle worker stays after it became ready, ms. */
export function stayOf({ status }: Pick<WorkerRecord, 'status'>): number {
  return clamp(status?.loadedMs ?? 0, MIN_STAY_MS, MAX_STAY_MS);
}

/** Returns the time for which a worker may serve its endpoint while another one has none, ms. */
export function turnOf({ status }: Pick<WorkerRecord, 'status'>): number {
  return clamp(TURN_STARTS * (status?.loadedMs ?? 0), MIN_TURN_MS, MAX_TURN_MS);
}

/** Whether a worker drains and holds nothing. */
export function isLeaving(state: State, worker: WorkerRecord, now: Now): boolean {
  return worker.drain && isIdle(state, worker) && now.mono - worker.drainingSince < LEAVE_MS;
}

export function isIdle(state: State, worker: WorkerRecord): boolean {
  if (worker.attempts.size > 0) return false;
  return state.endpoints.get(worker.endpoint)?.config.kind !== 'LOAD_BALANCED' || isWithoutRequests(worker);
}

/** Whether the worker's endpoint and its state allow that it ends for another endpoint's jobs. */
export function mayLeave(state: State, worker: WorkerRecord): boolean {
  const config = state.endpoints.get(worker.endpoint)?.config;
  return config !== undefined && !worker.drain && worker.release === config.release && !config.keepIdle && config.removing === undefined;
}

/** Whether a worker is idle, has stayed long enough, and nothing waits for it. */
export function isSpare(state: State, worker: WorkerRecord, now: Now): boolean {
  if (worker.yieldsTo !== null || !mayLeave(state, worker) || !isIdle(state, worker)) return false;
  const endpoint = state.endpoints.get(worker.endpoint);
  if (endpoint === undefined || loadOf(state, endpoint, now).waiting > 0) return false;
  return now.mono - (worker.ready ? worker.readySince : worker.askedAt) >= stayOf(worker);
}

/** Whether a worker has run for its turn, or has failed to start for so long. */
export function isTurnOver(state: State, worker: WorkerRecord, now: Now): boolean {
  if (worker.yieldsTo !== null || !mayLeave(state, worker)) return false;
  if (!worker.ready) return worker.failuresSeen > 0 && now.mono - worker.askedAt >= MIN_TURN_MS;
  return now.mono - worker.readySince >= turnOf(worker);
}

/** Returns by how many the workers of an endpoint that stay exceed its workersMin. */
export function aboveMin(state: State, id: string, counts: (worker: WorkerRecord) => boolean): number {
  const endpoint = state.endpoints.get(id);
  if (endpoint === undefined) return 0;
  let staying = 0;
  for (const each of endpoint.workers) {
    const worker = listedWorker(state, each);
    if (!worker.drain && worker.release === endpoint.config.release && counts(worker)) staying++;
  }
  return staying - endpoint.config.workersMin;
}

function clamp(value: number, min: number, max: number): number {
  return Math.min(max, Math.max(min, value));
}
