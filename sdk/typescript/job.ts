/** A job that was submitted. */
import { Deadline } from './deadline.ts';
import { ConflictError, ConnectionError, jobError, TimeoutError } from './errors.ts';
import { call, exchange, parsed, sleep, type CallRequest, type Connection } from './http.ts';

/** Status of a job, as the HTTP API returns it. */
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
  /** Why it waits, while IN_QUEUE. */
  readonly queueReason?: string;
}

export interface WaitOptions {
  readonly signal?: AbortSignal | undefined;
  /** ms; without it the wait takes as long as the job. */
  readonly timeoutMs?: number | undefined;
}

/** The longest wait asked of the service in one call, ms: proxies on the way cut longer ones. */
export const LONGEST_WAIT_MS = 60_000;
/** How long a call for chunks may be held, ms. */
const STREAM_WAIT_MS = 8_000;
/** The place before every chunk that is kept. */
const STREAM_START = '0.0';
/** Below this the service does not wait, ms. */
const SHORTEST_WAIT_MS = 1_000;

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

  /** Everything the service says about the job now. A NotFoundError means it was forgotten. */
  async snapshot(options: { readonly signal?: AbortSignal } = {}): Promise<JobSnapshot<Output>> {
    this.#last = await this.#call('GET', 'status', options.signal);
    return this.#last;
  }

  /** Waits for the end, however it ends, and gives the final state. Throws TimeoutError. */
  wait(options: WaitOptions = {}): Promise<JobSnapshot<Output>> {
    return this.#waitBy(new Deadline(options.timeoutMs), options.signal);
  }

  /** Waits for the end and gives the result. Throws JobError when there is none, TimeoutError when it takes too long. */
  output(options: WaitOptions = {}): Promise<Output> {
    return this.outputBy(new Deadline(options.timeoutMs), options.signal);
  }

  /** `output` within the time that a call around it was given. */
  async outputBy(deadline: Deadline, signal: AbortSignal | undefined): Promise<Output> {
    const { status, output, error } = await this.#waitBy(deadline, signal);
    if (status !== 'COMPLETED') throw jobError(this.id, status, error);
    return output as Output;
  }

  /**
   * The chunks of a generator as they come, for as long as it runs, from the first that is kept. Throws what
   * `output` throws, after the chunks. A connection that breaks loses none.
   */
  async *stream(options: { readonly signal?: AbortSignal } = {}): AsyncGenerator<ChunkOf<Output>, void, void> {
    let count = 0;
    let cursor: string | null = STREAM_START;
    for (;;) {
      let page: StreamPage<Output>;
      try {
        ({ page, cursor } = await this.#readChunks(cursor, options.signal));
      } catch (error) {
        if (!(error instanceof ConnectionError)) throw error;
        const all: unknown = await this.output(options);
        if (!Array.isArray(all) || all.length < count) throw error;
        yield* all.slice(count) as ChunkOf<Output>[];
        return;
      }
      for (const { output } of page.stream) yield output;
      count += page.stream.length;
      if (page.status === 'COMPLETED') return;
      if (isTerminal(page.status)) {
        this.#last = { id: this.id, status: page.status, ...(page.error === undefined ? {} : { error: page.error }) };
        throw jobError(this.id, page.status, page.error);
      }
    }
  }

  /** Stops the job, queued or running. A ConflictError means it had ended. */
  async cancel(options: { readonly signal?: AbortSignal } = {}): Promise<void> {
    await this.#change('cancel', ['CANCELLED'], options.signal);
  }

  /** Queues a job that failed or timed out again, with the same id and input. A ConflictError means that it is in another state. */
  async retry(options: { readonly signal?: AbortSignal } = {}): Promise<void> {
    await this.#change('retry', ['IN_QUEUE', 'IN_PROGRESS'], options.signal);
  }

  async #waitBy(deadline: Deadline, signal: AbortSignal | undefined): Promise<JobSnapshot<Output>> {
    while (!this.done) {
      if (deadline.leftMs === 0) throw new TimeoutError(`job ${this.id} is ${this.#last.status} after ${deadline.limitMs} ms`, this.id);
      if (deadline.leftMs < SHORTEST_WAIT_MS) {
        await sleep(deadline.leftMs, signal);
        await this.snapshot(signal === undefined ? {} : { signal });
        continue;
      }
      const waitMs = deadline.wait(LONGEST_WAIT_MS);
      const path = `${this.#path}/status-sync/${encodeURIComponent(this.id)}?wait=${waitMs}`;
      this.#last = await callJob(this.#connection, { method: 'GET', path, signal, waitMs });
    }
    return this.#last;
  }

  async #change(operation: 'cancel' | 'retry', wanted: readonly JobStatus[], signal: AbortSignal | undefined): Promise<void> {
    try {
      this.#last = await this.#call('POST', operation, signal);
    } catch (error) {
      // The first try may have done it, and its answer been lost.
      if (!(error instanceof ConflictError) || error.attempts === 1) throw error;
      const found = await this.snapshot(signal === undefined ? {} : { signal });
      if (!wanted.includes(found.status)) throw error;
    }
  }

  /**
   * A service that keeps no place (null) gives each chunk once: there a call whose answer was lost is not made
   * again, and what was lost is taken from the output.
   */
  async #readChunks(
    cursor: string | null,
    signal: AbortSignal | undefined,
  ): Promise<{ readonly page: StreamPage<Output>; readonly cursor: string | null }> {
    const after = cursor === null ? '' : `&after=${encodeURIComponent(cursor)}`;
    const request: CallRequest = {
      method: 'GET',
      path: `${this.#path}/stream/${encodeURIComponent(this.id)}?wait=${STREAM_WAIT_MS}${after}`,
      signal,
      waitMs: STREAM_WAIT_MS,
      againWhenUnreachable: cursor !== null && cursor !== STREAM_START,
    };
    const answer = await exchange(this.#connection, request);
    const page = parsed(request, answer) as StreamPage<Output> | null;
    if (typeof page?.status !== 'string' || !Array.isArray(page.stream)) throw unreadable(request, 'the response is not a stream');
    return { page, cursor: answer.headers.get('capstan-stream-cursor') };
  }

  #call(method: 'GET' | 'POST', operation: string, signal: AbortSignal | undefined): Promise<JobSnapshot<Output>> {
    return callJob(this.#connection, { method, path: `${this.#path}/${operation}/${encodeURIComponent(this.id)}`, signal });
  }
}

/** Calls what answers with a job. @throws what `call` throws; ConnectionError when the answer is none */
export async function callJob<Output>(connection: Connection, request: CallRequest): Promise<JobSnapshot<Output>> {
  const answer = await call<Partial<JobSnapshot<Output>> | null>(connection, request);
  if (typeof answer?.id !== 'string' || typeof answer.status !== 'string') throw unreadable(request, 'the response is not a job');
  return answer as JobSnapshot<Output>;
}

function unreadable({ method, path }: CallRequest, why: string): ConnectionError {
  return new ConnectionError(`${method} ${path}`, new Error(why));
}

/** A generator's output is the array of its chunks. */
export type ChunkOf<Output> = Output extends readonly (infer Chunk)[] ? Chunk : unknown;

interface StreamPage<Output> {
  readonly status: JobStatus;
  readonly stream: readonly { readonly output: ChunkOf<Output> }[];
  readonly error?: string;
}

function isTerminal(status: JobStatus): boolean {
  return status !== 'IN_QUEUE' && status !== 'IN_PROGRESS';
}
