/** What the worker API needs of the worker behind it: one desk a worker, told by whatever runs it. */

/** What one call of a worker for work asks. */
export interface TakeRequest {
  /** Jobs it has room for. */
  readonly count: number;
  /** Whether it says that it holds jobs; absent when it does not say. */
  readonly busy: boolean | undefined;
}

/** Jobs on their way to the worker: exactly one of both is called, once the answer was written or was not. */
export interface Handout {
  /** JSON texts, one a job. */
  readonly jobs: readonly Buffer[];
  written(): void;
  lost(): void;
}

/** A result, or what is not one yet, as a worker posted it. */
export type JobPost =
  | { readonly kind: 'progress'; readonly output: Buffer }
  | { readonly kind: 'returned'; readonly output: Buffer; readonly stopPod: boolean }
  | { readonly kind: 'failed'; readonly error: string; readonly output: Buffer | undefined; readonly stopPod: boolean };

export interface Ping {
  /** Absent when it says nothing about its jobs. */
  readonly jobIds: readonly string[] | undefined;
  /** What a start-up check found wrong; absent when all is well. */
  readonly unhealthy: string | undefined;
}

export interface JobMailbox {
  /** Resolves when there is work, or when the time for this call is over; then without jobs. */
  take(ask: TakeRequest, gone: AbortSignal): Promise<Handout>;
  /** Resolves with the ids of jobs to be stopped, none when the time for this call is over. */
  stops(gone: AbortSignal): Promise<readonly string[]>;
  post(jobId: string, post: JobPost): void;
  /** What the worker posted for this job cannot be taken: the job fails, and its handler need not go on. */
  refuse(jobId: string, fault: string): void;
  /** Resolves when the generator may go on; says nothing when the caller went away before that. */
  chunk(jobId: string, data: Buffer, gone: AbortSignal): Promise<void>;
  ping(ping: Ping): void;
}
