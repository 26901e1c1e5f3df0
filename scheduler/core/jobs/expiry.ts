/** Jobs whose ttl or retention has ended: which of the due jobs in the store are removed. */
import { invariant } from '../../../lib/invariant.ts';
import { StopReason } from '../../../proto/gen/capstan/v1/nodes.ts';

import type { StepContext } from '../context.ts';
import type { CoreEvent } from '../events.ts';
import { readClosed } from '../state.ts';
import { fromRow } from './job-records.ts';
import { DELETION_GATHER_MS, expire, expireEnded, noteDeletion } from './jobs.ts';
import { stopAttempt } from './stop-attempt.ts';

/** Removes the jobs that the store reported as due (ttl or retention over). */
export function dueRead(ctx: StepContext, event: Extract<CoreEvent, { kind: 'due-read' }>): void {
  invariant(ctx.state.readingDue, 'due jobs arrive for the read that requested them', { jobs: event.jobs.length });
  ctx.state.readingDue = false;
  // Submissions and ends during the read have lowered nextDeletion themselves.
  if (event.nextAt !== null) noteDeletion(ctx.state, event.nextAt <= event.wall ? ctx.now.wall - DELETION_GATHER_MS : event.nextAt);
  for (const row of event.jobs) {
    const job = ctx.state.jobs.get(row.id);
    if (job !== undefined && job.seq === row.seq) {
      if (job.deleteAt > ctx.now.wall) continue;
      const { lease } = job;
      expire(ctx, job);
      if (lease !== null) stopAttempt(ctx, lease.node, job, StopReason.EXPIRED);
      continue;
    }
    if (ctx.state.reads.ended.has(row.seq)) continue;
    if (row.state === 'IN_QUEUE') expire(ctx, fromRow(row));
    else expireEnded(ctx, row, event.wall);
  }
  readClosed(ctx.state, ctx.state.reads.due);
}
