/**
 * Cancels and retries jobs. When the response was lost (the scheduler ended, or lost the queue to another one), the call
 * is made again; a refusal of the repeated call is a success if the job is in the state that the first one would have left.
 */
import type { Metadata } from '@grpc/grpc-js';

import { CapstanError } from '../../lib/errors.ts';
import { fromServiceError } from '../../lib/grpc-errors.ts';
import { JobState } from '../../proto/gen/capstan/v1/common.ts';
import type { Job, JobRef, JobServiceClient } from '../../proto/gen/capstan/v1/jobs.ts';
import type { JobChannel } from './channel.ts';
import { callBare, untilAnswered } from './unary.ts';

export interface JobChanges {
  readonly jobs: JobServiceClient;
  readonly channel: JobChannel;
  readonly metadata: Metadata;
  readonly timeoutMs: number;
}

/** Cancels a queued or running job. Rejects with a CapstanError. */
export function cancelJob(changes: JobChanges, ref: JobRef): Promise<Job> {
  return change(changes, ref, 'cancel', (state) => state === JobState.CANCELLED);
}

/** Queues a failed or timed-out job again. Rejects with a CapstanError. */
export async function retryJob(changes: JobChanges, ref: JobRef): Promise<Job> {
  const job = await change(changes, ref, 'retry', (state) => state === JobState.IN_QUEUE || state === JobState.IN_PROGRESS);
  return { ...job, state: JobState.IN_QUEUE, delayMs: undefined, executionMs: undefined };
}

function change(changes: JobChanges, ref: JobRef, name: 'cancel' | 'retry', isDone: (state: JobState) => boolean): Promise<Job> {
  const { jobs, metadata, timeoutMs } = changes;
  const method = name === 'cancel' ? jobs.cancel.bind(jobs) : jobs.retry.bind(jobs);
  return untilAnswered(timeoutMs, async (leftMs, isRepeated) => {
    // The first try was counted for the rate limit already.
    const request = isRepeated ? { ...ref, limitedAs: 'none' } : ref;
    try {
      return await callBare(method, request, metadata, leftMs);
    } catch (thrown) {
      if (!isRepeated || fromServiceError(thrown).code !== 'CONFLICT') throw thrown;
      const job = await readJob(changes.channel, ref);
      if (isDone(job.state)) return job;
      throw thrown;
    }
  });
}

function readJob(channel: JobChannel, { endpointId, jobId }: JobRef): Promise<Job> {
  return new Promise((resolve, reject) => {
    const operation = { $case: 'get', value: { jobId, waitMs: 0 } } as const;
    channel.request({ endpointId, operation, held: null, limitedAs: 'none' }, (error, answer) => {
      if (error !== null) reject(error);
      else if (answer !== null && 'job' in answer) resolve(answer.job);
      else reject(new CapstanError('INTERNAL', 'unexpected reply type from the scheduler'));
    });
  });
}
