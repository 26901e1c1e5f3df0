/**
 * The rate of tries at hosts whose last try failed, all together: a try costs about a millisecond of processor time, and one at a
 * host that refuses connections takes no time at all. A delivery that fails is late in any case.
 *
 * Where more hosts fail than are remembered, one that is not remembered is likely to be one of them. For the next minute reads of
 * due deliveries are spaced, which bounds the tries at all hosts. They are spaced a little, too, while they must name thousands of
 * hosts to leave out: each then takes 10 ms.
 */
import type { WebhookDispatcherState } from '../state.ts';
import type { Now } from '../now.ts';

/** Time that a try takes of the rate, ms: 50 a second. */
const TRY_MS = 20;
/** Tries at once. */
const BURST = 64;
/** Time after which a failing host that was forgotten no longer counts, ms. */
const CROWDED_MS = 60_000;
/** Time between two reads meanwhile, ms: with 64 deliveries each 160 tries a second. */
const CROWDED_READ_MS = 400;
/** Hosts to leave out that make a read long, and the time between two such reads, ms. */
const MANY_HOSTS = 2_000;
const LONG_READ_MS = 200;

type Paces = Pick<WebhookDispatcherState, 'pacedUntil' | 'crowdedUntil' | 'readAt' | 'failing'>;

/** Whether a failing host may be tried now. */
export function mayTryFailing({ pacedUntil }: Pick<WebhookDispatcherState, 'pacedUntil'>, now: Now): boolean {
  return pacedUntil - now.mono < BURST * TRY_MS;
}

/** Counts a try at a failing host. */
export function noteFailingTry(dispatcher: Pick<WebhookDispatcherState, 'pacedUntil'>, now: Now): void {
  dispatcher.pacedUntil = Math.max(dispatcher.pacedUntil, now.mono) + TRY_MS;
}

/** Returns the time after which several tries are allowed again, ms: each look for due deliveries is a read of the store. */
export function paceWaitMs({ pacedUntil }: Pick<WebhookDispatcherState, 'pacedUntil'>, now: Now): number {
  return Math.max(0, pacedUntil - now.mono - (BURST * TRY_MS * 3) / 4);
}

/** A failing host was forgotten for another one. */
export function noteForgotten(dispatcher: Pick<WebhookDispatcherState, 'crowdedUntil'>, now: Now): void {
  dispatcher.crowdedUntil = now.mono + CROWDED_MS;
}

/** Returns the time until the next read of due deliveries is allowed, ms. */
export function readWaitMs(dispatcher: Paces, now: Now): number {
  const isLong = dispatcher.failing.size > MANY_HOSTS && !mayTryFailing(dispatcher, now);
  const spacing = now.mono < dispatcher.crowdedUntil ? CROWDED_READ_MS : isLong ? LONG_READ_MS : 0;
  return spacing === 0 ? 0 : Math.max(0, dispatcher.readAt + spacing - now.mono);
}
