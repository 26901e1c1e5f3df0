/** A job that was submitted. */
import { JobError } from './errors.ts';
import { call, type Connection } from './http.ts';

/** SPEC.md, States and transitions; WIRE.md section 1. */
export type JobStatus = 'IN_QUEUE' | 'IN_PROGRESS' | 'COMPLETED' | 'FAILED' | 'CANCELLED' | 'TIMED_OUT';

/** A job as /status tells it; times in ms. */
export interface JobSnapshot<Output = unknown> {
  readonly id: string;
  readonly status: JobStatus;
  /** The result when COMPLETED, the last progress update while IN_PROGRESS. */
  readonly output?: Output;
  readonly error?: string;
  /** Submission to the start of the attempt. */
  readonly delayTime?: number;
  /** Duration of the attempt. */
  readonly executionTime?: number;
  readonly workerId?: string;
  /** Started attempts beyond the first. */
  readonly retries?: number;
}

/** The longest wait the service grants in one call, ms (WIRE.md section 1), less a little for the way back. */
const LONGEST_WAIT_MS = 60_000;

export class Job<Output = unknown> {
  readonly id: string;
  readonly #connection: Connection;
  readonly #path: string;
  #last: JobSnapshot<Output>;

  /** `path` is that of the endpoint: `/v2/<id>`. */
  constructor(connection: Connection, path: string, snapshot: JobSnapshot<Output>) {
    this.id = snapshot.id;
    this.#connection = connection;
    this.#path = path;
    this.#last = snapshot;
  }

  /** The last known state is an end. */
  get done(): boolean {
    return isTerminal(this.#last.status);
  }

  /** The job's error, when the last known state has one. */
  get error(): string | undefined {
    return this.#last.error;
  }

  /** The present status. */
  async status(options: { readonly signal?: AbortSignal } = {}): Promise<JobStatus> {
    return (await this.snapshot(options)).status;
  }

  /** Everything the service says about the job now. A CapstanApiError with status 404 means it was forgotten. */
  async snapshot(options: { readonly signal?: AbortSignal } = {}): Promise<JobSnapshot<Output>> {
    this.#last = await call(this.#connection, {
      method: 'GET',
      path: `${this.#path}/status/${encodeURIComponent(this.id)}`,
      signal: options.signal,
    });
    return this.#last;
  }

  /** Waits for the end, however it ends, and gives the final state. */
  async wait(options: { readonly signal?: AbortSignal } = {}): Promise<JobSnapshot<Output>> {
    while (!this.done) {
      const path = `${this.#path}/status-sync/${encodeURIComponent(this.id)}?wait=${LONGEST_WAIT_MS}`;
      this.#last = await call(this.#connection, { method: 'GET', path, signal: options.signal });
    }
    return this.#last;
  }

  /** Waits for the end and gives the result. Throws JobError when there is none. */
  async output(options: { readonly signal?: AbortSignal } = {}): Promise<Output> {
    const { status, output, error } = await this.wait(options);
    if (status !== 'COMPLETED') throw new JobError(this.id, status, error);
    return output as Output;
  }

  /** Stops the job, queued or running. A CapstanApiError with status 409 means it had ended. */
  async cancel(options: { readonly signal?: AbortSignal } = {}): Promise<void> {
    this.#last = await call(this.#connection, {
      method: 'POST',
      path: `${this.#path}/cancel/${encodeURIComponent(this.id)}`,
      signal: options.signal,
    });
  }
}

export function isTerminal(status: JobStatus): boolean {
  return status !== 'IN_QUEUE' && status !== 'IN_PROGRESS';
}
