/** Metrics of each part's own process: CPU, memory, event loop, garbage collection. */
import { collectDefaultMetrics, type Registry } from 'prom-client';

/** Gauges with names like counters, and lists that `active_resources` includes as well. */
const LEFT_OUT = ['active_handles', 'active_handles_total', 'active_requests', 'active_requests_total', 'active_resources_total'];

/** Adds the metrics of this process to a registry; `prefix` names the part, `capstan_gateway_`. */
export function addProcessMetrics(register: Registry, prefix: string): void {
  collectDefaultMetrics({ register, prefix });
  for (const name of LEFT_OUT) register.removeSingleMetric(`${prefix}nodejs_${name}`);
}
