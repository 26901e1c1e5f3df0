/** Assigns jobs to slots: the least loaded ready worker, ties to the most recently used, normal jobs first. */
import { invariant } from '../../../lib/invariant.ts';
import type { StepContext } from '../context.ts';
import type { Write } from '../effects.ts';
import type { State } from '../state.ts';
import type { EndpointRecord } from '../state/endpoints.ts';
import type { Slot, WorkerRecord } from '../state/fleet.ts';
import type { JobRecord } from '../state/jobs.ts';
import { listedWorker, nodeOfWorker } from '../references.ts';
import type { Now } from '../now.ts';
import { expire, leaseQueued } from './jobs.ts';
import { first, firstBut, startRefill, wantsRefill } from './lanes.ts';
import { recallWaiting } from './recall.ts';
import { runsAlone } from './running-apart.ts';
import { hasRoom, isReady, runsApart } from './slots.ts';
import { purgeStep } from './purge.ts';
import { mayUseOldRelease } from '../endpoints/releases.ts';
import { shownWebhook } from '../webhooks/webhook-url.ts';

/** What a job needs of a worker. */
interface SlotRequest {
  readonly queuePosition: number;
  /** A worker without other jobs. */
  readonly isApart: boolean;
  /** A worker that takes no more jobs until a job that runs apart can have it. */
  readonly held?: WorkerRecord | null;
}

/**
 * Returns the slot for the job at a position of an endpoint's queue, or null if there is none. Workers of the present
 * release come first; those of the previous one only as long as the rollout allows it.
 */
export function findFreeSlot(state: State, endpoint: EndpointRecord, now: Now, request: SlotRequest): Slot | null {
  const { queuePosition, isApart, held = null } = request;
  const isFree = (worker: WorkerRecord): boolean => worker !== held && hasRoom(worker, now, isApart);
  const worker = pickWorker(state, endpoint, queuePosition, isFree);
  if (worker === null) return null;
  const node = nodeOfWorker(state, worker);
  invariant(node.session !== null, 'a free slot is on a connected node', { worker: worker.id, node: worker.node });
  return { worker, node, session: node.session };
}

function pickWorker(
  state: State,
  endpoint: EndpointRecord,
  queuePosition: number,
  isFree: (worker: WorkerRecord) => boolean,
): WorkerRecord | null {
  let best: WorkerRecord | null = null;
  let bestOld: WorkerRecord | null = null;
  let freshReady = false;
  for (const id of endpoint.workers) {
    const worker = listedWorker(state, id);
    if (!isReady(worker)) continue;
    const fresh = worker.release === endpoint.config.release;
    const free = isFree(worker);
    // The node is looked up only where it could change the result.
    if (free ? !goesBefore(worker, fresh ? best : bestOld) : !fresh || freshReady) continue;
    if (nodeOfWorker(state, worker).session === null) continue;
    if (fresh) freshReady = true;
    if (!free) continue;
    if (fresh) best = worker;
    else if (mayUseOldRelease(endpoint, worker, queuePosition)) bestOld = worker;
  }
  return freshReady ? best : bestOld;
}

/** Prefers the less loaded worker; of equals the one used last, so that the others become idle. */
function goesBefore(worker: WorkerRecord, other: WorkerRecord | null): boolean {
  if (other === null) return true;
  const less = other.attempts.size - worker.attempts.size;
  return less > 0 || (less === 0 && worker.lastUsed > other.lastUsed);
}

/** Dispatches queued jobs while there are free slots, and refills the window from the store. */
export function fill(ctx: StepContext, endpoint: EndpointRecord): void {
  if (endpoint.purge !== null) purgeStep(ctx, endpoint);
  // Jobs that wait for a worker of their own. The first one holds the least loaded worker, which the others pass.
  const passed = new Set<JobRecord>();
  let held: WorkerRecord | null = null;
  for (const lane of endpoint.lanes) {
    for (let job = firstBut(lane, passed); job !== null; job = firstBut(lane, passed)) {
      if (job.deleteAt <= ctx.now.wall) {
        expire(ctx, job);
        continue;
      }
      invariant(job.endpoint === endpoint.config.id, 'a job waits at its own endpoint', { job: job.id, endpoint: endpoint.config.id });
      const isApart = runsAlone(ctx.state, job);
      const slot = findFreeSlot(ctx.state, endpoint, ctx.now, { queuePosition: job.queuePosition, isApart, held: isApart ? null : held });
      if (slot === null && isApart) {
        passed.add(job);
        held ??= pickWorker(ctx.state, endpoint, job.queuePosition, ({ attempts, yieldsTo }) => yieldsTo === null && !runsApart(attempts));
        continue;
      }
      if (slot === null) break;
      const write = leaseQueued(ctx, job, slot);
      sendJob(ctx, job, slot, write);
    }
    if (wantsRefill(lane, ctx.state.settings.windowSize)) {
      const { after, limit } = startRefill(lane, ctx.state.settings.windowSize);
      ctx.emit({ kind: 'read-head', endpoint: endpoint.config.id, priority: lane === endpoint.lanes[0] ? 0 : 1, after, limit });
    }
  }
  recallWaiting(ctx, endpoint);
}

/** Whether a job that waits for a worker of its own is the first of a queue: others may pass it. */
export function mayOvertake(state: State, endpoint: EndpointRecord): boolean {
  return endpoint.lanes.some((lane) => {
    const head = first(lane);
    return head !== null && runsAlone(state, head);
  });
}

/** Adds the effect that sends a leased job to its agent, once its lease is durable. */
export function sendJob(ctx: StepContext, job: JobRecord, slot: Slot, write: Write): void {
  invariant(job.lease?.worker === slot.worker.id, 'a job is sent to the worker that leases it', { job: job.id, worker: slot.worker.id });
  const { start } = slot.worker;
  // The job that waited for the worker is its first one.
  slot.worker.start = null;
  ctx.emit(
    {
      kind: 'dispatch',
      node: slot.node.config.id,
      session: slot.session,
      seq: job.seq,
      job: job.id,
      token: job.token,
      worker: slot.worker.id,
      executionTimeoutMs: job.executionTimeoutMs,
      attempt: job.attempts + 1,
      hasS3: job.hasS3,
      webhook: shownWebhook(job.webhook),
      trace: job.trace ?? '',
      queuedAt: job.queuedAt,
      endpoint: job.endpoint,
      start: start !== null && start.readyAt > job.queuedAt ? start : null,
    },
    write,
  );
}
