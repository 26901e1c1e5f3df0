/** The two text formats of metrics. Exemplars, which link a bucket of a histogram to a trace, exist only in OpenMetrics. */
import { Registry } from 'prom-client';

export type MetricsFormat = 'prometheus' | 'openmetrics';

/** Content types of the formats. */
export const METRICS_TYPES: Readonly<Record<MetricsFormat, string>> = {
  prometheus: 'text/plain; version=0.0.4; charset=utf-8',
  openmetrics: 'application/openmetrics-text; version=1.0.0; charset=utf-8',
};

/** A metric as a registry renders it. */
interface Rendered {
  readonly name: string;
  readonly type: string;
  get(): Promise<{ readonly name: string }>;
}

const END_MARK = /\n?# EOF\s*$/;

/** Returns the metrics of a registry; an OpenMetrics text has its end mark. */
export async function metricsText(registry: Registry, format: MetricsFormat): Promise<string> {
  if (format === 'prometheus') return registry.metrics();
  const open = new Registry<typeof Registry.OPENMETRICS_CONTENT_TYPE>();
  open.setContentType(Registry.OPENMETRICS_CONTENT_TYPE);
  for (const metric of registry.getMetricsAsArray() as unknown as Rendered[]) open.registerMetric(openMetric(metric) as never);
  return open.metrics();
}

/** In OpenMetrics the name of a counter is without `_total`. The library would rename the counter itself, for the other format, too. */
function openMetric(metric: Rendered): Rendered {
  if (metric.type !== 'counter') return metric;
  const name = metric.name.replace(/_total$/, '');
  return { name, type: metric.type, get: async () => ({ ...(await metric.get()), name }) };
}

/** Joins texts of one format to one document; empty ones are left out. */
export function joinMetrics(texts: readonly string[], format: MetricsFormat): string {
  const present = texts.filter((text) => text !== '');
  if (format === 'prometheus') return present.join('\n');
  // OpenMetrics has no empty lines.
  const bodies = present.map((text) => text.replace(END_MARK, '').replaceAll(/\n{2,}/g, '\n')).filter((text) => text !== '');
  return [...bodies, '# EOF\n'].join('\n');
}
