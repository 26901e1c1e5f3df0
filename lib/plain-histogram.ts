/**
 * A histogram whose observation is a few additions: the library resolves the labels of each observation again. Only a
 * scrape renders it, in the form that the library's registry reads.
 */
import type { Registry } from 'prom-client';

type Labels = Readonly<Record<string, string>>;

export interface HistogramSpec {
  readonly name: string;
  readonly help: string;
  /** Upper bounds, ascending. */
  readonly buckets: readonly number[];
}

interface Exemplar {
  readonly labelSet: Labels;
  readonly value: number;
  /** Wall clock, s since 1970. */
  readonly timestamp: number;
}

/** A line of the text, as the registry reads it. */
interface Line {
  readonly metricName: string;
  readonly labels: Readonly<Record<string, string | number>>;
  readonly value: number;
  readonly exemplar: Exemplar | null;
}

export class PlainHistogram {
  readonly name: string;
  readonly help: string;
  readonly type = 'histogram';
  readonly aggregator = 'sum';
  readonly #bounds: readonly number[];
  readonly #series = new Set<HistogramSeries>();

  constructor(registry: Registry, { name, help, buckets }: HistogramSpec) {
    this.name = name;
    this.help = help;
    this.#bounds = buckets;
    registry.registerMetric(this as never);
  }

  /** Adds a series. The caller keeps it: equal labels twice would be two series. */
  series(labels: Labels): HistogramSeries {
    const series = new HistogramSeries(labels, this.#bounds);
    this.#series.add(series);
    return series;
  }

  /** Forgets what was observed of a series. */
  remove(series: HistogramSeries): void {
    this.#series.delete(series);
  }

  /** Called by the registry. */
  get(): Promise<object> {
    const { name, help, type, aggregator } = this;
    return Promise.resolve({ name, help, type, aggregator, values: [...this.#series].flatMap((series) => series.lines(name)) });
  }
}

export class HistogramSeries {
  readonly #labels: Labels;
  readonly #bounds: readonly number[];
  /** By bucket; the last one has no bound. */
  readonly #counts: number[];
  #exemplars: (Exemplar | undefined)[] | null = null;
  #sum = 0;
  #count = 0;

  /** Created by `PlainHistogram.series`. */
  constructor(labels: Labels, bounds: readonly number[]) {
    this.#labels = labels;
    this.#bounds = bounds;
    this.#counts = Array.from({ length: bounds.length + 1 }, () => 0);
  }

  observe(value: number): void {
    this.#add(value);
  }

  /** Observes a value of a recorded trace: the last one of each bucket is its exemplar. */
  observeTraced(value: number, traceId: string): void {
    const bucket = this.#add(value);
    this.#exemplars ??= [];
    this.#exemplars[bucket] = { labelSet: { trace_id: traceId }, value, timestamp: Date.now() / 1000 };
  }

  /** The lines of the text; `name`: of the histogram. A series with labels has none before its first observation. */
  lines(name: string): Line[] {
    if (this.#count === 0 && Object.keys(this.#labels).length > 0) return [];
    let below = 0;
    const lines = this.#counts.map((count, at): Line => {
      below += count;
      const labels = { le: this.#bounds[at] ?? '+Inf', ...this.#labels };
      return { metricName: `${name}_bucket`, labels, value: below, exemplar: this.#exemplars?.[at] ?? null };
    });
    const line = (suffix: string, value: number): Line => ({
      metricName: `${name}_${suffix}`,
      labels: this.#labels,
      value,
      exemplar: null,
    });
    return [...lines, line('sum', this.#sum), line('count', this.#count)];
  }

  #add(value: number): number {
    const bounds = this.#bounds;
    let bucket = 0;
    while (bucket < bounds.length && value > (bounds[bucket] ?? Number.POSITIVE_INFINITY)) bucket += 1;
    this.#counts[bucket] = (this.#counts[bucket] ?? 0) + 1;
    this.#sum += value;
    this.#count += 1;
    return bucket;
  }
}
