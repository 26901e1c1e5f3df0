import type { ComponentChildren, JSX } from 'preact';

import { duration, time } from '../ui/format.ts';
import { Section, Text } from '../ui/parts.tsx';
import { NodeLink, WorkerLink } from './fleet-names.tsx';
import { coldStart, startedAt } from './job-bars.ts';
import { Gantt } from './job-gantt.tsx';
import { ENDED, type Answer, type Delivery, type Job, type PastAttempt } from './job-query.ts';

interface Step {
  /** Empty: now. */
  readonly at: string;
  readonly what: ComponentChildren;
  readonly detail?: string | undefined;
}

interface TimelineProps {
  readonly job: Job;
  readonly of: Answer['endpoint'];
  /** Undelivered webhooks; undefined where there is none to deliver, or they cannot be read. */
  readonly deliveries: readonly Delivery[] | undefined;
}

/** What happened to the job, from its submission to its webhook. */
export function Timeline({ job, of, deliveries }: TimelineProps): JSX.Element {
  const first = job.pastAttempts[0]?.submittedAt ?? job.submittedAt;
  const past = [
    ...submissions(job),
    ...waits(job),
    ...job.pastAttempts.map((each) => pastAttempt(job.endpoint, each)),
    ...presentAttempt(job, of),
  ];
  const steps: readonly Step[] = [
    ...past.toSorted((a, b) => Date.parse(a.at) - Date.parse(b.at)),
    ...waiting(job, of),
    ...chunks(job),
    ...(job.endedAt === null ? [] : [{ at: job.endedAt, what: job.status }]),
    ...webhook(job, deliveries),
  ];
  return (
    <Section title="Timeline">
      <Gantt job={job} of={of} />
      <ol class="timeline">
        {steps.map(({ at, what, detail = '' }, i) => (
          // Several steps may say the same.
          <li key={i}>
            <time>{at === '' ? 'now' : at === first ? time(at) : `+ ${between(first, at)}`}</time>
            <span>
              {typeof what === 'string' ? <Text of={what} /> : <span>{what}</span>}
              {detail !== '' && (
                <pre class="muted">
                  <Text of={detail} />
                </pre>
              )}
            </span>
          </li>
        ))}
      </ol>
    </Section>
  );
}

/** The submission, and each retry. */
function submissions({ pastAttempts, submittedAt, attempts }: Job): Step[] {
  const [first = submittedAt, ...retries] = new Set([...pastAttempts.map((past) => past.submittedAt), submittedAt]);
  const known = pastAttempts[0]?.attempt ?? attempts;
  const cut = known > 1 ? [{ at: first, what: `Attempts before number ${known} are not kept` }] : [];
  return [{ at: first, what: 'Submitted' }, ...cut, ...retries.map((at) => ({ at, what: 'Retried' }))];
}

/** The reasons for which it waited and no longer does. */
function waits({ queueReasons }: Job): Step[] {
  return queueReasons.flatMap(({ at, until, reason, detail }) =>
    until === null ? [] : [{ at, what: `Queued: ${reason} for ${between(at, until)}`, detail: detail ?? '' }],
  );
}

/** An attempt after which the job waited again. */
function pastAttempt(endpoint: string, past: PastAttempt): Step {
  const { attempt, worker, node, leasedAt, startedAt: began, endedAt, reason, error, count } = past;
  const result =
    began === null
      ? ` did not start${count > 1 ? `, ${count} times in a row` : ''}: ${reason}`
      : ` ended after ${between(began, endedAt)}: ${reason}`;
  return { at: began ?? leasedAt ?? endedAt, what: which(endpoint, { attempt, worker, node }, result), detail: error ?? '' };
}

/** The number of an attempt and where it ran, by links with names. */
function which(endpoint: string, { attempt, worker, node }: Pick<PastAttempt, 'attempt' | 'worker' | 'node'>, result = ''): JSX.Element {
  return (
    <>
      Attempt {attempt}
      {worker !== null && (
        <>
          {' on worker '}
          <WorkerLink endpoint={endpoint} id={worker} />
        </>
      )}
      {node !== null && (
        <>
          {' of '}
          <NodeLink id={node} />
        </>
      )}
      {result}
    </>
  );
}

function between(from: string, to: string): string {
  return duration(Math.max(0, Date.parse(to) - Date.parse(from)));
}

/** Why it waits now and since when, with every node's reason. */
function waiting(job: Job, of: Answer['endpoint']): Step[] {
  if (job.status !== 'IN_QUEUE') return [];
  const since = job.queueReasons.find(({ until, reason }) => until === null && reason === job.queueReason);
  const examples = (of?.scaling?.rejections ?? []).flatMap(({ reason, examples: nodes }) =>
    nodes.map(({ node, detail }) => `${node}: ${reason} (${detail})`),
  );
  const detail = [of?.queue.detail ?? '', ...examples].filter((each) => each !== '').join('\n');
  const what = `Waiting: ${job.queueReason ?? 'for a worker'}${since === undefined ? '' : ` since ${time(since.at)}`}`;
  return [{ at: '', what, detail }];
}

/** The present or last attempt, with the start of its worker if the job waited for that. */
function presentAttempt(job: Job, of: Answer['endpoint']): Step[] {
  const started = startedAt(job);
  if (started === undefined) return [];
  const cold = coldStart(job, of);
  const what = which(job.endpoint, { attempt: job.attempts, worker: job.worker, node: job.node });
  return [{ at: new Date(started).toISOString(), what, detail: cold === undefined ? '' : startText(cold.start) }];
}

function startText({ artifactMs, startedMs, loadedMs }: NonNullable<ReturnType<typeof coldStart>>['start']): string {
  const phases = `build fetched at ${duration(artifactMs)}, process started at ${duration(startedMs)}, module loaded at ${duration(loadedMs)}`;
  return `Cold start: this worker was ready ${duration(loadedMs)} after it was requested: ${phases}.`;
}

function chunks({ chunks: count, endedAt, status }: Job): Step[] {
  if (count === 0) return [];
  return [{ at: endedAt ?? '', what: `${count} ${count === 1 ? 'chunk' : 'chunks'}${ENDED.has(status) ? '' : ' so far'}` }];
}

/** Delivered webhooks are not kept: none of an ended job means that it was delivered, or deleted 24 h after it was given up. */
function webhook(job: Job, deliveries: readonly Delivery[] | undefined): Step[] {
  if (job.webhook === null || deliveries === undefined) return [];
  if (deliveries.length === 0) return [{ at: job.endedAt ?? '', what: 'Webhook delivered', detail: job.webhook }];
  return deliveries.map(({ state, tries, dueAt, error }) => ({
    at: '',
    what: state === 'FAILED' ? `Webhook given up after ${tries} tries` : `Webhook: next try ${time(dueAt)}, ${tries} failed`,
    detail: error ?? '',
  }));
}
