/** A queue endpoint as its callers use it. */
import { call, type Connection } from './http.ts';
import { Job, type JobSnapshot } from './job.ts';
import { defaultRetryPolicy, type RetryPolicy } from './retry.ts';

const DEFAULT_BASE_URL = 'http://127.0.0.1:8080';
/** How long /runsync may hold the answer, ms; the call polls on from there. */
const SYNC_WAIT_MS = 60_000;

export interface EndpointOptions {
  /** Default: the environment variable SERVICE_API_KEY. */
  readonly apiKey?: string;
  /** Default: http://127.0.0.1:8080. */
  readonly baseUrl?: string;
  readonly retry?: Partial<RetryPolicy>;
  readonly fetch?: typeof globalThis.fetch;
}

/** SPEC.md, policy object; times in ms. */
export interface Policy {
  readonly executionTimeout?: number;
  readonly ttl?: number;
  readonly lowPriority?: boolean;
}

/** SPEC.md, s3Config object: handed to the worker's code. */
export interface S3Config {
  readonly accessId: string;
  readonly accessSecret: string;
  readonly bucketName: string;
  readonly endpointUrl: string;
}

export interface CallOptions {
  readonly signal?: AbortSignal;
}

export interface SubmitOptions extends CallOptions {
  /** URL called when the job ends. */
  readonly webhook?: string;
  readonly policy?: Policy;
  readonly s3Config?: S3Config;
  /** The same key and body again give the same job. Default: a new one for each call, so that a retry makes no second job. */
  readonly idempotencyKey?: string;
}

export type SyncOptions = SubmitOptions;

/** Answer of /health. */
export interface Health {
  readonly jobs: Readonly<Record<'completed' | 'failed' | 'inProgress' | 'inQueue' | 'retried', number>>;
  readonly workers: Readonly<Record<'idle' | 'initializing' | 'ready' | 'running' | 'throttled' | 'unhealthy', number>>;
}

export class Endpoint<Input extends object = Record<string, unknown>, Output = unknown> {
  readonly id: string;
  readonly #connection: Connection;
  readonly #path: string;

  constructor(id: string, options: EndpointOptions = {}) {
    const apiKey = options.apiKey ?? process.env['SERVICE_API_KEY'];
    if (apiKey === undefined || apiKey === '') throw new TypeError('no API key: pass { apiKey } or set SERVICE_API_KEY');
    this.id = id;
    this.#path = `/v2/${encodeURIComponent(id)}`;
    this.#connection = {
      apiKey,
      baseUrl: (options.baseUrl ?? DEFAULT_BASE_URL).replace(/\/+$/, ''),
      fetch: options.fetch ?? globalThis.fetch,
      retry: { ...defaultRetryPolicy, ...options.retry },
    };
  }

  /** Submits a job and gives its handle as soon as the service holds it. */
  async run(input: Input, options: SubmitOptions = {}): Promise<Job<Output>> {
    return new Job<Output>(this.#connection, this.#path, await this.#submit(`${this.#path}/run`, input, options));
  }

  /** Submits a job, waits for its end and gives the result. Throws JobError when it does not complete. */
  async runSync(input: Input, options: SyncOptions = {}): Promise<Output> {
    const snapshot = await this.#submit(`${this.#path}/runsync?wait=${SYNC_WAIT_MS}`, input, options);
    return new Job<Output>(this.#connection, this.#path, snapshot).output(options);
  }

  /** The handle of a job that was submitted before. */
  job(id: string): Job<Output> {
    return new Job<Output>(this.#connection, this.#path, { id, status: 'IN_QUEUE' });
  }

  /** Counts of jobs and workers. */
  health(options: CallOptions = {}): Promise<Health> {
    return call(this.#connection, { method: 'GET', path: `${this.#path}/health`, signal: options.signal });
  }

  #submit(path: string, input: Input, options: SubmitOptions): Promise<JobSnapshot<Output>> {
    const { webhook, policy, s3Config, idempotencyKey = crypto.randomUUID(), signal } = options;
    const headers = { 'idempotency-key': idempotencyKey };
    return call(this.#connection, { method: 'POST', path, body: { input, webhook, policy, s3Config }, headers, signal });
  }
}
