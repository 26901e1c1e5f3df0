/** Handles the store's replies to waiting requests: a row that was read, or a refused operation. */
import { CapstanError } from '../../../lib/errors.ts';
import { jobNotFound } from '../../../lib/job-errors.ts';
import type { Outcome, WholeJob } from '../ports/store.ts';

import type { StepContext } from '../context.ts';
import type { Cause, ReadPurpose } from '../events.ts';
import { readClosed, readOpened } from '../state.ts';
import { cancelStored } from './cancel.ts';
import { webhookNotFound } from './errors.ts';
import { liveJob } from './job-lookup.ts';
import { retryRefused, retryStored } from './retry.ts';
import { resolveWaiter } from './status.ts';
import { submissionRead, submissionRefused } from './submit.ts';
import { findWaiter } from './waiters.ts';

/** Handles the row of a job that was not in the state. */
export function jobRead(ctx: StepContext, purpose: ReadPurpose, found: WholeJob | null): void {
  const { ended } = ctx.state.reads;
  // The row of a job that ended since the read was requested may be of the time before: it is read again, after the commit. By then it
  // may wait once more, or have ended once more, because it was retried.
  const hasEndedSince = found !== null && (ended.get(found.job.seq) ?? 0) > purpose.read;
  const isOutdated = hasEndedSince && (found.job.state === 'IN_QUEUE' || purpose.kind === 'retry');
  readClosed(ctx.state, purpose.read);
  if (isOutdated) {
    const { endpoint, id } = found.job;
    ctx.emit({ kind: 'read-job', purpose: { ...purpose, read: readOpened(ctx.state) }, endpoint, job: id });
    return;
  }
  switch (purpose.kind) {
    case 'waiter': {
      const waiter = findWaiter(ctx.state, purpose.ref);
      if (waiter?.job === purpose.job) resolveWaiter(ctx, waiter, found);
      return;
    }
    case 'submit':
      return submissionRead(ctx, purpose, found);
    case 'cancel':
    case 'retry': {
      const live = liveJob(ctx.state, ctx.now, purpose.endpoint, purpose.job);
      if (live === null && (found === null || found.job.deleteAt <= ctx.now.wall)) ctx.reply(purpose.call, jobNotFound(purpose.job));
      else if (purpose.kind === 'cancel') cancelStored(ctx, purpose.call, live, found);
      else retryStored(ctx, purpose.call, live, found);
    }
  }
}

/** Handles the refusal of an operation that a caller requested: undoes the state's changes, and replies. */
export function refused(ctx: StepContext, outcome: Outcome, cause: Cause): void {
  switch (cause.kind) {
    case 'submit':
      return submissionRefused(ctx, outcome, cause);
    case 'retry':
      return retryRefused(ctx, cause);
    case 'redeliver':
      ctx.reply(cause.call, webhookNotFound(cause.id));
      return;
    case 'command':
      ctx.reply(cause.call, new CapstanError('CONFLICT', 'the state changed concurrently; read it again'));
  }
}
