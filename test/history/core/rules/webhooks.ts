/** Webhooks come at least once and are all alike: one id and one payload for every end of a job, signed, and equal to what clients see. */
import { possible, type Facts, type JobFacts } from '../facts.ts';
import { isTerminal, type JobView, type WebhookRecord } from '../record.ts';
import type { Violation } from '../violation.ts';

/** Tries of a delivery before it is given up. */
const TRIES = 3;

export function webhooksDelivered(facts: Facts): Violation[] {
  return [...facts.jobs.values()].flatMap((job) => {
    const problem = judge(facts, job);
    return problem === undefined ? [] : [{ rule: 'webhooks at least once and alike', detail: `${job.id}: ${problem}`, jobs: [job.id] }];
  });
}

function judge(facts: Facts, job: JobFacts): string | undefined {
  const deliveries = Map.groupBy(job.webhooks, ({ id }) => id);
  const wanted = [...job.inputs].some((input) => (facts.submissions.get(input) ?? []).some(({ record }) => record.webhook === true));
  if (!wanted) return deliveries.size === 0 ? undefined : 'has a webhook that nobody requested';
  for (const [id, tries] of deliveries) {
    const problem = unlike(job, id, tries);
    if (problem !== undefined) return problem;
  }
  return countedWrong(job, deliveries) ?? (facts.endedAt === undefined ? undefined : notDelivered(job, deliveries));
}

function unlike(job: JobFacts, id: string, tries: readonly WebhookRecord[]): string | undefined {
  if (!id.startsWith(`${job.id}_`)) return `webhook ${id} carries it`;
  if (new Set(tries.map(({ digest }) => digest)).size > 1) return `webhook ${id} changed its payload`;
  if (tries.some(({ signed }) => !signed)) return `webhook ${id} has a wrong signature`;
  const [{ job: view, input } = tries[0]!] = tries;
  if (!job.inputs.has(input)) return `webhook ${id} has the input ${input}`;
  if (!isTerminal(view.status)) return `webhook ${id} says ${view.status}`;
  return undefined;
}

function countedWrong(job: JobFacts, deliveries: ReadonlyMap<string, readonly WebhookRecord[]>): string | undefined {
  const most = 1 + possible(job, 'retry').length;
  return deliveries.size > most
    ? `has ${deliveries.size} webhooks for at most ${most} ends: ${[...deliveries.keys()].join(', ')}`
    : undefined;
}

/** Every retry that was accepted followed an end of its own, and the end that stands has one, too. */
function notDelivered(job: JobFacts, deliveries: ReadonlyMap<string, readonly WebhookRecord[]>): string | undefined {
  const ends = 1 + job.calls.filter(({ record, answer }) => record.operation === 'retry' && answer?.status === 200).length;
  const last = job.observations
    .filter(({ view, status }) => view !== undefined && isTerminal(status))
    .toSorted((a, b) => a.from - b.from)
    .at(-1)?.view;
  if (last === undefined) return undefined;
  if (deliveries.size < ends) return `has ${deliveries.size} webhooks for ${ends} ends`;
  for (const [id, tries] of deliveries)
    if (!tries.some(({ answer }) => answer === 200) && tries.length < TRIES)
      return `webhook ${id} was never accepted in ${tries.length} tries`;
  if (![...deliveries.values()].some(([first]) => first !== undefined && saysSame(first.job, last)))
    return `no webhook says what its end is: ${JSON.stringify(last)}`;
  return undefined;
}

function saysSame(told: JobView, seen: JobView): boolean {
  return told.status === seen.status && told.error === seen.error && JSON.stringify(told.output) === JSON.stringify(seen.output);
}
