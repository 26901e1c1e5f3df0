/** What happened to a job from its submission on, a line per event. Pure. */
import type { JobStory } from '../../client/graphql/gen/operations.ts';

interface Event {
  readonly at: string;
  readonly text: string;
}

/** Lines in the order of time: the first with its time, the others with the time since then. */
export function timelineOf(job: JobStory): string[] {
  const first = job.pastAttempts[0]?.submittedAt ?? job.submittedAt;
  const events = [...submissions(job, first), ...waits(job), ...pastAttempts(job), ...present(job)]
    .toSorted((a, b) => Date.parse(a.at) - Date.parse(b.at))
    .concat(job.endedAt === null ? [] : [{ at: job.endedAt, text: job.status }]);
  const times = events.map(({ at }, index) => (index === 0 ? `${at.slice(0, 19).replace('T', ' ')} UTC` : `+ ${between(first, at)}`));
  const width = Math.max(0, ...times.map((time) => time.length));
  return events.map(({ text }, index) => `  ${(times[index] ?? '').padEnd(width)}  ${text}`);
}

function submissions({ pastAttempts: past, submittedAt }: JobStory, first: string): Event[] {
  const retries = new Set([...past.map((each) => each.submittedAt), submittedAt]);
  retries.delete(first);
  return [{ at: first, text: 'submitted' }, ...[...retries].map((at) => ({ at, text: 'retried' }))];
}

function waits({ queueReasons }: JobStory): Event[] {
  return queueReasons.map(({ at, until, reason, detail }) => ({
    at,
    text: `queued: ${reason}${detail === null ? '' : ` (${detail})`}${until === null ? '' : ` for ${between(at, until)}`}`,
  }));
}

function pastAttempts({ pastAttempts: past }: JobStory): Event[] {
  return past.map((each) => {
    const { attempt, leasedAt, startedAt, endedAt, reason, error, count } = each;
    const result =
      startedAt === null
        ? `did not start${count > 1 ? `, ${count} times in a row` : ''}: ${reason}`
        : `ended after ${between(startedAt, endedAt)}: ${reason}`;
    const why = error === null ? '' : ` (${error})`;
    return { at: startedAt ?? leasedAt ?? endedAt, text: `attempt ${attempt}${placeOf(each)} ${result}${why}` };
  });
}

function present(job: JobStory): Event[] {
  const at = startOf(job);
  return at === null ? [] : [{ at, text: `attempt ${job.attempts}${placeOf(job)} started` }];
}

/** The start of the present or last attempt. */
function startOf({ startedAt, submittedAt, delayTime }: JobStory): string | null {
  if (startedAt !== null || delayTime === null) return startedAt;
  return new Date(Date.parse(submittedAt) + delayTime).toISOString();
}

function placeOf({ worker, node }: Pick<JobStory, 'worker' | 'node'>): string {
  return `${worker === null ? '' : ` on worker ${worker}`}${node === null ? '' : ` of ${node}`}`;
}

/** `350 ms`, `1.2 s`, `4 min 10 s`. */
function between(from: string, to: string): string {
  const ms = Math.max(0, Date.parse(to) - Date.parse(from));
  if (ms < 1_000) return `${ms} ms`;
  if (ms < 60_000) return `${(ms / 1_000).toFixed(1)} s`;
  return `${Math.floor(ms / 60_000)} min ${Math.floor((ms % 60_000) / 1_000)} s`;
}
