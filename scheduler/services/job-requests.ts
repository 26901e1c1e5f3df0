/** The core's events of a gateway's requests about jobs. */
import { tagsOf, tagsText } from '../../lib/job-tags.ts';
import { KEY_ID } from '../../lib/key-id.ts';
import type { Payload } from '../../lib/payload.ts';
import { checkedTrace } from '../../lib/trace-context.ts';
import { JobKind } from '../../proto/gen/capstan/v1/common.ts';
import type { JobRequest, ReadStream, Submit } from '../../proto/gen/capstan/v1/jobs.ts';
import type { CoreEvent, Counting, Ref } from '../core/events.ts';
import type { Cursor } from '../core/state/jobs.ts';

type Requested<Kind extends NonNullable<JobRequest['operation']>['$case']> = Extract<NonNullable<JobRequest['operation']>, { $case: Kind }>;

/** What a submission has besides its message. */
export interface Submission {
  readonly ref: Ref;
  readonly counting: Counting;
  readonly endpoint: string;
  readonly input: Payload;
  /** As it is stored. */
  readonly webhook: string | null;
  /** Credentials as they are stored. */
  readonly s3: Uint8Array | null;
}

export type SubmitEvent = Extract<CoreEvent, { kind: 'submit' }>;

export function submitEvent(submit: Submit, { ref, counting, endpoint, input, webhook, s3 }: Submission): SubmitEvent {
  return {
    kind: 'submit',
    ref,
    counting,
    endpoint,
    job: submit.jobId,
    jobKind: submit.kind === JobKind.RUNSYNC ? 'RUNSYNC' : 'RUN',
    input,
    webhook,
    trace: checkedTrace(submit.trace ?? '') || null,
    tags: submit.tags === undefined ? null : tagsText(tagsOf(submit.tags)) || null,
    submittedBy: submit.submittedBy !== undefined && KEY_ID.test(submit.submittedBy) ? submit.submittedBy : undefined,
    policy: {
      executionTimeoutMs: submit.policy?.executionTimeoutMs ?? null,
      ttlMs: submit.policy?.ttlMs ?? null,
      lowPriority: submit.policy?.lowPriority ?? false,
    },
    s3,
    idempotency: submit.idempotencyKey === '' ? null : { key: `${endpoint}/${submit.idempotencyKey}`, bodyHash: submit.bodyHash },
    waitMs: submit.waitMs,
  };
}

/** The event of a request that reads a job or its stream. */
export function readEvent(ref: Ref, counting: Counting, endpoint: string, operation: Requested<'get' | 'stream'>): CoreEvent {
  const { jobId: job, waitMs } = operation.value;
  if (operation.$case === 'get') return { kind: 'get', ref, counting, endpoint, job, waitMs };
  return { kind: 'read-stream', ref, counting, endpoint, job, after: cursorOf(operation.value), waitMs };
}

/** How a request counts: as its gateway says, otherwise as its own kind. */
export function countingOf({ limitedAs, resent, operation }: JobRequest): Counting {
  if (limitedAs === 'none' || operation === undefined) return { limitedAs: null, resent };
  if (limitedAs === 'openai') return { limitedAs: 'openai', resent };
  switch (operation.$case) {
    case 'submit':
      return { limitedAs: operation.value.kind === JobKind.RUNSYNC ? 'runsync' : 'run', resent };
    case 'get':
      return { limitedAs: 'status', resent };
    case 'stream':
      return { limitedAs: 'stream', resent };
    case 'abandon':
      return { limitedAs: null, resent };
  }
}

/** Returns the position that the reader of a stream acknowledges. */
function cursorOf({ after, exact }: ReadStream): Cursor | null {
  return after === undefined ? null : { token: after.token, next: after.nextIndex, exact };
}
