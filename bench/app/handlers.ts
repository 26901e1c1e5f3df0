/** The handlers of the load tests. */

/** Does nothing, so that a load measures only the cost of the service. */
export function noop(text: string, n: number): number {
  return n;
}

/**
 * Time at which the handler was entered, ns of the host's monotonic clock, which all processes of a host share. A
 * string, because the number exceeds the exact range of JSON parsers.
 */
export function stamp(): string {
  return process.hrtime.bigint().toString();
}

/** Never called: its endpoint has no workers. */
export function parked(text: string, n: number): number {
  return n;
}
