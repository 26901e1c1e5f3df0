/**
 * Webhook deliveries (invariant 12): when each is tried, and the consequences of a try.
 *
 *            finish                    2xx but 200, error, time-out: tries + 1
 *   (ended) ───────▶ PENDING ─────────────────────────────────────────────┐
 *                     │   ▲ │ 200                                         │
 *                     │   │ └────▶ removed     tries < 3: again after 10 s│
 *                     │   └───────────────────────────────────────────────┤
 *                     │ redeliver                              tries = 3  │
 *                     └──────────────────────────── FAILED ◀──────────────┘ kept for 24 h, then removed
 *
 * Deliveries are in the store; the state holds only those in progress. Each host has a limited share of the concurrent
 * deliveries, and the hosts whose last try failed share one half of them and a rate of tries (pace.ts). Dead or slow
 * receivers, in any number, therefore do not delay the deliveries to other hosts, nor take the scheduler's processor.
 */
import { CapstanError } from '../../../lib/errors.ts';
import { invariant, present } from '../../../lib/invariant.ts';
import type { DeliveryHead, NewDelivery } from '../ports/store.ts';

import type { StepContext } from '../context.ts';
import type { CoreEvent } from '../events.ts';
import type { WebhookDispatcherState, State } from '../state.ts';
import type { JobRecord } from '../state/jobs.ts';
import type { Now } from '../now.ts';
import { mayTryFailing, noteFailingTry, noteForgotten, paceWaitMs, readWaitMs } from './pace.ts';
import { warnOfFailure } from './warnings.ts';
import { shownUrl } from './webhook-url.ts';

/** Tries of a delivery: the first and 2 more. */
export const DELIVERY_TRIES = 3;
/** Time from the end of a failed try to the next one, ms. */
export const DELIVERY_SPACING_MS = 10_000;
/** Time for which a failed delivery is kept for redelivery on request, ms. */
export const DELIVERY_KEEP_MS = 86_400_000;

/** Limit of deliveries per read. */
const READ_LIMIT = 64;
/**
 * Limit of hosts remembered as failing; the least recently failed one is removed first, and reads are spaced then (pace.ts). A
 * read of due deliveries names all of them.
 */
export const FAILING_HOSTS = 20_000;

/** The end of a job as its webhook reports it, besides input and output. */
export interface EndFacts {
  readonly status: string;
  readonly error: string | null;
  readonly delayMs: number | null;
  readonly executionMs: number | null;
}

/** Returns the delivery of a job that ends now; null if no webhook was requested. */
export function deliveryOf(
  job: JobRecord,
  account: string,
  now: Now,
  { status, error, delayMs, executionMs }: EndFacts,
): NewDelivery | null {
  if (job.webhook === null) return null;
  const envelope = JSON.stringify({
    id: job.id,
    status,
    ...(error === null ? {} : { error }),
    ...(delayMs === null ? {} : { delayTime: delayMs }),
    ...(executionMs === null ? {} : { executionTime: executionMs }),
    webhook: shownUrl(job.webhook),
    // Not part of the payload: the try continues the trace.
    ...(job.trace === null ? {} : { trace: job.trace }),
  });
  const { id, token, endpoint, webhook: url } = job;
  return { id: `${id}_${token}`, account, endpoint, url, host: hostOf(shownUrl(url)), envelope, dueAt: now.wall };
}

/** A delivery is due at `at`, wall clock: checks now or at that time. */
export function noteDelivery(ctx: StepContext, at: number): void {
  ctx.state.deliveries.nextAt = Math.min(ctx.state.deliveries.nextAt, at);
  checkDeliveries(ctx);
}

/** Reads due deliveries if there is a free connection. */
export function checkDeliveries(ctx: StepContext): void {
  const dispatcher = ctx.state.deliveries;
  const room = ctx.state.settings.deliveriesOpen - dispatcher.open.size;
  if (dispatcher.reading || room <= 0 || dispatcher.nextAt > ctx.now.wall) return;
  const waitMs = readWaitMs(dispatcher, ctx.now);
  if (waitMs > 0) {
    dispatcher.nextAt = ctx.now.wall + waitMs;
    return;
  }
  dispatcher.reading = true;
  dispatcher.readAt = ctx.now.mono;
  // Later deliveries lower it again, and the next check finds them.
  dispatcher.nextAt = Number.POSITIVE_INFINITY;
  const skipHosts = fullHosts(ctx.state, ctx.now);
  dispatcher.backlog = skipHosts.length > 0;
  ctx.emit({
    kind: 'read-deliveries',
    skipHosts,
    skipIds: [...dispatcher.open.keys()],
    perHost: ctx.state.settings.deliveriesPerHost,
    limit: Math.min(room, READ_LIMIT),
  });
}

/** Returns the wall time of the next check; infinity if one is in progress or nothing could be sent. */
export function nextDeliveryCheck(state: State): number {
  const { reading, open, nextAt } = state.deliveries;
  return reading || open.size >= state.settings.deliveriesOpen ? Number.POSITIVE_INFINITY : nextAt;
}

/** Handles due deliveries: sends those for which there is a free connection. */
export function deliveriesRead(ctx: StepContext, event: Extract<CoreEvent, { kind: 'deliveries-read' }>): void {
  const dispatcher = ctx.state.deliveries;
  invariant(dispatcher.reading, 'due deliveries arrive for the read that requested them', { deliveries: event.deliveries.length });
  dispatcher.reading = false;
  let left = false;
  for (const delivery of event.deliveries) {
    if (dispatcher.open.has(delivery.id)) continue;
    if (!hasRoom(ctx.state, ctx.now, delivery.host)) {
      left = true;
      continue;
    }
    if (dispatcher.failing.has(delivery.host)) noteFailingTry(dispatcher, ctx.now);
    dispatcher.open.set(delivery.id, delivery);
    dispatcher.perHost.set(delivery.host, (dispatcher.perHost.get(delivery.host) ?? 0) + 1);
    ctx.emit({ kind: 'deliver', id: delivery.id });
  }
  // The read returned its limit, so there may be more. The next check skips full hosts, so this ends.
  const more = event.deliveries.length === event.limit;
  dispatcher.backlog ||= left || more || fullHosts(ctx.state, ctx.now).length > 0;
  // Failing hosts that were left out for the rate of their tries are looked at again when there are some.
  if (dispatcher.failing.size > 0 && !mayTryFailing(dispatcher, ctx.now))
    dispatcher.nextAt = Math.min(dispatcher.nextAt, ctx.now.wall + paceWaitMs(dispatcher, ctx.now));
  noteDelivery(ctx, more ? ctx.now.wall : (event.nextAt ?? Number.POSITIVE_INFINITY));
}

/** Handles the end of a try. */
export function deliveryTried(ctx: StepContext, event: Extract<CoreEvent, { kind: 'delivery-tried' }>): void {
  const dispatcher = ctx.state.deliveries;
  const delivery = dispatcher.open.get(event.id);
  // An earlier state of this process began the try.
  if (delivery === undefined) return;
  close(dispatcher, delivery);
  const { id, host, endpoint } = delivery;
  const tries = delivery.tries + 1;
  switch (event.result) {
    case 'gone':
      break;
    case 'delivered':
      dispatcher.failing.delete(host);
      ctx.write({ kind: 'delivery', id, after: delivery.tries, to: null });
      break;
    case 'failed': {
      noteFailing(dispatcher, host, ctx.now);
      const last = tries >= DELIVERY_TRIES;
      const dueAt = ctx.now.wall + (last ? DELIVERY_KEEP_MS : DELIVERY_SPACING_MS);
      ctx.write({
        kind: 'delivery',
        id,
        after: delivery.tries,
        to: { state: last ? 'FAILED' : 'PENDING', dueAt, tries, error: event.error },
      });
      if (!last) dispatcher.nextAt = Math.min(dispatcher.nextAt, dueAt);
      warnOfFailure(ctx, { webhook: id, endpoint, host, tries, error: event.error }, last);
    }
  }
  if (dispatcher.backlog) dispatcher.nextAt = Math.min(dispatcher.nextAt, ctx.now.wall);
  checkDeliveries(ctx);
}

/** Whether a delivery in progress is given up if it fails. */
export function isLastTry(state: State, id: string): boolean {
  return (state.deliveries.open.get(id)?.tries ?? 0) + 1 >= DELIVERY_TRIES;
}

/** Sends a pending or failed delivery again, with all its tries. */
export function redeliver(ctx: StepContext, call: number, id: string): void {
  if (ctx.state.deliveries.open.has(id)) {
    ctx.reply(call, new CapstanError('CONFLICT', `webhook ${id} is being sent`));
    return;
  }
  const to = { state: 'PENDING', dueAt: ctx.now.wall, tries: 0, error: null } as const;
  const write = ctx.write({ kind: 'delivery', id, after: null, to }, { kind: 'redeliver', call, id });
  noteDelivery(ctx, ctx.now.wall);
  ctx.reply(call, { kind: 'done' }, write);
}

function hostOf(url: string): string {
  return URL.canParse(url) ? new URL(url).host : url;
}

function hasRoom(state: State, now: Now, host: string): boolean {
  const { open, perHost, failing } = state.deliveries;
  const { deliveriesOpen, deliveriesPerHost } = state.settings;
  if (open.size >= deliveriesOpen || (perHost.get(host) ?? 0) >= deliveriesPerHost) return false;
  return !failing.has(host) || (openOfFailing(state.deliveries) < deliveriesOpen / 2 && mayTryFailing(state.deliveries, now));
}

/** Returns the hosts to which no more deliveries may be sent now. */
function fullHosts(state: State, now: Now): string[] {
  const { perHost, failing } = state.deliveries;
  const { deliveriesOpen, deliveriesPerHost } = state.settings;
  const isFull = openOfFailing(state.deliveries) >= deliveriesOpen / 2 || !mayTryFailing(state.deliveries, now);
  const full = new Set(isFull ? failing : []);
  for (const [host, count] of perHost) if (count >= deliveriesPerHost) full.add(host);
  return [...full];
}

function openOfFailing({ perHost, failing }: WebhookDispatcherState): number {
  let count = 0;
  for (const [host, open] of perHost) if (failing.has(host)) count += open;
  return count;
}

function noteFailing(dispatcher: WebhookDispatcherState, host: string, now: Now): void {
  const { failing } = dispatcher;
  failing.delete(host);
  failing.add(host);
  if (failing.size <= FAILING_HOSTS) return;
  noteForgotten(dispatcher, now);
  for (const oldest of failing) {
    failing.delete(oldest);
    return;
  }
}

function close(dispatcher: WebhookDispatcherState, delivery: DeliveryHead): void {
  dispatcher.open.delete(delivery.id);
  const left =
    present(dispatcher.perHost.get(delivery.host), 'a delivery in progress is counted for its host', { webhook: delivery.id }) - 1;
  if (left === 0) dispatcher.perHost.delete(delivery.host);
  else dispatcher.perHost.set(delivery.host, left);
}
