/** Calls about the jobs of an endpoint that do not travel over the job channel. */
import type { Metadata } from '@grpc/grpc-js';

import type { EndpointHealth, Job, JobRef, JobServiceClient, ListJobsRequest, ListJobsResponse } from '../../proto/gen/capstan/v1/jobs.ts';
import { cancelJob, retryJob, type JobChanges } from './change-job.ts';
import type { JobChannel } from './channel.ts';
import { callUnary } from './unary.ts';

/** Every call rejects with a CapstanError. */
export interface JobCalls {
  /** Cancels a queued or running job. */
  cancel(ref: JobRef): Promise<Job>;
  /** Queues a failed or timed-out job again. */
  retry(ref: JobRef): Promise<Job>;
  /** Cancels the queued jobs of an endpoint and returns their number. */
  purgeQueue(endpointId: string): Promise<number>;
  health(endpointId: string): Promise<EndpointHealth>;
  list(request: ListJobsRequest): Promise<ListJobsResponse>;
}

export interface SchedulerJobCallsOptions {
  readonly jobs: JobServiceClient;
  readonly channel: JobChannel;
  readonly metadata: Metadata;
  readonly timeoutMs: number;
}

/** Calls the scheduler that has the queue. */
export class SchedulerJobCalls implements JobCalls {
  readonly #changes: JobChanges;

  constructor(options: SchedulerJobCallsOptions) {
    this.#changes = options;
  }

  cancel(ref: JobRef): Promise<Job> {
    return cancelJob(this.#changes, ref);
  }

  retry(ref: JobRef): Promise<Job> {
    return retryJob(this.#changes, ref);
  }

  async purgeQueue(endpointId: string): Promise<number> {
    const { jobs, metadata, timeoutMs } = this.#changes;
    const { removed } = await callUnary(jobs.purgeQueue.bind(jobs), { endpointId }, metadata, timeoutMs);
    return removed;
  }

  health(endpointId: string): Promise<EndpointHealth> {
    const { jobs, metadata, timeoutMs } = this.#changes;
    return callUnary(jobs.getHealth.bind(jobs), { endpointId }, metadata, timeoutMs);
  }

  list(request: ListJobsRequest): Promise<ListJobsResponse> {
    const { jobs, metadata, timeoutMs } = this.#changes;
    return callUnary(jobs.listJobs.bind(jobs), request, metadata, timeoutMs);
  }
}
