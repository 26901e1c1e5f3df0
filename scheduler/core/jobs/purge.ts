/**
 * Purges a queue: every job that waited at the time of the request ends CANCELLED. Jobs beyond the head window are read
 * by the ordinary refills, so a purge of a million jobs takes many small steps. Jobs submitted in the meantime are left
 * alone.
 */
import { invariant } from '../../../lib/invariant.ts';
import { PURGED_ERROR } from './errors.ts';
import type { StepContext } from '../context.ts';
import type { State } from '../state.ts';
import type { EndpointRecord } from '../state/endpoints.ts';
import { expire, finishLive } from './jobs.ts';
import { first } from './lanes.ts';

/**
 * Starts a purge, or joins the one in progress. `error` becomes the error of its jobs. Without a `call` no reply is
 * sent.
 */
export function startPurge(state: State, endpoint: EndpointRecord, call: number | null, error: string = PURGED_ERROR): void {
  endpoint.purge ??= { upTo: 0, removed: 0, error, calls: [] };
  invariant(endpoint.purge.upTo < state.nextQueuePosition, 'positions of a queue grow', { endpoint: endpoint.config.id });
  endpoint.purge.upTo = state.nextQueuePosition - 1;
  endpoint.purge.error = error;
  if (call !== null) endpoint.purge.calls.push(call);
}

/** Ends the jobs in the window. Replies to the callers when no job at or below the mark is left. */
export function purgeStep(ctx: StepContext, endpoint: EndpointRecord): void {
  const purge = endpoint.purge;
  if (purge === null) return;
  let left = false;
  for (const lane of endpoint.lanes) {
    for (let job = first(lane); job !== null && job.queuePosition <= purge.upTo; job = first(lane)) {
      if (job.deleteAt <= ctx.now.wall) {
        expire(ctx, job);
        continue;
      }
      finishLive(ctx, job, { event: 'cancel', output: null, error: purge.error, executionMs: null, agoMs: 0 });
      purge.removed++;
    }
    if (lane.covered < purge.upTo || lane.refill !== null) left = true;
  }
  if (left) return;
  endpoint.purge = null;
  // After the commit, whatever the store's outcome of each end: a job whose submission the store refused cannot be
  // ended and does not affect the reply.
  for (const call of purge.calls) ctx.reply(call, { kind: 'purged', removed: purge.removed });
}
