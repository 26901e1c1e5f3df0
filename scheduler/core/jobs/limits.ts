/** The present rate limits of an endpoint: its own or the account's, raised by its running workers. */
import type { State } from '../state.ts';
import type { EndpointRecord } from '../state/endpoints.ts';
import { listedWorker } from '../references.ts';
import { effectiveLimit, Usage, type Limit, type LimitedOperation } from '../state/rate-limits.ts';

export function usageOf(endpoint: EndpointRecord, operation: LimitedOperation): Usage {
  let usage = endpoint.usage.get(operation);
  if (usage === undefined) {
    usage = new Usage();
    endpoint.usage.set(operation, usage);
  }
  return usage;
}

export function limitOf(state: State, endpoint: EndpointRecord, operation: LimitedOperation): Limit {
  const { limits, requestsPerWorker } = endpoint.config;
  const base = limits[operation] ?? state.settings.limits[operation];
  const perWorker = requestsPerWorker ?? state.settings.requestsPerWorker;
  // Too few workers to raise the limit, even if all of them run.
  if (base.requests === 0 || endpoint.workers.size * perWorker <= base.requests) return base;
  let running = 0;
  for (const id of endpoint.workers) {
    if (listedWorker(state, id).attempts.size > 0) running++;
  }
  return effectiveLimit(base, running, perWorker);
}
