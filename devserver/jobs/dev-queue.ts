/**
 * The queues of the development server, in memory. A job starts on the newest worker of its endpoint as soon as that has
 * a free slot; jobs that run on the code before a change do not count.
 */
import { CapstanError } from '../../lib/errors.ts';
import { fromPayloadMessage, type BlobReference, type Payload } from '../../lib/payload.ts';
import { messageOf } from '../../lib/to-error.ts';
import {
  ENDPOINT_DELETED_ERROR,
  EXECUTION_TIMEOUT_ERROR,
  jobNotFound,
  lastAttemptError,
  notRetryable,
  PURGED_ERROR,
  resultExpired,
} from '../../lib/job-errors.ts';
import { INTERNAL_ERROR } from '../../lib/http-messages.ts';
import { JobState } from '../../proto/gen/capstan/v1/common.ts';
import type { EndpointHealth, GetJob, Job, JobRef, ListJobsResponse, ReadStream, Submit } from '../../proto/gen/capstan/v1/jobs.ts';
import type { JobResult, ChannelRequest, Done, JobQueue } from '../../gateway/assembly/queue-api.ts';
import type { LocalWorker, LostTask, TaskResult } from '../../agent/local-workers.ts';
import { DevJob, type JobEnd } from './dev-job.ts';
import { IdempotencyKeys } from './idempotency-keys.ts';

/** Limit of an endpoint whose declaration names none, ms. */
const DEFAULT_EXECUTION_MS = 600_000;
/** The service's default: declarations name no other. */
const MAX_ATTEMPTS = 2;
/** Jobs that are kept; the oldest ended ones are removed first. */
const MAX_JOBS = 2_000;

/** The endpoints as they are declared now. */
export interface QueueEndpoints {
  /** Undefined when there is no such queue endpoint. */
  find(name: string): { readonly maxConcurrency: number; readonly executionTimeoutMs: number } | undefined;
  /** Returns the worker with the newest code. */
  worker(name: string): LocalWorker;
}

export interface DevQueueDeps {
  readonly endpoints: QueueEndpoints;
  /** Receives a progress update of a job, JSON text. */
  readonly onProgress: (endpoint: string, text: string) => void;
  /** A job has failed; `error` says how. */
  readonly onFailed: (endpoint: string, job: string, error: string) => void;
  /** A job with a webhook has ended. */
  readonly onWebhook: (job: string) => void;
  /** True while a debugger holds the endpoint: its time limits do not count. */
  readonly isDebugged: (endpoint: string) => boolean;
  /** Monotonic clock, ms. */
  readonly now: () => number;
}

interface Counts {
  completed: number;
  failed: number;
  retried: number;
}

export class DevQueue implements JobQueue {
  readonly #deps: DevQueueDeps;
  /** Oldest first. */
  readonly #jobs = new Map<string, DevJob>();
  readonly #waiting = new Map<string, DevJob[]>();
  readonly #running = new Map<LocalWorker, Set<DevJob>>();
  readonly #counts = new Map<string, Counts>();
  readonly #keys = new IdempotencyKeys();
  readonly #blobs = new Map<string, Buffer>();
  readonly #abandoned = new Map<number, () => void>();
  #next = 1;

  constructor(deps: DevQueueDeps) {
    this.#deps = deps;
  }

  readonly channel: JobQueue['channel'] = {
    request: (request, done) => this.#request(request, done),
    abandon: (ticket) => {
      this.#abandoned.get(ticket)?.();
    },
    lost: (operation, part) => {
      if (operation.$case === 'stream') this.#jobs.get(operation.value.jobId)?.unread(part);
    },
  };

  /** Large inputs, which a gateway stores apart from the queue. */
  readonly bodies: JobQueue['bodies'] = {
    put: async (bytes) => {
      const id = `body-${this.#next++}`;
      this.#blobs.set(id, bytes);
      return Promise.resolve({ id, size: bytes.length });
    },
    open: async (reference) => Promise.resolve(chunksOf(this.#bytesOf(reference))),
    read: async (payload) => Promise.resolve(this.#inputOf(payload)),
  };

  readonly jobCalls: JobQueue['jobCalls'] = {
    cancel: async (ref) => Promise.resolve(this.#cancel(ref)),
    retry: async (ref) => Promise.resolve(this.#retry(ref)),
    purgeQueue: async (endpoint) => Promise.resolve(this.#purge(endpoint)),
    health: async (endpoint) => Promise.resolve(this.#health(endpoint)),
    list: async ({ endpointId, state, limit, offset }) => Promise.resolve(this.#list(endpointId, state, { limit, offset })),
  };

  /** Starts what may start: the declarations or the workers changed. */
  refresh(): void {
    for (const endpoint of this.#waiting.keys()) this.#fill(endpoint);
  }

  /** Ends all jobs without starting others. */
  close(): void {
    const jobs = [...this.#jobs.values()];
    this.#waiting.clear();
    for (const job of jobs) this.#end(job, { state: JobState.CANCELLED, error: 'the development server has stopped' });
  }

  #request({ endpointId, operation, held }: ChannelRequest, done: Done): number {
    const ticket = this.#next++;
    held?.release();
    // Never before this function has returned.
    const answer: Done = (error, value) => setImmediate(done, error, value);
    try {
      switch (operation.$case) {
        case 'submit':
          this.#waitForEnd(ticket, this.#submit(endpointId, operation.value), operation.value.waitMs, answer);
          break;
        case 'get':
          this.#get(ticket, endpointId, operation.value, answer);
          break;
        case 'stream':
          this.#stream(ticket, endpointId, operation.value, answer);
          break;
      }
    } catch (error) {
      answer(error instanceof CapstanError ? error : new CapstanError('INTERNAL', INTERNAL_ERROR, { cause: error }), null);
    }
    return ticket;
  }

  #submit(endpoint: string, submit: Submit): DevJob {
    this.#prune();
    const now = this.#deps.now();
    if (submit.idempotencyKey !== '') {
      const known = this.#keys.find(endpoint, submit, now);
      if (known !== undefined) {
        const job = this.#jobs.get(known);
        if (job !== undefined) return job;
        throw resultExpired(known);
      }
    }
    const payload = fromPayloadMessage(submit.input);
    const job = new DevJob(endpoint, submit, payload === undefined ? Buffer.from('{}') : this.#inputOf(payload), now);
    if (payload !== undefined && 'blob' in payload) this.#blobs.delete(payload.blob.id);
    this.#jobs.set(job.id, job);
    if (submit.idempotencyKey !== '') this.#keys.add(endpoint, submit, now);
    this.#enter(job);
    return job;
  }

  #enter(job: DevJob): void {
    job.position = this.#next++;
    this.#queue(job);
    // The lifetime counts from the submission or the retry until the end.
    const { position } = job;
    const timer = setTimeout(() => {
      if (!job.hasEnded && job.position === position) this.#delete(job);
    }, job.ttlMs);
    timer.unref();
    this.#fill(job.endpoint);
  }

  #queue(job: DevJob): void {
    const queue = this.#waiting.get(job.endpoint) ?? [];
    this.#waiting.set(job.endpoint, queue);
    const later = queue.findIndex(({ position }) => position > job.position);
    queue.splice(later === -1 ? queue.length : later, 0, job);
  }

  /** Starts queued jobs while the newest worker has free slots. */
  #fill(endpoint: string): void {
    const queue = this.#waiting.get(endpoint) ?? [];
    while (queue.length > 0) {
      const found = this.#deps.endpoints.find(endpoint);
      if (found === undefined) {
        for (const job of queue.splice(0)) this.#end(job, { state: JobState.CANCELLED, error: ENDPOINT_DELETED_ERROR });
        return;
      }
      const worker = this.#deps.endpoints.worker(endpoint);
      const running = this.#running.get(worker) ?? new Set();
      const isAlone = (each: DevJob): boolean => each.runsAlone(MAX_ATTEMPTS);
      const [job] = queue;
      if (job === undefined || running.size >= (isAlone(job) ? 1 : found.maxConcurrency) || [...running].some(isAlone)) return;
      queue.shift();
      this.#running.set(worker, running.add(job));
      const limitMs = job.executionTimeoutMs ?? (found.executionTimeoutMs === 0 ? DEFAULT_EXECUTION_MS : found.executionTimeoutMs);
      void this.#run(job, worker, limitMs);
    }
  }

  async #run(job: DevJob, worker: LocalWorker, limitMs: number): Promise<void> {
    const { stop } = job;
    let timer: NodeJS.Timeout | undefined;
    const startTimer = (): void => {
      timer = setTimeout(() => {
        if (this.#deps.isDebugged(job.endpoint)) startTimer();
        else if (this.#end(job, { state: JobState.TIMED_OUT, error: EXECUTION_TIMEOUT_ERROR })) stop.abort();
      }, limitMs);
      timer.unref();
    };
    job.workerId = worker.id;
    try {
      const result = await worker.run({
        jobId: job.id,
        attempt: job.attempts + 1,
        input: job.input,
        s3Config: job.s3Config,
        trace: job.trace,
        signal: stop.signal,
        onEntered: () => {
          job.started(this.#deps.now());
          startTimer();
        },
        onChunk: (data) => job.chunk(data),
        onProgress: (data) => {
          job.progress(data);
          this.#deps.onProgress(job.endpoint, data.toString());
        },
      });
      if (job.stop === stop && !job.hasEnded) {
        if (result.kind === 'lost') this.#lost(job, result);
        else this.#end(job, endOf(result));
      }
    } catch (error) {
      if (job.stop === stop) this.#end(job, { state: JobState.FAILED, error: messageOf(error) });
    } finally {
      clearTimeout(timer);
      const running = this.#running.get(worker);
      running?.delete(job);
      if (running?.size === 0) this.#running.delete(worker);
      this.#fill(job.endpoint);
    }
  }

  /** As the scheduler does with an attempt whose worker ended. */
  #lost(job: DevJob, { how, detail }: LostTask): void {
    if (how === 'unstarted') job.unstarted();
    else {
      const last = job.lost(how, MAX_ATTEMPTS);
      if (last !== null) {
        this.#end(job, { state: JobState.FAILED, error: lastAttemptError(detail, last, MAX_ATTEMPTS) });
        return;
      }
    }
    this.#queue(job);
  }

  #end(job: DevJob, end: JobEnd): boolean {
    if (!job.ended(end, this.#deps.now())) return false;
    const counts = this.#countsOf(job.endpoint);
    if (end.state === JobState.COMPLETED) counts.completed += 1;
    else if (end.state !== JobState.CANCELLED) {
      counts.failed += 1;
      this.#deps.onFailed(job.endpoint, job.id, `${nameOf(end.state)}${end.error === undefined ? '' : `: ${end.error}`}`);
    }
    if (job.webhook !== '') this.#deps.onWebhook(job.id);
    return true;
  }

  #get(ticket: number, endpoint: string, { jobId, waitMs }: GetJob, done: Done): void {
    this.#waitForEnd(ticket, this.#job(endpoint, jobId), waitMs, done);
  }

  #waitForEnd(ticket: number, job: DevJob, waitMs: number, done: Done): void {
    this.#wait(ticket, job, { waitMs, isMet: () => job.hasEnded, answer: () => ({ job: job.toMessage() }) }, done);
  }

  #stream(ticket: number, endpoint: string, { jobId, waitMs, after, exact }: ReadStream, done: Done): void {
    const job = this.#job(endpoint, jobId);
    const cursor = exact ? after : undefined;
    this.#wait(
      ticket,
      job,
      { waitMs, isMet: () => job.hasEnded || job.hasUnread(cursor), answer: () => ({ stream: job.read(cursor) }) },
      done,
    );
  }

  /** Answers once the condition is met, at the latest after `waitMs`. */
  #wait(
    ticket: number,
    job: DevJob,
    { waitMs, isMet, answer }: { readonly waitMs: number; readonly isMet: () => boolean; readonly answer: () => JobResult },
    done: Done,
  ): void {
    if (waitMs === 0 || isMet()) {
      done(null, answer());
      return;
    }
    const over = (): void => {
      clearTimeout(timer);
      job.watchers.delete(check);
      this.#abandoned.delete(ticket);
    };
    const finish = (): void => {
      over();
      if (this.#jobs.get(job.id) === job) done(null, answer());
      else done(jobNotFound(job.id), null);
    };
    const check = (): void => {
      if (isMet()) finish();
    };
    const timer = setTimeout(finish, waitMs);
    timer.unref();
    job.watchers.add(check);
    this.#abandoned.set(ticket, over);
  }

  #cancel({ endpointId, jobId }: JobRef): Job {
    const job = this.#job(endpointId, jobId);
    this.#leave(job);
    // A job that has ended keeps its state.
    if (this.#end(job, { state: JobState.CANCELLED })) job.stop.abort();
    return job.toMessage();
  }

  #retry({ endpointId, jobId }: JobRef): Job {
    const job = this.#job(endpointId, jobId);
    if (job.state !== JobState.FAILED && job.state !== JobState.TIMED_OUT)
      throw notRetryable(jobId, job.hasEnded ? nameOf(job.state) : null);
    this.#countsOf(endpointId).retried += 1;
    job.retried(this.#deps.now());
    const message = job.toMessage();
    this.#enter(job);
    return message;
  }

  #purge(endpoint: string): number {
    const queue = this.#waiting.get(endpoint)?.splice(0) ?? [];
    for (const job of queue) this.#end(job, { state: JobState.CANCELLED, error: PURGED_ERROR });
    return queue.length;
  }

  #health(endpoint: string): EndpointHealth {
    const { completed, failed, retried } = this.#countsOf(endpoint);
    const jobs = [...this.#jobs.values()].filter((job) => job.endpoint === endpoint && !job.hasEnded);
    const inProgress = jobs.filter(({ state }) => state === JobState.IN_PROGRESS).length;
    const worker = this.#deps.endpoints.worker(endpoint);
    const isRunning = (this.#running.get(worker)?.size ?? 0) > 0 && worker.isLoaded;
    return {
      jobsCompleted: completed,
      jobsFailed: failed,
      jobsInProgress: inProgress,
      jobsInQueue: jobs.length - inProgress,
      jobsRetried: retried,
      workersIdle: worker.isLoaded && !isRunning ? 1 : 0,
      workersInitializing: worker.isLoaded || worker.isOver ? 0 : 1,
      workersReady: worker.isLoaded ? 1 : 0,
      workersRunning: isRunning ? 1 : 0,
      workersThrottled: 0,
      workersUnhealthy: worker.isOver ? 1 : 0,
    };
  }

  #list(endpoint: string, state: JobState, { limit, offset }: { readonly limit: number; readonly offset: number }): ListJobsResponse {
    this.#prune();
    const jobs = [...this.#jobs.values()]
      .filter((job) => job.endpoint === endpoint && (state === JobState.UNSPECIFIED || job.state === state))
      .reverse();
    return { jobs: jobs.slice(offset, offset + limit).map((job) => job.toMessage()), total: jobs.length };
  }

  #job(endpoint: string, id: string): DevJob {
    this.#prune();
    const job = this.#jobs.get(id);
    if (job === undefined || job.endpoint !== endpoint) throw jobNotFound(id);
    return job;
  }

  #leave(job: DevJob): void {
    const queue = this.#waiting.get(job.endpoint);
    const at = queue?.indexOf(job) ?? -1;
    if (at >= 0) queue?.splice(at, 1);
  }

  /** Its lifetime is over: nobody finds it any more. */
  #delete(job: DevJob): void {
    this.#leave(job);
    this.#jobs.delete(job.id);
    job.ended({ state: JobState.CANCELLED }, this.#deps.now());
    job.stop.abort();
  }

  #prune(): void {
    const now = this.#deps.now();
    for (const job of this.#jobs.values()) if (job.isExpired(now)) this.#jobs.delete(job.id);
    for (const job of this.#jobs.values()) {
      if (this.#jobs.size <= MAX_JOBS) return;
      if (job.hasEnded) this.#jobs.delete(job.id);
    }
  }

  #countsOf(endpoint: string): Counts {
    const counts = this.#counts.get(endpoint) ?? { completed: 0, failed: 0, retried: 0 };
    this.#counts.set(endpoint, counts);
    return counts;
  }

  #inputOf(payload: Payload): Buffer {
    return 'inline' in payload ? Buffer.from(payload.inline) : this.#bytesOf(payload.blob);
  }

  #bytesOf({ id }: BlobReference): Buffer {
    const bytes = this.#blobs.get(id);
    if (bytes === undefined) throw new CapstanError('NOT_FOUND', `body ${id} does not exist`);
    return bytes;
  }
}

function endOf(result: TaskResult): JobEnd {
  switch (result.kind) {
    case 'returned':
      return { state: JobState.COMPLETED, output: result.output, executionMs: Math.round(result.ms) };
    case 'failed':
      return { state: JobState.FAILED, error: result.error, executionMs: Math.round(result.ms) };
    case 'stopped':
      return { state: JobState.CANCELLED, executionMs: Math.round(result.ms) };
  }
}

async function* chunksOf(bytes: Buffer): AsyncGenerator<Buffer> {
  yield await Promise.resolve(bytes);
}

/** `FAILED` of `JOB_STATE_FAILED`. */
function nameOf(state: JobState): string {
  return state.replace(/^JOB_STATE_/, '');
}
