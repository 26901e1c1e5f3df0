/** The figures of several processes of one gateway, summed (`aggregator` of a metric says where another function is right). */
import { AggregatorRegistry, type Registry } from 'prom-client';

interface Exemplar {
  /** Wall clock, s since 1970. */
  readonly timestamp: number;
}

interface Value {
  readonly value: number;
  readonly labels: Readonly<Record<string, string | number>>;
  readonly metricName?: string;
  exemplar?: Exemplar | null;
}

/** A metric as the library's registry returns it. */
export interface MetricData {
  readonly name: string;
  readonly type: string;
  readonly values: readonly Value[];
}

/** Returns the figures of every process of the gateway, this one included. */
export type GatherFigures = () => Promise<readonly (readonly MetricData[])[]>;

/** Joins the figures of several processes. Of each bucket of a histogram the newest exemplar is kept. */
export function joinFigures(all: readonly (readonly MetricData[])[]): Registry {
  // The library takes no exemplars over.
  const exemplars = new Map<string, Exemplar>();
  for (const { values } of all.flat()) {
    for (const value of values) {
      if (value.exemplar === undefined || value.exemplar === null) continue;
      const known = exemplars.get(nameOf(value));
      if (known === undefined || known.timestamp < value.exemplar.timestamp) exemplars.set(nameOf(value), value.exemplar);
    }
  }
  const joined: Registry = AggregatorRegistry.aggregate(all as object[]);
  for (const { values } of exemplars.size === 0 ? [] : figuresOf(joined))
    for (const value of values) value.exemplar = exemplars.get(nameOf(value)) ?? null;
  return joined;
}

/**
 * Adds the counters and histograms of an ended process to those of the ones before it. Without them the sums would fall when a process
 * ends, and a counter that falls means that all of it was reset.
 */
export function addRetired(sum: readonly MetricData[], ended: readonly MetricData[]): readonly MetricData[] {
  return figuresOf(joinFigures([sum, ended.filter(({ type }) => type === 'counter' || type === 'histogram')]));
}

/** Of a joined registry, whose figures are fixed. */
function figuresOf(joined: Registry): readonly MetricData[] {
  return (joined.getMetricsAsArray() as unknown as { get(): MetricData }[]).map((metric) => metric.get());
}

function nameOf({ metricName = '', labels }: Value): string {
  return `${metricName} ${JSON.stringify(Object.entries(labels).toSorted(([left], [right]) => left.localeCompare(right)))}`;
}
