/**
 * The rate of tries at hosts whose last try failed, all together: a try costs about a millisecond of processor time, and one at a
 * host that refuses connections takes no time at all. A delivery that fails is late in any case.
 */
import type { WebhookDispatcherState } from '../state.ts';
import type { Now } from '../now.ts';

/** Time that a try takes of the rate, ms: 50 a second. */
const TRY_MS = 20;
/** Tries at once. */
const BURST = 64;

/** Whether a failing host may be tried now. */
export function mayTryFailing({ pacedUntil }: Pick<WebhookDispatcherState, 'pacedUntil'>, now: Now): boolean {
  return pacedUntil - now.mono < BURST * TRY_MS;
}

/** Counts a try at a failing host. */
export function noteFailingTry(outbox: Pick<WebhookDispatcherState, 'pacedUntil'>, now: Now): void {
  outbox.pacedUntil = Math.max(outbox.pacedUntil, now.mono) + TRY_MS;
}

/** Returns the time after which several tries are allowed again, ms: each look for due deliveries is a read of the store. */
export function paceWaitMs({ pacedUntil }: Pick<WebhookDispatcherState, 'pacedUntil'>, now: Now): number {
  return Math.max(0, pacedUntil - now.mono - (BURST * TRY_MS * 3) / 4);
}
