/**
 * Webhook deliveries (invariant 12): which are tried when, and what
 * becomes of a try.
 *
 *            finish                    2xx but 200, error, time-out: tries + 1
 *   (ended) ───────▶ PENDING ─────────────────────────────────────────────┐
 *                     │   ▲ │ 200                                         │
 *                     │   │ └────▶ removed     tries < 3: again after 10 s│
 *                     │   └───────────────────────────────────────────────┤
 *                     │ redeliver                              tries = 3  │
 *                     └──────────────────────────── FAILED ◀──────────────┘ kept for 24 h, then removed
 *
 * Deliveries lie in the store; the state knows only those being sent. Each host has a bounded share
 * of what is sent at once, and the hosts whose last try failed share one half of it: however many
 * receivers are dead or slow, the others' deliveries leave at once.
 */
import { CapstanError } from '../../../lib/errors.ts';
import type { HookHead, NewHook } from '../../store/store.ts';

import type { StepContext } from '../context.ts';
import type { CoreEvent } from '../events.ts';
import type { WebhookDispatcherState, State } from '../state.ts';
import type { JobRecord } from '../state/jobs.ts';
import type { Now } from '../now.ts';
import { shownUrl } from './webhook-url.ts';

/** Tries of a delivery: the first and 2 more. */
export const HOOK_TRIES = 3;
/** From the end of a failed try to the next one, ms. */
export const HOOK_SPACING_MS = 10_000;
/** How long a failed delivery is kept to be sent again on request, ms. */
export const HOOK_KEEP_MS = 86_400_000;

/** Deliveries read at once. */
const READ_LIMIT = 64;
/** Hosts remembered as failing; the one that failed longest ago is forgotten first. */
const FAILING_HOSTS = 1_000;

/** What a job's end says in its webhook, beside input and output. */
export interface EndFacts {
  readonly status: string;
  readonly error: string | null;
  readonly delayMs: number | null;
  readonly executionMs: number | null;
}

/** The delivery of a job that ends now; null when nobody asked for one. */
export function hookOf(job: JobRecord, account: string, now: Now, { status, error, delayMs, executionMs }: EndFacts): NewHook | null {
  if (job.webhook === null) return null;
  const envelope = JSON.stringify({
    id: job.id,
    status,
    ...(error === null ? {} : { error }),
    ...(delayMs === null ? {} : { delayTime: delayMs }),
    ...(executionMs === null ? {} : { executionTime: executionMs }),
    webhook: shownUrl(job.webhook),
  });
  const { id, token, endpoint, webhook: url } = job;
  return { id: `${id}_${token}`, account, endpoint, url, host: hostOf(shownUrl(url)), envelope, dueAt: now.wall };
}

/** Something is due at `at`, wall clock: looks for it now, or when its time comes. */
export function noteHook(ctx: StepContext, at: number): void {
  ctx.state.hooks.nextAt = Math.min(ctx.state.hooks.nextAt, at);
  checkHooks(ctx);
}

/** Asks the store for due deliveries when there is room to send any. */
export function checkHooks(ctx: StepContext): void {
  const desk = ctx.state.hooks;
  const room = ctx.state.settings.hooksOpen - desk.open.size;
  if (desk.reading || room <= 0 || desk.nextAt > ctx.now.wall) return;
  desk.reading = true;
  // Whatever is noted from here on lowers it again, and is found by the next look.
  desk.nextAt = Number.POSITIVE_INFINITY;
  const skipHosts = fullHosts(ctx.state);
  desk.backlog = skipHosts.length > 0;
  ctx.emit({
    kind: 'read-hooks',
    skipHosts,
    skipIds: [...desk.open.keys()],
    perHost: ctx.state.settings.hooksPerHost,
    limit: Math.min(room, READ_LIMIT),
  });
}

/** Wall time of the next look; infinity when one is under way or nothing could be sent anyway. */
export function nextHookCheck(state: State): number {
  const { reading, open, nextAt } = state.hooks;
  return reading || open.size >= state.settings.hooksOpen ? Number.POSITIVE_INFINITY : nextAt;
}

/** Due deliveries were read: those that there is room for are sent. */
export function hooksRead(ctx: StepContext, event: Extract<CoreEvent, { kind: 'hooks-read' }>): void {
  const desk = ctx.state.hooks;
  desk.reading = false;
  let left = false;
  for (const hook of event.hooks) {
    if (desk.open.has(hook.id)) continue;
    if (!hasRoom(ctx.state, hook.host)) {
      left = true;
      continue;
    }
    desk.open.set(hook.id, hook);
    desk.perHost.set(hook.host, (desk.perHost.get(hook.host) ?? 0) + 1);
    ctx.emit({ kind: 'deliver', id: hook.id });
  }
  // As many as were asked for: there may be more. Whoever had no room is skipped by the next look, so
  // this comes to an end.
  const more = event.hooks.length === event.limit;
  desk.backlog ||= left || more || fullHosts(ctx.state).length > 0;
  noteHook(ctx, more ? ctx.now.wall : (event.nextAt ?? Number.POSITIVE_INFINITY));
}

/** A try is over. */
export function hookTried(ctx: StepContext, event: Extract<CoreEvent, { kind: 'hook-tried' }>): void {
  const desk = ctx.state.hooks;
  const hook = desk.open.get(event.id);
  if (hook === undefined) return;
  close(desk, hook);
  const { id, host, endpoint } = hook;
  const tries = hook.tries + 1;
  switch (event.result) {
    case 'gone':
      break;
    case 'delivered':
      desk.failing.delete(host);
      ctx.write({ kind: 'hook', id, after: hook.tries, to: null });
      break;
    case 'failed': {
      noteFailing(desk, host);
      const last = tries >= HOOK_TRIES;
      const dueAt = ctx.now.wall + (last ? HOOK_KEEP_MS : HOOK_SPACING_MS);
      ctx.write({ kind: 'hook', id, after: hook.tries, to: { state: last ? 'FAILED' : 'PENDING', dueAt, tries, error: event.error } });
      if (!last) desk.nextAt = Math.min(desk.nextAt, dueAt);
      // The host without its path: a webhook's path and query often are its secret.
      const facts = { webhook: id, endpoint, host, tries, error: event.error };
      ctx.emit({ kind: 'log', level: 'warn', message: last ? 'webhook failed; no tries left' : 'webhook try failed', facts });
    }
  }
  if (desk.backlog) desk.nextAt = Math.min(desk.nextAt, ctx.now.wall);
  checkHooks(ctx);
}

/** True when a delivery that is being sent is given up if it fails. */
export function isLastTry(state: State, id: string): boolean {
  return (state.hooks.open.get(id)?.tries ?? 0) + 1 >= HOOK_TRIES;
}

/** Sends a pending or failed delivery anew, with all its tries. */
export function redeliver(ctx: StepContext, call: number, id: string): void {
  if (ctx.state.hooks.open.has(id)) {
    ctx.reply(call, new CapstanError('CONFLICT', `webhook ${id} is being sent`));
    return;
  }
  const to = { state: 'PENDING', dueAt: ctx.now.wall, tries: 0, error: null } as const;
  const write = ctx.write({ kind: 'hook', id, after: null, to }, { kind: 'redeliver', call, id });
  noteHook(ctx, ctx.now.wall);
  ctx.reply(call, { kind: 'done' }, write);
}

function hostOf(url: string): string {
  return URL.canParse(url) ? new URL(url).host : url;
}

function hasRoom(state: State, host: string): boolean {
  const { open, perHost, failing } = state.hooks;
  const { hooksOpen, hooksPerHost } = state.settings;
  if (open.size >= hooksOpen || (perHost.get(host) ?? 0) >= hooksPerHost) return false;
  return !failing.has(host) || openOfFailing(state.hooks) < hooksOpen / 2;
}

/** Hosts to which nothing more may be sent for now. */
function fullHosts(state: State): string[] {
  const { perHost, failing } = state.hooks;
  const { hooksOpen, hooksPerHost } = state.settings;
  const full = new Set(openOfFailing(state.hooks) >= hooksOpen / 2 ? failing : []);
  for (const [host, count] of perHost) if (count >= hooksPerHost) full.add(host);
  return [...full];
}

function openOfFailing({ perHost, failing }: WebhookDispatcherState): number {
  let count = 0;
  for (const [host, open] of perHost) if (failing.has(host)) count += open;
  return count;
}

function noteFailing({ failing }: WebhookDispatcherState, host: string): void {
  failing.delete(host);
  failing.add(host);
  if (failing.size <= FAILING_HOSTS) return;
  for (const oldest of failing) {
    failing.delete(oldest);
    return;
  }
}

function close(desk: WebhookDispatcherState, hook: HookHead): void {
  desk.open.delete(hook.id);
  const left = (desk.perHost.get(hook.host) ?? 1) - 1;
  if (left === 0) desk.perHost.delete(hook.host);
  else desk.perHost.set(hook.host, left);
}
