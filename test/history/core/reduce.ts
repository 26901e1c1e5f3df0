/** Reduces a history to the least that still violates a rule: the records of the jobs involved, and of these only what the violation needs. */
import { check } from './check.ts';
import type { HistoryRecord } from './record.ts';
import type { Violation } from './violation.ts';

/** Sorted by time. The violation of the least history comes with it. */
export interface Reduced {
  readonly violation: Violation;
  readonly records: readonly HistoryRecord[];
}

/** Records that a violation can consist of: without them it would say something else. */
const KEPT: ReadonlySet<HistoryRecord['kind']> = new Set(['settings', 'end', 'enter', 'exit']);

export function reduce(records: readonly HistoryRecord[], violation: Violation): Reduced {
  const own = involved(records, violation);
  const still = (candidate: readonly HistoryRecord[]): Violation | undefined =>
    check(candidate).find((found) => found.rule === violation.rule && found.jobs.join() === violation.jobs.join());
  // A rule that reads more than the jobs named keeps its whole history.
  if (still(own) === undefined) return { violation, records: own };
  let least = own;
  // One call after the other, with its answer: a history without a call is as legal as one with it.
  for (const group of groups(own)) {
    const without = least.filter((record) => !group.has(record));
    if (still(without)?.detail === violation.detail) least = without;
  }
  return { violation: still(least) ?? violation, records: least };
}

function involved(records: readonly HistoryRecord[], { jobs, inputs = [], calls = [] }: Violation): HistoryRecord[] {
  const ids = new Set(jobs);
  const ins = new Set(inputs);
  const numbers = new Set(calls);
  const executions = new Set<string>();
  for (const record of records) {
    if (record.kind === 'enter' && ids.has(record.job)) {
      executions.add(record.execution);
      ins.add(record.input);
    }
    if (record.kind === 'return' && record.job !== undefined && ids.has(record.job.id)) numbers.add(record.call);
    if (record.kind === 'call' && record.job !== undefined && ids.has(record.job)) numbers.add(record.call);
  }
  for (const record of records) if (record.kind === 'call' && numbers.has(record.call) && record.input !== undefined) ins.add(record.input);
  for (const record of records)
    if (record.kind === 'call' && (record.operation === 'purge' || (record.input !== undefined && ins.has(record.input))))
      numbers.add(record.call);
  const about = (record: HistoryRecord): boolean => {
    switch (record.kind) {
      case 'settings':
      case 'end':
      case 'fault':
      case 'healed':
      case 'crash':
        return true;
      case 'call':
      case 'return':
      case 'lost':
        return numbers.has(record.call);
      case 'enter':
      case 'chunk':
      case 'exit':
        return executions.has(record.execution);
      case 'webhook':
        return ids.has(record.job.id);
    }
  };
  return records.filter(about).toSorted((a, b) => a.at - b.at);
}

/** What is left out together: a call and its return, a fault and its end, one try of a webhook, one chunk. */
function groups(records: readonly HistoryRecord[]): Set<HistoryRecord>[] {
  const byName = new Map<string, Set<HistoryRecord>>();
  for (const [i, record] of records.entries()) {
    if (KEPT.has(record.kind)) continue;
    const name =
      'call' in record
        ? `call ${record.call}`
        : record.kind === 'fault' || record.kind === 'healed'
          ? `fault ${record.number}`
          : `record ${i}`;
    const group = byName.get(name) ?? new Set();
    byName.set(name, group.add(record));
  }
  return [...byName.values()];
}
