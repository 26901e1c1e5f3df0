import type { JSX } from 'preact';

import { duration, time } from '../ui/format.ts';
import { Section, Text } from '../ui/parts.tsx';
import { ENDED, type Answer, type Delivery, type Job } from './job-query.ts';

interface Step {
  /** Empty: now. */
  readonly at: string;
  readonly what: string;
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
  const isSubmittedAgain = job.attempts > 1;
  const steps: readonly Step[] = [
    { at: job.submittedAt, what: isSubmittedAgain ? 'Submitted, or retried' : 'Submitted' },
    ...waiting(job, of),
    ...attempts(job, of),
    ...chunks(job),
    ...(job.endedAt === null ? [] : [{ at: job.endedAt, what: job.status }]),
    ...webhook(job, deliveries),
  ];
  return (
    <Section title="Timeline">
      <ol class="timeline">
        {steps.map(({ at, what, detail = '' }) => (
          <li key={what}>
            <time>
              {at === '' ? 'now' : at === job.submittedAt ? time(at) : `+ ${duration(Date.parse(at) - Date.parse(job.submittedAt))}`}
            </time>
            <span>
              <Text of={what} />
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

/** Why it waits now, with every node's reason. */
function waiting(job: Job, of: Answer['endpoint']): Step[] {
  if (job.status !== 'IN_QUEUE') return [];
  const examples = (of?.scaling?.rejections ?? []).flatMap(({ reason, examples: nodes }) =>
    nodes.map(({ node, detail }) => `${node}: ${reason} (${detail})`),
  );
  const detail = [of?.queue.detail ?? '', ...examples].filter((each) => each !== '').join('\n');
  return [{ at: '', what: `Waiting: ${job.queueReason ?? 'for a worker'}`, detail }];
}

/** The present or last attempt, with the start of its worker while that is known. */
function attempts(job: Job, of: Answer['endpoint']): Step[] {
  const startedAt = job.startedAt ?? (job.delayTime === null ? null : new Date(Date.parse(job.submittedAt) + job.delayTime).toISOString());
  if (startedAt === null) return [];
  const steps: Step[] = [];
  if (job.attempts > 1) {
    const earlier = job.attempts === 2 ? 'Attempt 1' : `Attempts 1 to ${job.attempts - 1}`;
    steps.push({ at: job.submittedAt, what: `${earlier} did not end: the worker or its node was lost` });
  }
  const worker = of?.scaling?.workers.find(({ id }) => id === job.worker);
  const { artifactMs = 0, startedMs = 0, loadedMs = 0 } = worker?.start ?? {};
  steps.push({
    at: startedAt,
    what: `Attempt ${job.attempts} on worker ${job.worker ?? ''}${job.node === null ? '' : ` of ${job.node}`}`,
    detail:
      loadedMs === 0
        ? ''
        : `This worker was ready ${duration(loadedMs)} after it was requested: build fetched at ${duration(artifactMs)}, process started at ${duration(startedMs)}, module loaded at ${duration(loadedMs)}.`,
  });
  return steps;
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
