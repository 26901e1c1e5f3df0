/** The slots of a worker, and which jobs they take. */
import { WorkerState } from '../../../proto/gen/capstan/v1/common.ts';

import type { WorkerRecord } from '../state/fleet.ts';
import type { Now } from '../now.ts';

/** Whether the agent reports the worker as ready and the worker is not draining. */
export function isReady(worker: WorkerRecord): boolean {
  if (worker.drain || worker.status === null) return false;
  return worker.status.state === WorkerState.IDLE || worker.status.state === WorkerState.RUNNING;
}

/** Whether a worker has a slot for a job, or is empty for one that runs apart. */
export function hasRoom(worker: WorkerRecord, now: Now, isApart: boolean): boolean {
  const { attempts, notBefore, yieldsTo } = worker;
  if (notBefore > now.mono || yieldsTo !== null) return false;
  if (isApart) return attempts.size === 0;
  return attempts.size < slotsOf(worker) && !runsApart(attempts);
}

/** Returns how many jobs a worker takes at once: those of its release, or fewer if it has shown that it takes fewer. */
export function slotsOf({ maxConcurrency, status }: WorkerRecord): number {
  return Math.min(maxConcurrency, status?.slots || maxConcurrency);
}

/** Such a job is alone on its worker. */
export function runsApart(attempts: WorkerRecord['attempts']): boolean {
  if (attempts.size !== 1) return false;
  const [only] = attempts.values();
  return only?.isApart === true;
}
