/** Nothing is recorded twice or with the output of another: a completed job has the output of one of its own executions, and only of that. */
import type { Facts, JobFacts } from '../facts.ts';
import type { JobView, Made } from '../record.ts';
import type { Violation } from '../violation.ts';

const RULE = 'one output, of its own';

export function ownOutputOnce(facts: Facts): Violation[] {
  return [...facts.jobs.values()].flatMap((job) => {
    const completed = completions(job);
    return [...completed.flatMap((view) => foreign(facts, job, view)), ...recordedTwice(job, completed)];
  });
}

/** The execution that an output names; undefined for an output that names none. */
export function executionOf(output: JobView['output']): string | undefined {
  const first = isList(output) ? output[0] : output;
  return first?.execution;
}

export function isList(output: JobView['output']): output is readonly Made[] {
  return Array.isArray(output);
}

function completions(job: JobFacts): JobView[] {
  const seen = job.observations.flatMap(({ view }) => (view?.status === 'COMPLETED' ? [view] : []));
  return [...seen, ...job.webhooks.flatMap(({ job: view }) => (view.status === 'COMPLETED' ? [view] : []))];
}

function foreign(facts: Facts, job: JobFacts, view: JobView): Violation[] {
  const say = (detail: string): Violation[] => [
    { rule: RULE, detail: `${job.id}: ${detail}`, jobs: [job.id, ...others(facts, view, job)] },
  ];
  const id = executionOf(view.output);
  const execution = id === undefined ? undefined : facts.executions.get(id);
  if (id === undefined || execution === undefined)
    return say(`COMPLETED with an output that no handler made: ${JSON.stringify(view.output)}`);
  if (execution.enter.job !== job.id) return say(`COMPLETED with the output of ${execution.enter.job}`);
  if (execution.exit?.how !== 'returned') return say(`COMPLETED by execution ${id}, which never returned`);
  const made = isList(view.output) ? view.output : [view.output];
  for (const [place, each] of made.entries()) {
    if (each === undefined || each.execution !== id || each.input !== execution.enter.input)
      return say(`part ${place} of its output is of another execution: ${JSON.stringify(each)}`);
    if (!each.intact) return say(`part ${place} of its output has other bytes than its handler returned`);
    if (isList(view.output) && each.index !== place) return say(`chunk ${String(each.index)} stands at place ${place} of its output`);
  }
  if (isList(view.output) && made.length !== execution.chunks) return say(`its output has ${made.length} of ${execution.chunks} chunks`);
  return [];
}

function recordedTwice(job: JobFacts, completed: readonly JobView[]): Violation[] {
  const executions = new Set(completed.map((view) => executionOf(view.output)));
  if (executions.size <= 1) return [];
  return [{ rule: RULE, detail: `${job.id} is COMPLETED by ${[...executions].join(' and by ')}`, jobs: [job.id] }];
}

function others(facts: Facts, view: JobView, job: JobFacts): string[] {
  const owner = facts.executions.get(executionOf(view.output) ?? '')?.enter.job;
  return owner === undefined || owner === job.id ? [] : [owner];
}
