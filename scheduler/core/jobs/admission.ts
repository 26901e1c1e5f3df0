/** Checks a request against its endpoint's rate limits. From then on it counts as open. */
import type { CapstanError } from '../../../lib/errors.ts';
import { invariant } from '../../../lib/invariant.ts';
import { endpointNotFound } from '../../../lib/job-errors.ts';

import type { StepContext } from '../context.ts';
import type { CountedCall, Counting, Ref } from '../events.ts';
import type { State } from '../state.ts';
import type { EndpointRecord } from '../state/endpoints.ts';
import { limitOf, usageOf } from './limits.ts';
import { tryAcquire, type Usage } from '../state/rate-limits.ts';
import { failureReply } from './views.ts';

/**
 * Counts a request of a channel until it is replied to or abandoned. Returns undefined if it exceeds the limit and was
 * refused.
 */
export function admit(
  ctx: StepContext,
  endpoint: EndpointRecord | undefined,
  event: { readonly ref: Ref; readonly counting: Counting },
): Usage | null | undefined {
  const { limitedAs, resent } = event.counting;
  if (limitedAs === null || endpoint === undefined) return null;
  const usage = usageOf(endpoint, limitedAs);
  const asking = { operation: limitedAs, now: ctx.now.mono, resent };
  const error = tryAcquire(usage, limitOf(ctx.state, endpoint, limitedAs), asking);
  if (error === null) return usage;
  refuse(ctx, event.ref, error);
  return undefined;
}

/** Refuses a request that does not count as open. */
export function refuse(ctx: StepContext, ref: Ref, error: CapstanError): void {
  ctx.emit({ kind: 'reply', channel: ref.channel, reply: failureReply(ref.request, error), usage: null });
}

/** Counts a unary call until it ends. Returns false if it was refused. */
export function admitCall(
  ctx: StepContext,
  call: number,
  { endpoint: id, counted }: { readonly endpoint: string; readonly counted?: CountedCall },
): boolean {
  if (counted === undefined) return true;
  const endpoint = ctx.state.endpoints.get(id);
  const refusal = endpoint === undefined ? endpointNotFound(id) : count(ctx, endpoint, counted);
  if (refusal !== null) ctx.reply(call, refusal);
  return refusal === null;
}

/** Ends a call: it no longer counts as open. */
export function endCall({ openCalls }: State, ticket: number): void {
  // A call that was refused, or that an earlier state counted, is not open here.
  openCalls.get(ticket)?.release();
  openCalls.delete(ticket);
}

function count(ctx: StepContext, endpoint: EndpointRecord, { operation, ticket }: CountedCall): CapstanError | null {
  invariant(!ctx.state.openCalls.has(ticket), 'a call has a ticket of its own', { ticket, operation });
  const usage = usageOf(endpoint, operation);
  const refusal = tryAcquire(usage, limitOf(ctx.state, endpoint, operation), { operation, now: ctx.now.mono, resent: false });
  if (refusal === null) ctx.state.openCalls.set(ticket, usage);
  return refusal;
}
