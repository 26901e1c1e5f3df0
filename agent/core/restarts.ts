/**
 * Limits how often the workers of an endpoint start again after their own work ended them. That is no failure of a start and
 * has no back-off; without a limit every request could still cost the node a start.
 */
import type { State } from './state.ts';

/** Restarts of an endpoint's workers without a wait. */
export const RESTART_BURST = 10;
/** Time after which one more has none, ms. */
export const RESTART_EVERY_MS = 500;

/** Takes the endpoint's next restart; returns when it is due, monotonic ms. */
export function takeRestart({ restarts }: State, endpointId: string, now: number): number {
  // The time at which the burst is whole again grows with each restart; what has passed is of no use.
  for (const [id, at] of restarts) if (at <= now) restarts.delete(id);
  const wholeAt = Math.max(now, restarts.get(endpointId) ?? 0) + RESTART_EVERY_MS;
  restarts.set(endpointId, wholeAt);
  return Math.max(now, wholeAt - RESTART_BURST * RESTART_EVERY_MS);
}
