/** What a run prints: figures, and for each violated rule the least history that violates it. */
import { gatherFacts } from './core/facts.ts';
import type { HistoryRecord } from './core/record.ts';
import { isTerminal } from './core/record.ts';
import { reduce } from './core/reduce.ts';
import type { Violation } from './core/violation.ts';

/** Histories printed for one rule, and records printed of one history. */
const MAX = { records: 60, others: 5 };

export function figures(records: readonly HistoryRecord[]): string[] {
  const facts = gatherFacts(records);
  const jobs = [...facts.jobs.values()];
  const acknowledged = jobs.filter((job) => job.acknowledgements.length > 0);
  const ends = count(
    acknowledged.map(
      (job) => job.observations.findLast(({ status }) => isTerminal(status) && status !== 'NOT_RETRYABLE')?.status ?? 'no end seen',
    ),
  );
  const calls = [...facts.calls.values()];
  const retried = acknowledged.filter((job) => job.executions.length > 1).length;
  const healed = facts.disruptions.filter(({ to }) => to < Infinity).length;
  return [
    `requests: ${calls.length} (${list(count(calls.map(({ record }) => record.operation)))})`,
    `without an answer or with a 5xx: ${calls.filter(({ failure }) => failure !== undefined).length}`,
    `jobs acknowledged: ${acknowledged.length} (${list(ends)})`,
    `executions: ${facts.executions.size}; jobs entered more than once: ${retried}`,
    `webhooks received: ${records.filter(({ kind }) => kind === 'webhook').length}`,
    `faults: ${facts.disruptions.length}, ${healed} healed (${list(count(facts.disruptions.map(({ fault }) => fault)))})`,
  ];
}

/** For each violated rule its least history, and how many more violations there are. */
export function violationReport(records: readonly HistoryRecord[], violations: readonly Violation[]): string[] {
  const lines: string[] = [];
  for (const [rule, all] of Map.groupBy(violations, (each) => each.rule)) {
    lines.push('', `✗ ${rule}: ${all.length} violation${all.length === 1 ? '' : 's'}`);
    const [least] = all
      .slice(0, MAX.others)
      .map((violation) => reduce(records, violation))
      .toSorted((a, b) => a.records.length - b.records.length);
    if (least === undefined) continue;
    lines.push(`  ${least.violation.detail}`, `  least history (${least.records.length} records):`);
    lines.push(...least.records.slice(0, MAX.records).map((record) => `    ${JSON.stringify(record)}`));
    if (least.records.length > MAX.records) lines.push(`    … and ${least.records.length - MAX.records} more`);
    for (const other of all.slice(0, MAX.others))
      if (other.detail !== least.violation.detail) lines.push(`  also: ${other.detail.slice(0, 400)}`);
  }
  return lines;
}

function count(names: readonly string[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1);
  return counts;
}

function list(counts: ReadonlyMap<string, number>): string {
  return [...counts]
    .toSorted(([a], [b]) => a.localeCompare(b))
    .map(([name, number]) => `${name} ${number}`)
    .join(', ');
}
