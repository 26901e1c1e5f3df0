/** The results as a JSON document and as a table. */
import Table from 'cli-table3';

import { median, targets, verdict, type FigureName } from './figures.ts';
import { loadNames, type RoundsResult } from './rounds.ts';
import type { StoreCycles } from './store-cycles.ts';

export interface Report {
  readonly bench: 'capstan';
  readonly at: string;
  readonly machine: { readonly cpu: string; readonly cores: number; readonly node: string; readonly load: readonly number[] };
  readonly options: { readonly connections: number; readonly seconds: number; readonly rounds: number };
  readonly figures: Readonly<
    Partial<Record<FigureName, { readonly value: number; readonly floor: number; readonly goal: number | null; readonly verdict: string }>>
  >;
  /** Responses other than 2xx and all other errors; 0 in a valid run. */
  readonly errors: number;
  readonly rounds: RoundsResult | null;
  readonly store: StoreCycles | null;
}

export function makeReport(
  facts: Pick<Report, 'at' | 'machine' | 'options'>,
  rounds: RoundsResult | null,
  store: StoreCycles | null,
): Report {
  const values: Partial<Record<FigureName, number>> = {};
  for (const name of loadNames) {
    const figure = rounds?.loads[name];
    if (figure !== undefined) values[name] = figure.ratio;
  }
  if (rounds !== null && rounds.start.length > 0) values.start = median(rounds.start.map((one) => one.start.p50));
  if (store !== null) values.storeDepth = store.ratio;
  const figures = Object.fromEntries(
    Object.entries(values).map(([name, value]) => {
      const { floor, goal } = targets[name as FigureName];
      return [name, { value, floor, goal, verdict: verdict(targets[name as FigureName], value) }];
    }),
  );
  return { bench: 'capstan', ...facts, figures, errors: errorsOf(rounds), rounds, store };
}

function errorsOf(rounds: RoundsResult | null): number {
  if (rounds === null) return 0;
  const runs = [...rounds.echo, ...loadNames.flatMap((name) => rounds.loads[name]?.runs ?? []), ...rounds.start];
  return runs.reduce((sum, run) => sum + run.errors, 0);
}

/** The table, with the errors below it. */
export function renderReport(report: Report): string {
  const table = new Table({ head: ['figure', 'value', 'floor', 'goal', 'reached', 'details'], style: { head: [], border: [] } });
  for (const [name, { value, floor, goal, verdict: reached }] of Object.entries(report.figures)) {
    const target = targets[name as FigureName];
    const shown = (number: number | null): string => (number === null ? '' : `${number}${target.unit === 'ms' ? ' ms' : ''}`);
    table.push([
      target.name,
      target.unit === 'ms' ? `${value.toFixed(2)} ms` : value.toFixed(3),
      shown(floor),
      shown(goal),
      reached,
      details(name as FigureName, report),
    ]);
  }
  const { machine, options } = report;
  const head = `${options.connections} connections, ${options.rounds} × ${options.seconds} s · ${machine.cores} × ${machine.cpu} · Node ${machine.node} · load ${machine.load[0]?.toFixed(2) ?? ''}`;
  return [head, table.toString(), ...cpuLines(report), ...problems(report)].join('\n');
}

function details(name: FigureName, { rounds, store }: Report): string {
  switch (name) {
    case 'runParked':
    case 'runConsumed':
    case 'runsync': {
      const figure = rounds?.loads[name];
      if (figure === undefined) return '';
      const p50 = median(figure.runs.map((run) => run.latency.p50));
      const p99 = median(figure.runs.map((run) => run.latency.p99));
      const ended = figure.completedPerSecond === null ? '' : `, ${thousands(figure.completedPerSecond)} ended/s`;
      return `${thousands(figure.perSecond)}/s of ${thousands(figure.echoPerSecond)}${ended}; p50 ${p50.toFixed(2)}, p99 ${p99.toFixed(2)} ms`;
    }
    case 'start': {
      const all = rounds?.start ?? [];
      const at = (read: (one: (typeof all)[number]) => number): string => median(all.map(read)).toFixed(2);
      return `p99 ${at((one) => one.start.p99)} ms; there and back p50 ${at((one) => one.roundTrip.p50)}, p99 ${at((one) => one.roundTrip.p99)} ms`;
    }
    case 'storeDepth':
      return (store?.depths ?? [])
        .map(({ depth, cyclesPerSecond, p99Ms }) => `${thousands(cyclesPerSecond)}/s at ${thousands(depth)} (p99 ${p99Ms} ms)`)
        .join(', ');
    default:
      return name satisfies never;
  }
}

/** Shows which part each load keeps busy. */
function cpuLines({ rounds }: Report): string[] {
  return loadNames.flatMap((name) => {
    const figure = rounds?.loads[name];
    if (figure === undefined || Object.keys(figure.cores).length === 0) return [];
    const driver = median(figure.runs.map((run) => run.driverCpu));
    const parts = [...Object.entries(figure.cores), ['driver', driver] as const].map(([role, cores]) => `${role} ${cores.toFixed(2)}`);
    return [`cores used, ${targets[name].name}: ${parts.join(', ')}`];
  });
}

function problems({ rounds, errors }: Report): string[] {
  if (errors === 0 || rounds === null) return [];
  const lines = [`${errors} errors:`];
  for (const name of loadNames) {
    for (const [kind, example] of (rounds.loads[name]?.runs ?? []).flatMap((run) => Object.entries(run.examples)))
      lines.push(`  ${name}: ${kind}: ${example}`);
  }
  for (const [kind, example] of rounds.echo.flatMap((run) => Object.entries(run.examples))) lines.push(`  echo: ${kind}: ${example}`);
  for (const example of rounds.start.flatMap((one) => one.examples)) lines.push(`  start: ${example}`);
  return [...new Set(lines)];
}

function thousands(value: number): string {
  return Math.round(value).toLocaleString('en-US');
}
