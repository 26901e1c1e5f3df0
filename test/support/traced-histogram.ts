/** Histograms of the library with exemplars, against which our own are held. */
import { Histogram, type HistogramConfiguration, type Registry } from 'prom-client';

/** Creates a histogram whose observations may have an exemplar. */
export function tracedHistogram(registry: Registry, config: HistogramConfiguration<string>): Histogram {
  // The library refuses exemplars in a registry of the other format, where they are just left out.
  const histogram = new Histogram({ ...config, enableExemplars: true, registers: [] });
  registry.registerMetric(histogram);
  return histogram;
}

/** Observes a value of a recorded trace. */
export function observeTraced(
  histogram: Histogram,
  { labels, value, traceId }: { readonly labels: Readonly<Record<string, string>>; readonly value: number; readonly traceId: string },
): void {
  histogram.observe({ labels, value, exemplarLabels: { trace_id: traceId } } as never);
}
