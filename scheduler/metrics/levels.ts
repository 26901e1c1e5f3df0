/** Gauges of what is there at the moment of a scrape. */
import { Gauge, type Registry } from 'prom-client';

/** Creates a gauge that `fill` sets on each scrape. */
export type Level<T> = (name: string, help: string, labelNames: string[], fill: (gauge: Gauge, present: T) => void) => void;

/** Creates gauges that have no series while `read` returns null. */
export function levelsOf<T>(registry: Registry, read: () => T | null): Level<T> {
  return (name, help, labelNames, fill) => {
    const gauge: Gauge = new Gauge({
      name,
      help,
      labelNames,
      registers: [registry],
      collect: () => {
        gauge.reset();
        const present = read();
        if (present !== null) fill(gauge, present);
      },
    });
  };
}
