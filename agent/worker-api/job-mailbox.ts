/** The interface of a worker for the worker API: one mailbox per worker, implemented by whatever runs the worker. */

/** One job request of a worker. */
export interface TakeRequest {
  /** Free job slots of the worker. */
  readonly count: number;
  /** Whether it says that it holds jobs; absent when unknown. */
  readonly busy: boolean | undefined;
}

/**
 * Jobs on their way to the worker. Exactly one of the two functions is called, after the response was written or
 * failed.
 */
export interface Handout {
  /** JSON texts, one per job. */
  readonly jobs: readonly Buffer[];
  written(): void;
  lost(): void;
}

/** A final or partial result as posted by a worker. */
export type JobPost =
  | { readonly kind: 'progress'; readonly output: Buffer }
  | { readonly kind: 'returned'; readonly output: Buffer; readonly stopPod: boolean }
  | { readonly kind: 'failed'; readonly error: string; readonly output: Buffer | undefined; readonly stopPod: boolean };

export interface Ping {
  /** Absent when the worker says nothing about its jobs. */
  readonly jobIds: readonly string[] | undefined;
  /** The failure of a start-up check; absent when all passed. */
  readonly unhealthy: string | undefined;
}

export interface JobMailbox {
  /** Resolves when there is work, or without jobs when the time for this call is over. */
  take(ask: TakeRequest, gone: AbortSignal): Promise<Handout>;
  /** Resolves with the ids of jobs to stop, or with none when the time for this call is over. */
  stops(gone: AbortSignal): Promise<readonly string[]>;
  post(jobId: string, post: JobPost): void;
  /** The worker's post for this job is unacceptable: the job fails, and its handler may stop. */
  refuse(jobId: string, fault: string): void;
  /** Resolves when the generator may continue; reports nothing if the caller disconnected before that. */
  chunk(jobId: string, data: Buffer, gone: AbortSignal): Promise<void>;
  ping(ping: Ping): void;
}
