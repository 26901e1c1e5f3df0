/**
 * Takes attempts back from busy workers that have not entered them, when another worker of the endpoint is idle and no job
 * waits: a blocked event loop, or a program that requests its jobs one by one. The agent returns such a lease uncharged,
 * and its job goes to the idle worker.
 */
import type { StepContext } from '../context.ts';
import type { EndpointRecord } from '../state/endpoints.ts';
import type { HeldAttempt, WorkerRecord } from '../state/fleet.ts';
import { listedWorkers, nodeOfWorker } from '../references.ts';
import { hasRoom, isReady } from './slots.ts';

/** A worker enters an attempt long before this time, unless it is busy, ms. */
export const RECALL_AFTER_MS = 500;

export function recallWaiting(ctx: StepContext, endpoint: EndpointRecord): void {
  const { state, now } = ctx;
  if (endpoint.recallAt > now.mono || endpoint.lanes.some(({ count }) => count > 0)) return;
  const workers = listedWorkers(state, endpoint.workers);
  const busy = workers.filter(({ attempts }) => attempts.size > 1);
  if (busy.length === 0) return;
  // Those that were recalled before are on their way to one.
  const onTheirWay = busy.reduce(
    (sum, { attempts }) => sum + [...attempts.values()].filter((held) => held.isRecalled && isUnentered(ctx, held)).length,
    0,
  );
  let idle = workers.filter((worker) => isIdle(ctx, endpoint, worker)).length - onTheirWay;
  let nextAt = Number.POSITIVE_INFINITY;
  for (const worker of idle <= 0 ? [] : busy) {
    for (const held of worker.attempts.values()) {
      if (idle <= 0) return;
      if (held.isRecalled || !isUnentered(ctx, held)) continue;
      const dueAt = held.since + RECALL_AFTER_MS;
      if (dueAt <= now.mono) {
        recall(ctx, worker, held);
        idle--;
      } else nextAt = Math.min(nextAt, dueAt);
    }
  }
  if (nextAt === Number.POSITIVE_INFINITY) return;
  // One check is enough for all that began to wait meanwhile.
  endpoint.recallAt = nextAt;
  state.deadlines.add(nextAt, { kind: 'refill', endpoint: endpoint.config.id });
}

function isIdle({ state, now }: StepContext, endpoint: EndpointRecord, worker: WorkerRecord): boolean {
  const isFresh = worker.release === endpoint.config.release;
  return (
    isFresh && worker.attempts.size === 0 && isReady(worker) && hasRoom(worker, now, true) && nodeOfWorker(state, worker).session !== null
  );
}

/** Whether an attempt is not known to be entered. */
function isUnentered({ state }: StepContext, { job: id, token }: HeldAttempt): boolean {
  // The job may have ended, while its attempt still holds the slot.
  const job = state.jobs.get(id);
  return job?.phase === 'LEASED' && job.token === token;
}

function recall(ctx: StepContext, worker: WorkerRecord, held: HeldAttempt): void {
  const { node } = worker;
  const { session } = nodeOfWorker(ctx.state, worker);
  // A node that is away is asked once it is back.
  if (session === null) return;
  held.isRecalled = true;
  const value = { jobId: held.job, token: held.token };
  ctx.emit({ kind: 'send', node, session, event: { event: { $case: 'recall', value } } });
}
