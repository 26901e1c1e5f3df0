/** Jobs to slots: the least loaded ready worker, ties to the most recently used, normal jobs first. */
import { WorkerState } from '../../proto/gen/capstan/v1/common.ts';

import type { Decision, Write } from './effects.ts';
import type { EndpointImage, Image, JobImage, NodeImage, Now, WorkerImage } from './image.ts';
import { expire, leaseQueued } from './jobs.ts';
import { first, startRefill, wantsRefill } from './lanes.ts';
import { purgeStep } from './purge.ts';

/** A worker with a free slot, and its node's open session. */
export interface Slot {
  readonly worker: WorkerImage;
  readonly node: NodeImage;
  readonly session: number;
}

/** The slot the next job of an endpoint goes to, or null when there is none. */
export function freeSlot(image: Image, endpoint: EndpointImage, now: Now): Slot | null {
  let best: Slot | null = null;
  for (const id of endpoint.workers) {
    const worker = image.workers.get(id);
    if (worker === undefined || !isReady(worker) || worker.attempts.size >= worker.maxConcurrency || worker.notBefore > now.mono) continue;
    if (best !== null) {
      const less = worker.attempts.size - best.worker.attempts.size;
      if (less > 0 || (less === 0 && worker.lastUsed < best.worker.lastUsed)) continue;
    }
    const node = image.nodes.get(worker.node);
    if (node?.session == null) continue;
    best = { worker, node, session: node.session };
  }
  return best;
}

/** True when the agent says the worker takes jobs and nobody asked it to go. */
export function isReady(worker: WorkerImage): boolean {
  if (worker.drain || worker.status === null) return false;
  return worker.status.state === WorkerState.IDLE || worker.status.state === WorkerState.RUNNING;
}

/** Hands out queued jobs while there are free slots, and fills the window up from the store. */
export function fill(image: Image, out: Decision, now: Now, endpoint: EndpointImage): void {
  if (endpoint.purge !== null) purgeStep(image, out, now, endpoint);
  for (const lane of endpoint.lanes) {
    for (let job = first(lane); job !== null; job = first(lane)) {
      if (job.deleteAt <= now.wall) {
        expire(image, out, job);
        continue;
      }
      const slot = freeSlot(image, endpoint, now);
      if (slot === null) break;
      const write = leaseQueued(image, out, endpoint, job, slot.worker, slot.node.incarnation);
      sendJob(out, job, slot, write);
    }
    if (wantsRefill(lane, image.settings.windowSize)) {
      const { after, limit } = startRefill(lane, image.settings.windowSize);
      out.do({ effect: 'read-head', endpoint: endpoint.config.id, priority: lane === endpoint.lanes[0] ? 0 : 1, after, limit });
    }
  }
}

/** The effect that carries a leased job to its agent, once its lease is durable. */
export function sendJob(out: Decision, job: JobImage, slot: Slot, write: Write): void {
  out.do(
    {
      effect: 'dispatch',
      node: slot.node.config.id,
      session: slot.session,
      no: job.no,
      job: job.id,
      token: job.token,
      worker: slot.worker.id,
      executionTimeoutMs: job.executionTimeoutMs,
      attempt: job.attempts + 1,
      hasS3: job.hasS3,
      webhook: job.webhook ?? '',
    },
    write,
  );
}
