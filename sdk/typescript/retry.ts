/** Decides when to retry a call: pure functions over a policy. */

export interface RetryPolicy {
  /** Maximum number of retries; 0 for none. */
  readonly retries: number;
  /** The first pause, ms; it doubles with each attempt. */
  readonly firstPauseMs: number;
  /** The longest pause, ms; a longer Retry-After takes precedence. */
  readonly longestPauseMs: number;
}

export const defaultRetryPolicy: RetryPolicy = { retries: 5, firstPauseMs: 200, longestPauseMs: 10_000 };

/** True when a retry may succeed: too many requests, or an error of the service. */
export function isRetryable(status: number): boolean {
  return status === 429 || (status >= 500 && status !== 501);
}

/**
 * Returns the pause before retry number `attempt` (from 0), ms; null for no retry. `retryAfter` is the header, in
 * seconds; `random` is in [0, 1).
 */
export function pauseBefore(policy: RetryPolicy, attempt: number, retryAfter: string | null, random: number): number | null {
  if (attempt >= policy.retries) return null;
  const full = Math.min(policy.longestPauseMs, policy.firstPauseMs * 2 ** Math.min(attempt, 20));
  // Jitter over the upper half: callers that were rejected together do not retry together.
  const pause = full / 2 + (full / 2) * random;
  const requested = retryAfter === null || retryAfter.trim() === '' ? Number.NaN : Number(retryAfter) * 1000;
  return Number.isFinite(requested) && requested >= 0 ? Math.max(pause, requested) : pause;
}
