/** The spans of a job's life as bars: its waits, the start of its worker where it waited for that, and its attempts. Pure. */
import type { GetJobResult as Answer, Job } from '../api/graphql/gen/operations.ts';

export interface Bar {
  readonly label: string;
  /** ms since 1970. */
  readonly from: number;
  readonly to: number;
  readonly tone: 'wait' | 'start' | 'good' | 'bad' | 'running';
}

type Worker = NonNullable<NonNullable<Answer['endpoint']>['scaling']>['workers'][number];

export interface ColdStart extends Pick<Worker, 'id' | 'start'> {
  /** When the worker was requested, ms since 1970. */
  readonly requestedAt: number;
}

/** When the present or last attempt started, ms since 1970; undefined before that. */
export function startedAt(job: Job): number | undefined {
  if (job.startedAt !== null) return Date.parse(job.startedAt);
  return job.delayTime === null ? undefined : Date.parse(job.submittedAt) + job.delayTime;
}

/**
 * Returns the start of the worker of the present or last attempt, if the job waited for it: the worker became ready after the submission,
 * and before the attempt. Undefined for a warm worker, and where it is not known when the worker was requested.
 */
export function coldStart(job: Job, of: Answer['endpoint']): ColdStart | undefined {
  const worker = of?.scaling?.workers.find(({ id }) => id === job.worker);
  const request = of?.scaling?.decisions.findLast((each) => each.kind === 'REQUEST' && each.worker === job.worker);
  const started = startedAt(job);
  if (worker === undefined || request?.at == null || started === undefined || worker.start.loadedMs === 0) return undefined;
  const requestedAt = Date.parse(request.at);
  const readyAt = requestedAt + worker.start.loadedMs;
  const ofAttempt = Math.max(Date.parse(job.submittedAt), ...job.pastAttempts.map(({ endedAt }) => Date.parse(endedAt)));
  return readyAt > ofAttempt && requestedAt <= started ? { id: worker.id, start: worker.start, requestedAt } : undefined;
}

/** `now`: the end of what goes on, ms since 1970. */
export function barsOf(job: Job, of: Answer['endpoint'], now: number): readonly Bar[] {
  const submitted = Date.parse(job.submittedAt);
  const started = startedAt(job);
  const ended = job.endedAt === null ? now : Date.parse(job.endedAt);
  const waited: Bar[] = job.queueReasons.map(({ at, until, reason }) => ({
    ...({ label: `Queued: ${reason}`, from: Date.parse(at), tone: 'wait' } as const),
    to: until === null ? Math.min(ended, started ?? ended) : Date.parse(until),
  }));
  const past: Bar[] = job.pastAttempts.map((each) => ({
    ...({ tone: 'bad', to: Date.parse(each.endedAt) } as const),
    label: `Attempt ${each.attempt}${each.startedAt === null ? ', not started' : ''}`,
    from: Date.parse(each.startedAt ?? each.leasedAt ?? each.endedAt),
  }));
  const present: Bar[] =
    started === undefined
      ? []
      : [{ label: `Attempt ${job.attempts}`, from: started, to: Math.max(started, ended), tone: toneOf(job.status) }];
  const lastWait = Math.max(submitted, ...past.map(({ to }) => to));
  return [
    { label: past.length === 0 ? 'Wait' : 'Last wait', from: lastWait, to: Math.max(lastWait, started ?? ended), tone: 'wait' },
    ...waited.toSorted((a, b) => a.from - b.from),
    ...phases(coldStart(job, of)),
    ...past,
    ...present,
  ];
}

function phases(cold: ColdStart | undefined): readonly Bar[] {
  if (cold === undefined) return [];
  const { requestedAt, start } = cold;
  const at = (ms: number): number => requestedAt + ms;
  return [
    { label: 'Start: build', from: at(0), to: at(start.artifactMs), tone: 'start' },
    { label: 'Start: process', from: at(start.artifactMs), to: at(start.startedMs), tone: 'start' },
    { label: 'Start: module', from: at(start.startedMs), to: at(start.loadedMs), tone: 'start' },
  ];
}

function toneOf(status: string): Bar['tone'] {
  if (status === 'IN_PROGRESS') return 'running';
  return status === 'COMPLETED' ? 'good' : 'bad';
}
