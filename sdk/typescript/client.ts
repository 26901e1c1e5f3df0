/** The client of a queue-based endpoint. */
import { dotEnvVariable } from './dot-env.ts';
import { variable } from './environment.ts';
import { Deadline } from './deadline.ts';
import { call, type Connection } from './http.ts';
import { callJob, Job, LONGEST_WAIT_MS, type JobSnapshot, type WaitOptions } from './job.ts';
import { defaultRetryPolicy, type RetryPolicy } from './retry.ts';

const DEFAULT_BASE_URL = 'http://127.0.0.1:8080';

export interface EndpointOptions {
  /**
   * Default: SERVICE_API_KEY of the environment; in a worker the worker's token; otherwise SERVICE_API_KEY of `.env` in
   * the working folder.
   */
  readonly apiKey?: string | undefined;
  /** Default: the environment variable CAPSTAN_URL, otherwise http://127.0.0.1:8080. */
  readonly baseUrl?: string | undefined;
  readonly retry?: Partial<RetryPolicy> | undefined;
  /**
   * Timeout of one attempt of a call, ms, in addition to the wait that it requests from the service. Default: 30000.
   */
  readonly timeoutMs?: number | undefined;
  readonly fetch?: typeof globalThis.fetch | undefined;
}

/** Execution policy of a job; times in ms. */
export interface Policy {
  readonly executionTimeout?: number | undefined;
  readonly ttl?: number | undefined;
  readonly lowPriority?: boolean | undefined;
}

/** Storage credentials that the service passes to the worker's code. */
export interface S3Config {
  readonly accessId: string;
  readonly accessSecret: string;
  readonly bucketName: string;
  readonly endpointUrl: string;
  /** Also passed to the worker's code. */
  readonly [other: string]: unknown;
}

export interface CallOptions {
  readonly signal?: AbortSignal | undefined;
}

export interface SubmitOptions extends CallOptions {
  /** URL called when the job ends. */
  readonly webhook?: string | undefined;
  readonly policy?: Policy | undefined;
  readonly s3Config?: S3Config | undefined;
  /** Words to find the job by in the console and by GraphQL: at most 8, of 1 to 64 letters, digits and `_.:/=@+-`. */
  readonly tags?: readonly string[] | undefined;
  /**
   * The same key with the same body returns the same job. Default: a new key for each call, so that retries do not
   * create a second job.
   */
  readonly idempotencyKey?: string | undefined;
}

export interface SyncOptions extends SubmitOptions, WaitOptions {}

/** Response of /health. */
export interface Health {
  readonly jobs: Readonly<Record<'completed' | 'failed' | 'inProgress' | 'inQueue' | 'retried', number>>;
  readonly workers: Readonly<Record<'idle' | 'initializing' | 'ready' | 'running' | 'throttled' | 'unhealthy', number>>;
}

export class EndpointClient<Input extends object = Record<string, unknown>, Output = unknown> {
  readonly id: string;
  readonly #connection: Connection;
  readonly #path: string;

  /** @throws TypeError when there is no API key. */
  constructor(id: string, options: EndpointOptions = {}) {
    if (typeof id !== 'string' || id === '') throw new TypeError('the endpoint id must be a non-empty string');
    this.id = id;
    this.#path = `/v2/${encodeURIComponent(id)}`;
    this.#connection = connectionOf(options);
  }

  /** Submits a job and returns its handle as soon as the service has stored it. */
  async run(input: Input, options: SubmitOptions = {}): Promise<Job<Output>> {
    return new Job<Output>(this.#connection, this.#path, await this.#submit(`${this.#path}/run`, input, options));
  }

  /**
   * Submits a job, waits for its end and returns the result. Throws JobError when it does not complete, TimeoutError
   * when it takes too long.
   */
  async runSync(input: Input, options: SyncOptions = {}): Promise<Output> {
    const deadline = new Deadline(options.timeoutMs);
    const waitMs = deadline.wait(LONGEST_WAIT_MS);
    const snapshot = await this.#submit(`${this.#path}/runsync?wait=${waitMs}`, input, options, { waitMs, deadline });
    return new Job<Output>(this.#connection, this.#path, snapshot).outputBy(deadline, options.signal);
  }

  /** As `runSync`. */
  runsync(input: Input, options: SyncOptions = {}): Promise<Output> {
    return this.runSync(input, options);
  }

  /** Returns the handle of an earlier job. */
  job(id: string): Job<Output> {
    return new Job<Output>(this.#connection, this.#path, { id, status: 'IN_QUEUE' });
  }

  /** Counts of jobs and workers. */
  health(options: CallOptions = {}): Promise<Health> {
    return call(this.#connection, { method: 'GET', path: `${this.#path}/health`, signal: options.signal });
  }

  /** Cancels every queued job; returns their number. */
  async purgeQueue(options: CallOptions = {}): Promise<number> {
    const path = `${this.#path}/purge-queue`;
    const { removed } = await call<{ readonly removed: number }>(this.#connection, { method: 'POST', path, signal: options.signal });
    return removed;
  }

  #submit(
    path: string,
    input: Input,
    options: SubmitOptions,
    more: { readonly waitMs?: number; readonly deadline?: Deadline } = {},
  ): Promise<JobSnapshot<Output>> {
    const { webhook, policy, s3Config, tags, idempotencyKey = crypto.randomUUID(), signal } = options;
    const headers = { 'idempotency-key': idempotencyKey };
    return callJob(this.#connection, { method: 'POST', path, body: { input, webhook, policy, s3Config, tags }, headers, signal, ...more });
  }
}

/** @throws TypeError when there is no API key, or the key or the URL is invalid. */
function connectionOf(options: EndpointOptions): Connection {
  const apiKey = options.apiKey ?? variable('SERVICE_API_KEY') ?? variable('CAPSTAN_WORKER_TOKEN') ?? dotEnvVariable('SERVICE_API_KEY');
  if (apiKey === undefined || apiKey === '')
    throw new TypeError('no API key: pass { apiKey } or set SERVICE_API_KEY, in the environment or in .env of the working folder');
  // Checked here, because fetch's own error would contain the key.
  if (!/^[!-~]+$/.test(apiKey.trim())) throw new TypeError('the API key must be printable ASCII without spaces');
  const baseUrl = options.baseUrl ?? variable('CAPSTAN_URL') ?? DEFAULT_BASE_URL;
  if (!/^https?:\/\//i.test(baseUrl)) throw new TypeError(`baseUrl must start with http:// or https://, not ${JSON.stringify(baseUrl)}`);
  return {
    apiKey: apiKey.trim(),
    baseUrl: baseUrl.replace(/\/+$/, ''),
    fetch: options.fetch ?? globalThis.fetch,
    retry: { ...defaultRetryPolicy, ...options.retry },
    timeoutMs: options.timeoutMs ?? 30_000,
  };
}
