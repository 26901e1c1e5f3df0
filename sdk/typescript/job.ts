/** A job that was submitted. */
import { Deadline } from './deadline.ts';
import { ConflictError, ConnectionError, jobError, TimeoutError } from './errors.ts';
import { call, exchange, parsed, sleep, type CallRequest, type Connection } from './http.ts';

/** Status of a job, as the HTTP API returns it. */
export type JobStatus = 'IN_QUEUE' | 'IN_PROGRESS' | 'COMPLETED' | 'FAILED' | 'CANCELLED' | 'TIMED_OUT';

/** A job as returned by /status; times in ms. */
export interface JobSnapshot<Output = unknown> {
  readonly id: string;
  readonly status: JobStatus;
  /** The result when COMPLETED, the last progress update while IN_PROGRESS. */
  readonly output?: Output;
  readonly error?: string;
  /** Time from the submission to the start of the attempt. */
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
  /** ms; without it the wait lasts until the end of the job. */
  readonly timeoutMs?: number | undefined;
}

/** The longest wait requested in one call, ms: proxies end longer ones. */
export const LONGEST_WAIT_MS = 60_000;
/** How long a call for chunks may be held, ms. */
const STREAM_WAIT_MS = 8_000;
/** The position before the first kept chunk. */
const STREAM_START = '0.0';
/** The minimum wait of the service, ms. */
const SHORTEST_WAIT_MS = 1_000;

export class Job<Output = unknown> {
  readonly id: string;
  readonly #connection: Connection;
  readonly #path: string;
  #last: JobSnapshot<Output>;

  /** `path` is the path of the endpoint: `/v2/<id>`. */
  constructor(connection: Connection, path: string, snapshot: JobSnapshot<Output>) {
    this.id = snapshot.id;
    this.#connection = connection;
    this.#path = path;
    this.#last = snapshot;
  }

  /** True when the last known state is final. */
  get done(): boolean {
    return isTerminal(this.#last.status);
  }

  /** The job's error, if the last known state has one. */
  get error(): string | undefined {
    return this.#last.error;
  }

  /** The current status. */
  async status(options: { readonly signal?: AbortSignal } = {}): Promise<JobStatus> {
    return (await this.snapshot(options)).status;
  }

  /** Reads the current state of the job. A NotFoundError means that it was deleted. */
  async snapshot(options: { readonly signal?: AbortSignal } = {}): Promise<JobSnapshot<Output>> {
    this.#last = await this.#call('GET', 'status', options.signal);
    return this.#last;
  }

  /** Waits for the end and returns the final state, whatever it is. Throws TimeoutError. */
  wait(options: WaitOptions = {}): Promise<JobSnapshot<Output>> {
    return this.#waitBy(new Deadline(options.timeoutMs), options.signal);
  }

  /**
   * Waits for the end and returns the result. Throws JobError when there is none, TimeoutError when it takes too long.
   */
  output(options: WaitOptions = {}): Promise<Output> {
    return this.outputBy(new Deadline(options.timeoutMs), options.signal);
  }

  /** `output` within the deadline of an enclosing call. */
  async outputBy(deadline: Deadline, signal: AbortSignal | undefined): Promise<Output> {
    const { status, output, error } = await this.#waitBy(deadline, signal);
    if (status !== 'COMPLETED') throw jobError(this.id, status, error);
    return output as Output;
  }

  /**
   * Yields the chunks of a generator as they arrive, from the first kept one, until it ends. Throws what `output`
   * throws, after the chunks. A broken connection loses no chunk.
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

  /** Cancels the job, queued or running. A job that has ended keeps its state. */
  async cancel(options: { readonly signal?: AbortSignal } = {}): Promise<void> {
    await this.#change('cancel', ['CANCELLED'], options.signal);
  }

  /**
   * Queues a FAILED or TIMED_OUT job again, with the same id and input. A ConflictError means that it is in another
   * state.
   */
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
      // The first attempt may have succeeded although its response was lost.
      if (!(error instanceof ConflictError) || error.attempts === 1) throw error;
      const found = await this.snapshot(signal === undefined ? {} : { signal });
      if (!wanted.includes(found.status)) throw error;
    }
  }

  /**
   * A service without positions (null) returns each chunk once: a call whose response was lost is not repeated, and the
   * lost chunks are taken from the output.
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

/** Makes a call that returns a job. @throws what `call` throws; ConnectionError when the response is not a job */
export async function callJob<Output>(connection: Connection, request: CallRequest): Promise<JobSnapshot<Output>> {
  const answer = await call<Partial<JobSnapshot<Output>> | null>(connection, request);
  if (typeof answer?.id !== 'string' || typeof answer.status !== 'string') throw unreadable(request, 'the response is not a job');
  return answer as JobSnapshot<Output>;
}

function unreadable({ method, path }: CallRequest, why: string): ConnectionError {
  return new ConnectionError(`${method} ${path}: ${why}`, undefined);
}

/** The output of a generator is the array of its chunks. */
export type ChunkOf<Output> = Output extends readonly (infer Chunk)[] ? Chunk : unknown;

interface StreamPage<Output> {
  readonly status: JobStatus;
  readonly stream: readonly { readonly output: ChunkOf<Output> }[];
  readonly error?: string;
}

function isTerminal(status: JobStatus): boolean {
  return status !== 'IN_QUEUE' && status !== 'IN_PROGRESS';
}
