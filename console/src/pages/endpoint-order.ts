/** The order of endpoints in the overview: those with problems first, or by a column. Pure. */
import type { EndpointRow, JobActivity } from '../api/graphql/gen/operations.ts';

const MINUTES = 60;

export interface Figures {
  readonly perMinute: number;
  /** Share of failed ones among those that ended; undefined where none ended. */
  readonly errorRate: number | undefined;
  /** The highest of a step, ms; undefined where no job ended, and without a queue. */
  readonly p95Delay: number | undefined;
}

/** Figures of the last hour. */
export function figuresOf({ submitted, completed, failed, timedOut, delay }: JobActivity): Figures {
  const errors = sum(failed) + sum(timedOut);
  const ended = sum(completed) + errors;
  const delays = delay.p95.filter((value) => value !== null);
  return {
    perMinute: sum(submitted) / MINUTES,
    errorRate: ended === 0 ? undefined : errors / ended,
    p95Delay: delays.length === 0 ? undefined : Math.max(...delays),
  };
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}

export interface Ranked {
  readonly row: EndpointRow;
  /** Undefined until they are read. */
  readonly figures: Figures | undefined;
}

const VALUES = {
  name: ({ row }: Ranked) => row.name,
  queue: ({ row }: Ranked) => row.queue.inQueue,
  errors: ({ figures }: Ranked) => figures?.errorRate,
  delay: ({ figures }: Ranked) => figures?.p95Delay,
  rate: ({ figures }: Ranked) => figures?.perMinute,
} satisfies Record<string, (of: Ranked) => string | number | undefined>;
export type ColumnName = keyof typeof VALUES;

/** Share of failed jobs from which an endpoint is among those with problems. */
const MAX_ERROR_RATE = 0.05;

/** A word for what the endpoint does now; the reason of waiting jobs comes first. */
export function stateOf({ workers, queue }: EndpointRow): string {
  if (queue.reason !== null) return queue.reason;
  if (workers.max === 0) return 'PAUSED';
  if (queue.inProgress > 0) return 'RUNNING';
  return workers.total > 0 ? 'READY' : 'IDLE';
}

function hasProblem({ row, figures }: Ranked): boolean {
  return row.queue.reason !== null || (figures?.errorRate ?? 0) > MAX_ERROR_RATE;
}

/** `order`: the name of a column, after a dash for the highest first; anything else puts problems first. */
export function inOrder(rows: readonly Ranked[], order: string): readonly Ranked[] {
  const byName = rows.toSorted((a, b) => a.row.environment.localeCompare(b.row.environment) || a.row.name.localeCompare(b.row.name));
  const value = valueOf(order);
  if (value === undefined) return byName.toSorted((a, b) => Number(hasProblem(b)) - Number(hasProblem(a)));
  const direction = order.startsWith('-') ? -1 : 1;
  return byName.toSorted((a, b) => {
    const [first, second] = [value(a), value(b)];
    // What is not known is last in both directions.
    if (first === undefined || second === undefined) return Number(first === undefined) - Number(second === undefined);
    if (typeof first === 'string') return direction * first.localeCompare(String(second));
    return direction * (first - Number(second));
  });
}

function valueOf(order: string): ((of: Ranked) => string | number | undefined) | undefined {
  const name = order.replace(/^-/, '');
  return Object.hasOwn(VALUES, name) ? VALUES[name as ColumnName] : undefined;
}

/** The direction of a column, and the order that a press of its title leads to: names begin at a, figures at the highest, then back. */
export function direction(
  order: string,
  name: ColumnName,
): { readonly current: 'ascending' | 'descending' | 'none'; readonly next: string } {
  const [first, second] = name === 'name' ? [name, `-${name}`] : [`-${name}`, name];
  const next = order === first ? second : order === second ? '' : first;
  if (order === name) return { current: 'ascending', next };
  return { current: order === `-${name}` ? 'descending' : 'none', next };
}
