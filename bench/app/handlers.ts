/** What the load tests run. */

/** Does nothing: what is left is the service's own cost. */
export function noop(text: string, n: number): number {
  return n;
}

/**
 * When the handler was entered, ns of the host's monotonic clock, which all processes of a host
 * share; as text, since the number is beyond what JSON's readers keep exact.
 */
export function stamp(): string {
  return process.hrtime.bigint().toString();
}

/** Never called: its endpoint has no workers. */
export function parked(text: string, n: number): number {
  return n;
}
