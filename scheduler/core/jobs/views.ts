/** The caller's view of a job: the public shape from the state or from a stored row. */
import { JobState } from '../../../proto/gen/capstan/v1/common.ts';
import type { Job, JobReply } from '../../../proto/gen/capstan/v1/jobs.ts';
import type { CapstanError } from '../../../lib/errors.ts';
import { jobMessage } from '../../../lib/job-message.ts';
import { isDamaged } from '../ports/stored-payload.ts';
import type { JobRow, StoredState, WholeJob } from '../ports/store.ts';
import type { JobRecord } from '../state/jobs.ts';
import { damageOfOutput } from './damage.ts';
import { shownWebhook } from '../webhooks/webhook-url.ts';

/** Returns the view of a job in the state: queued, leased or started. */
export function viewOfRecord(job: JobRecord, queueReason: string): Job {
  const { id, endpoint, attempts, worker, submittedAt } = job;
  const shared = { id, endpointId: endpoint, attempts, worker, submittedAt, webhook: shownWebhook(job.webhook) };
  if (job.phase !== 'STARTED') return jobMessage({ ...shared, state: JobState.IN_QUEUE, queueReason });
  const delayMs = job.startedAt === null ? null : span(submittedAt, job.startedAt);
  return jobMessage({ ...shared, state: JobState.IN_PROGRESS, output: job.progress, delayMs });
}

/** Returns the view of a stored row. An output that is damaged is left out, and the error says so. */
export function viewOfRow(whole: WholeJob, queueReason: string): Job {
  const { job, output } = whole;
  const state = publicState(job);
  const damage = damageOfOutput(whole);
  const error = job.error ?? damage?.message ?? null;
  const { id, endpoint: endpointId, delayMs, executionMs, attempts, worker, submittedAt } = job;
  const webhook = shownWebhook(job.webhook);
  return jobMessage({
    ...{ id, endpointId, state, error, delayMs, executionMs, attempts, worker, submittedAt, webhook },
    output: isDamaged(output) ? null : output,
    queueReason: state === JobState.IN_QUEUE ? queueReason : '',
  });
}

/** Returns the public state of a stored row. */
export function publicState(job: Pick<JobRow, 'state' | 'startedAt'>): JobState {
  if (job.state === 'LEASED') return job.startedAt === null ? JobState.IN_QUEUE : JobState.IN_PROGRESS;
  return JobState[job.state];
}

/** Returns the stored state for a public state. LEASED rows are distinguished by their start. */
export function storedState(state: JobState): StoredState | null {
  switch (state) {
    case JobState.IN_QUEUE:
      return 'IN_QUEUE';
    case JobState.IN_PROGRESS:
      return 'LEASED';
    case JobState.COMPLETED:
      return 'COMPLETED';
    case JobState.FAILED:
      return 'FAILED';
    case JobState.CANCELLED:
      return 'CANCELLED';
    case JobState.TIMED_OUT:
      return 'TIMED_OUT';
    default:
      return null;
  }
}

/** Returns a reply with a job. */
export function jobReply(request: number, job: Job): JobReply {
  return { requestId: request, result: { $case: 'job', value: job } };
}

/** Returns a reply with an error. */
export function failureReply(request: number, error: CapstanError): JobReply {
  return {
    requestId: request,
    result: {
      $case: 'failure',
      value: {
        code: error.code,
        message: error.message,
        field: error.field ?? '',
        retryAfterMs: error.retryAfterMs ?? 0,
        jobId: error.jobId ?? '',
      },
    },
  };
}

/** Returns a duration in whole ms, never negative. */
export function span(from: number, to: number): number {
  return Math.max(0, Math.round(to - from));
}
