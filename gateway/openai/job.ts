/**
 * One job behind one OpenAI call: submits it, reads its stream to the end, and cancels it when its caller disconnects.
 *
 * The submission waits for the job's end. It is the one request that counts towards the endpoint's limits, for the
 * length of the call. The stream is read concurrently. Chunks are passed on in order and each once. The scheduler
 * reports their positions, so a gap (a reply lost with a broken connection, chunks dropped because the caller is slow)
 * is detected and filled from the job's output, which has all of them. If an attempt restarts after chunks were passed
 * on, the two cannot be joined: the call fails.
 */
import { parseExact, stringifyExact } from '../../lib/exact-json.ts';
import { setTimeout as pause } from 'node:timers/promises';

import { CapstanError } from '../../lib/errors.ts';
import { fromPayloadMessage, toPayloadMessage, type Payload } from '../../lib/payload.ts';
import { JobKind, JobState, type Payload as PayloadMessage } from '../../proto/gen/capstan/v1/common.ts';
import type { Reservation } from '../../lib/shared-budget.ts';
import { INTERNAL_ERROR } from '../../lib/http-messages.ts';
import type { Job, StreamCursor, StreamPart } from '../../proto/gen/capstan/v1/jobs.ts';
import type { JobQueue } from '../http/services.ts';
import type { JobResult, Operation } from '../jobs/channel.ts';
import { jobAsOpenAi, OpenAiError, refusalAsOpenAi } from '../http/openai-errors.ts';

/** The longest lifetime of a job. */
const LIFETIME_MS = 604_800_000;
/** Wait of one read of the stream; shorter ones only cause more reads. */
const READ_WAIT_MS = 60_000;
const AGAIN_MS = 100;
const EMPTY = Buffer.alloc(0);

export interface OpenAiJobDeps extends Pick<JobQueue, 'channel' | 'bodies'> {
  /** Cancels at the scheduler, without counting towards rate limits. */
  readonly cancel: (endpointId: string, jobId: string) => Promise<unknown>;
  /** A cancellation failed: the job continues. */
  readonly onUncancelled: (jobId: string, error: unknown) => void;
}

/** What is submitted. */
interface NewJob {
  readonly endpointId: string;
  readonly id: string;
  readonly input: Payload;
  /** Memory of the input, released when it has been sent. */
  readonly held: Reservation | null;
  /** Trace context of the request; empty without one. */
  readonly trace: string;
  /** Id of the caller's API key; empty without one. */
  readonly submittedBy: string;
}

/** The caller disconnected; its result is not needed. */
export class CallerGone extends Error {}

export class OpenAiJob {
  readonly id: string;
  readonly #endpointId: string;
  readonly #deps: OpenAiJobDeps;
  readonly #result: Promise<Job>;
  readonly #submitTicket: number;
  #settled = false;
  #stopped = false;
  #pending: { readonly ticket: number; readonly reject: (error: Error) => void } | null = null;
  /** Number of chunks passed on. */
  #next = 0;
  #token: number | undefined;

  constructor(deps: OpenAiJobDeps, { endpointId, id, input, held, trace, submittedBy }: NewJob) {
    this.#deps = deps;
    this.#endpointId = endpointId;
    this.id = id;
    const { promise, resolve, reject } = Promise.withResolvers<Job>();
    this.#result = promise;
    // The reader of the chunks handles the error; a disconnected caller has no reader.
    promise.catch(() => undefined);
    const operation: Operation = {
      $case: 'submit',
      value: {
        jobId: id,
        kind: JobKind.RUNSYNC,
        input: toPayloadMessage(input),
        webhook: '',
        policy: undefined,
        s3Config: undefined,
        idempotencyKey: '',
        bodyHash: EMPTY,
        waitMs: LIFETIME_MS,
        ...(trace === '' ? {} : { trace }),
        ...(submittedBy === '' ? {} : { submittedBy }),
      },
    };
    const done = (error: CapstanError | null, answer: JobResult | null): void => {
      this.#settled = true;
      if (error === null && answer !== null && 'job' in answer) resolve(answer.job);
      else reject(error ?? new CapstanError('INTERNAL', 'unexpected reply type from the scheduler'));
    };
    this.#submitTicket = deps.channel.request({ endpointId, operation, held, limitedAs: 'openai' }, done);
  }

  /** Waits for the end of the job. Throws OpenAiError for one without a result. */
  async completed(): Promise<Job> {
    let job: Job;
    try {
      job = await this.#result;
    } catch (thrown) {
      const error = thrown instanceof CapstanError ? thrown : new CapstanError('INTERNAL', INTERNAL_ERROR, { cause: thrown });
      // It was accepted and no longer exists: its ttl has ended.
      if (error.code === 'NOT_FOUND' && error.message.includes(this.id))
        throw new OpenAiError(504, error.message, { code: 'timeout', mayRetry: false });
      // An internal error is sent like any other, and logged.
      throw error.code === 'INTERNAL' ? error : refusalAsOpenAi(error);
    }
    const failure = jobAsOpenAi(job);
    if (failure !== null) throw failure;
    return job;
  }

  /** Yields the chunks' JSON texts in order as they arrive. Throws OpenAiError when the job fails. */
  async *chunks(): AsyncGenerator<Buffer, void> {
    let lost = false;
    for (;;) {
      const part = await this.#read();
      if (part === null) break;
      this.#sameAttempt(part);
      const ended = hasEnded(part.state);
      lost ||= part.firstIndex !== undefined && part.firstIndex > this.#next;
      if (!lost && part.chunks.length > 0) {
        if (ended && part.firstIndex === undefined) lost = await this.#outputTellsMore(part.chunks.length);
        if (!lost) yield* this.#handOn(part);
      }
      if (ended) break;
    }
    const job = await this.completed();
    if (lost) yield* this.#fromOutput(job);
  }

  /** The caller disconnected: nothing more is passed on, and the job is cancelled unless it has ended. */
  stop(): void {
    if (this.#stopped) return;
    this.#stopped = true;
    if (this.#pending !== null) {
      this.#deps.channel.abandon(this.#pending.ticket);
      this.#pending.reject(new CallerGone());
    }
    if (this.#settled) return;
    this.#deps.channel.abandon(this.#submitTicket);
    // Sent on the same stream as the submission, hence after it: the reply shows whether the job exists.
    const operation: Operation = { $case: 'get', value: { jobId: this.id, waitMs: 0 } };
    const found = (error: CapstanError | null, answer: JobResult | null): void => {
      if (error?.code === 'NOT_FOUND') return;
      if (error !== null) {
        this.#deps.onUncancelled(this.id, error);
        return;
      }
      if (answer !== null && 'job' in answer && !hasEnded(answer.job.state)) void this.#cancel();
    };
    this.#deps.channel.request({ endpointId: this.#endpointId, operation, held: null, limitedAs: 'none' }, found);
  }

  async #cancel(): Promise<void> {
    try {
      await this.#deps.cancel(this.#endpointId, this.id);
    } catch (thrown) {
      const over = thrown instanceof CapstanError && (thrown.code === 'CONFLICT' || thrown.code === 'NOT_FOUND');
      if (!over) this.#deps.onUncancelled(this.id, thrown);
    }
  }

  /** Reads a document of the job; null when there is none. */
  async bytesOf(message: PayloadMessage | undefined): Promise<Buffer | null> {
    const payload = fromPayloadMessage(message);
    return payload === undefined ? null : this.#deps.bodies.read(payload);
  }

  /** Reads the next part; null when the job does not exist (any more): its submission has the reason. */
  async #read(): Promise<StreamPart | null> {
    for (;;) {
      try {
        return await this.#readOnce();
      } catch (thrown) {
        if (!(thrown instanceof CapstanError)) throw thrown;
        if (this.#settled || thrown.code === 'NOT_FOUND') return null;
        // The scheduler is unreachable: the submission decides how long to wait.
        await pause(AGAIN_MS);
        if (this.#stopped) throw new CallerGone();
      }
    }
  }

  #readOnce(): Promise<StreamPart> {
    return new Promise((resolve, reject) => {
      if (this.#stopped) {
        reject(new CallerGone());
        return;
      }
      const operation: Operation = { $case: 'stream', value: { jobId: this.id, waitMs: READ_WAIT_MS, ...this.#place() } };
      const done = (error: CapstanError | null, answer: JobResult | null): void => {
        this.#pending = null;
        if (error === null && answer !== null && 'stream' in answer) resolve(answer.stream);
        else reject(error ?? new CapstanError('INTERNAL', 'unexpected reply type from the scheduler'));
      };
      const ticket = this.#deps.channel.request({ endpointId: this.#endpointId, operation, held: null, limitedAs: 'none' }, done);
      this.#pending = { ticket, reject };
    });
  }

  /** The position so far: a lost reply is requested again. */
  #place(): { exact: boolean; after?: StreamCursor } {
    return this.#token === undefined ? { exact: false } : { exact: true, after: { token: this.#token, nextIndex: this.#next } };
  }

  #sameAttempt(part: StreamPart): void {
    if (part.token === undefined) return;
    if (this.#token !== undefined && part.token !== this.#token && this.#next > 0) {
      throw new OpenAiError(500, 'the worker was lost during its response', { code: 'worker_lost' });
    }
    this.#token = part.token;
  }

  async *#handOn(part: StreamPart): AsyncGenerator<Buffer, void> {
    const seen = part.firstIndex === undefined ? 0 : this.#next - part.firstIndex;
    for (const chunk of part.chunks.slice(seen)) {
      const bytes = await this.bytesOf(chunk);
      this.#next += 1;
      if (bytes !== null) yield bytes;
    }
  }

  /** The last chunks had no position: true when the output has others between them and those passed on. */
  async #outputTellsMore(count: number): Promise<boolean> {
    const job = await this.#result.catch(() => null);
    // A failed job has no output to compare with.
    if (job?.state !== JobState.COMPLETED) return false;
    const all = await this.#outputList(job);
    return all !== null && all.length > this.#next + count;
  }

  async *#fromOutput(job: Job): AsyncGenerator<Buffer, void> {
    const all = await this.#outputList(job);
    if (all === null || all.length < this.#next) throw new OpenAiError(500, 'part of the response was lost', { code: 'stream_lost' });
    for (const value of all.slice(this.#next)) {
      this.#next += 1;
      yield Buffer.from(stringifyExact(value));
    }
  }

  /** Returns all yields of a generator from its job's output. Null for other functions. */
  async #outputList(job: Job): Promise<unknown[] | null> {
    const bytes = await this.bytesOf(job.output);
    const value: unknown = bytes === null ? null : parseExact(bytes.toString('utf8'));
    return Array.isArray(value) ? value : null;
  }
}

function hasEnded(state: JobState): boolean {
  return state !== JobState.IN_QUEUE && state !== JobState.IN_PROGRESS;
}
