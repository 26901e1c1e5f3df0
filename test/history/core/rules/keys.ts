/** One job per submission: an Idempotency-Key leads to one job whatever is repeated, and an input without a key is submitted once. */
import type { Call, Facts } from '../facts.ts';
import type { Violation } from '../violation.ts';

const RULE = 'one job per key';

export function oneJobPerKey(facts: Facts): Violation[] {
  const jobsOf = new Map<string, Set<string>>();
  for (const job of facts.jobs.values()) for (const input of job.inputs) jobsOf.set(input, (jobsOf.get(input) ?? new Set()).add(job.id));
  const found: Violation[] = [];
  for (const [input, jobs] of jobsOf)
    if (jobs.size > 1) found.push({ rule: RULE, detail: `input ${input} became the jobs ${[...jobs].join(', ')}`, jobs: [...jobs] });
  for (const job of facts.jobs.values())
    if (job.inputs.size > 1)
      found.push({ rule: RULE, detail: `${job.id} stands for the inputs ${[...job.inputs].join(', ')}`, jobs: [job.id] });
  for (const calls of facts.submissions.values()) for (const call of calls) found.push(...conflictAccepted(call));
  return found;
}

/** The key was acknowledged with another body before, so that nothing but 409 is right. */
function conflictAccepted({ record, answer }: Call): Violation[] {
  if (record.conflicting !== true || answer?.status !== 200) return [];
  const { key = '', input = '', call } = record;
  return [
    {
      rule: RULE,
      detail: `key ${key} was accepted again with another body`,
      jobs: answer.job === undefined ? [] : [answer.job.id],
      inputs: [input],
      calls: [call],
    },
  ];
}
