/** Builds the message of a job, the only place that does. */
import type { JobState } from '../proto/gen/capstan/v1/common.ts';
import type { Job } from '../proto/gen/capstan/v1/jobs.ts';
import { toPayloadMessage, type Payload } from './payload.ts';

/** Optional values may be absent or null alike. */
export interface JobFacts {
  readonly id: string;
  readonly endpointId: string;
  readonly state: JobState;
  readonly output?: Payload | null | undefined;
  readonly error?: string | null | undefined;
  /** Whole ms. */
  readonly delayMs?: number | null | undefined;
  readonly executionMs?: number | null | undefined;
  /** Attempts that started; the first one is no retry. */
  readonly attempts?: number;
  readonly worker?: string | null | undefined;
  readonly queueReason?: string;
  /** As it may be shown: without its secrets. */
  readonly webhook?: string;
  /** Ms since 1970; absent where it is not told. */
  readonly submittedAt?: number;
}

export function jobMessage(facts: JobFacts): Job {
  const { id, endpointId, state, output, error, delayMs, executionMs } = facts;
  const job: Job = {
    id,
    endpointId,
    state,
    retries: Math.max(0, (facts.attempts ?? 0) - 1),
    workerId: facts.worker ?? '',
    queueReason: facts.queueReason ?? '',
    webhook: facts.webhook ?? '',
    submittedAtMs: facts.submittedAt === undefined ? 0n : BigInt(Math.trunc(facts.submittedAt)),
  };
  // Nearly every message is of a job that was just submitted, and has none of these.
  if (output !== undefined && output !== null) job.output = toPayloadMessage(output);
  if (error !== undefined && error !== null) job.error = error;
  if (delayMs !== undefined && delayMs !== null) job.delayMs = delayMs;
  if (executionMs !== undefined && executionMs !== null) job.executionMs = executionMs;
  return job;
}
