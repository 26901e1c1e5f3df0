/**
 * A terminal state is final: what was seen as ended stays as it was seen, unless a retry of a FAILED or TIMED_OUT job can lie in between.
 * A cancelled job is never COMPLETED, before or after.
 */
import { possible, type Facts, type JobFacts, type Observation } from '../facts.ts';
import { isTerminal } from '../record.ts';
import type { Violation } from '../violation.ts';

export function terminalIsFinal(facts: Facts): Violation[] {
  return [...facts.jobs.values()].flatMap((job) => {
    const seen = job.observations.toSorted((a, b) => a.to - b.to);
    for (const [i, before] of seen.entries()) {
      if (!isTerminal(before.status) || before.status === 'NOT_RETRYABLE') continue;
      const after = seen.slice(i + 1).find((later) => later.from > before.to && contradicts(job, before, later));
      if (after !== undefined)
        return [
          {
            rule: 'terminal is final',
            detail: `${job.id} was ${describe(before)}, later ${describe(after)}`,
            jobs: [job.id],
          },
        ];
    }
    return [];
  });
}

export function cancelledStays(facts: Facts): Violation[] {
  return [...facts.jobs.values()].flatMap((job) => {
    const statuses = new Set([...job.observations.map(({ status }) => status), ...job.webhooks.map(({ job: view }) => view.status)]);
    if (!statuses.has('CANCELLED') || !statuses.has('COMPLETED')) return [];
    return [{ rule: 'cancelled is never completed', detail: `${job.id} was both CANCELLED and COMPLETED`, jobs: [job.id] }];
  });
}

function contradicts(job: JobFacts, before: Observation, later: Observation): boolean {
  const retryable = ['FAILED', 'TIMED_OUT', 'ENDED'].includes(before.status);
  if (retryable && retriedBetween(job, before.from, later)) return false;
  if (later.status === 'ENDED') return false;
  if (before.status === 'ENDED') return !isTerminal(later.status);
  if (later.status === 'NOT_RETRYABLE') return before.status === 'FAILED' || before.status === 'TIMED_OUT';
  if (before.status !== later.status) return true;
  const [a, b] = [before.view, later.view];
  return a !== undefined && b !== undefined && JSON.stringify(a) !== JSON.stringify(b);
}

/** The observation's own call aside: a retry that is refused, or that takes effect at `later` itself, is what is judged. */
function retriedBetween(job: JobFacts, from: number, later: Observation): boolean {
  return possible(job, 'retry').some((call) => call.effectiveUntil >= from && call.record.at <= later.to);
}

function describe({ status, view, call }: Observation): string {
  return `${status} (call ${call})${view === undefined ? '' : ` ${JSON.stringify(view)}`}`;
}
