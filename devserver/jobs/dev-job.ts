/** One job of the development server, and how it is shown. */
import { JobKind, JobState, type S3Config } from '../../proto/gen/capstan/v1/common.ts';
import type { Job, StreamCursor, StreamPart, Submit } from '../../proto/gen/capstan/v1/jobs.ts';
import { mustRunAlone, sumsAfter, type AttemptCost, type AttemptSums } from '../../lib/attempt-sums.ts';
import { toPayloadMessage } from '../../lib/payload.ts';
import { jobMessage } from '../../lib/job-message.ts';

/** An unread stream keeps its newest chunks, bytes. */
const MAX_STREAM_BYTES = 16 * 1024 * 1024;
/** Time for which an ended job is kept, ms. */
const RETENTION_MS: Readonly<Record<'run' | 'runsync', number>> = { run: 1_800_000, runsync: 60_000 };
const DEFAULT_TTL_MS = 86_400_000;

export type EndedState = JobState.COMPLETED | JobState.FAILED | JobState.CANCELLED | JobState.TIMED_OUT;

export interface JobEnd {
  readonly state: EndedState;
  readonly output?: Buffer;
  readonly error?: string;
  /** Duration of the attempt, ms; absent when the handler had not started. */
  readonly executionMs?: number;
}

export class DevJob {
  readonly id: string;
  readonly endpoint: string;
  /** JSON text. */
  readonly input: Buffer;
  readonly s3Config: S3Config | undefined;
  readonly trace: string | undefined;
  readonly executionTimeoutMs: number | undefined;
  readonly ttlMs: number;
  readonly webhook: string;
  readonly #retentionMs: number;
  state: JobState = JobState.IN_QUEUE;
  /** Stops the handler. */
  stop = new AbortController();
  workerId = '';
  /** Called at each change. */
  readonly watchers = new Set<() => void>();
  /** Its place in the queue: a job that returns to it stands before those that came later. */
  position = 0;
  /** Attempts of this submission whose handlers were entered. */
  attempts = 0;
  #sums: AttemptSums = {};
  /** Grows with each attempt, over the job's whole life. */
  #token = 1;
  #submittedAt: number;
  #startedAt: number | undefined;
  #endedAt: number | undefined;
  #end: JobEnd | undefined;
  #progress: Buffer | undefined;
  #chunks: Buffer[] = [];
  #chunkBytes = 0;
  /** Index of the first chunk that is kept, and of the first one that is not read. */
  #firstKept = 0;
  #firstUnread = 0;

  constructor(endpoint: string, submit: Submit, input: Buffer, now: number) {
    this.id = submit.jobId;
    this.endpoint = endpoint;
    this.input = input;
    this.s3Config = submit.s3Config;
    this.trace = submit.trace;
    this.executionTimeoutMs = submit.policy?.executionTimeoutMs;
    this.ttlMs = submit.policy?.ttlMs ?? DEFAULT_TTL_MS;
    this.webhook = submit.webhook;
    this.#retentionMs = RETENTION_MS[submit.kind === JobKind.RUNSYNC ? 'runsync' : 'run'];
    this.#submittedAt = now;
  }

  get hasEnded(): boolean {
    return this.#end !== undefined;
  }

  get hasStarted(): boolean {
    return this.#startedAt !== undefined;
  }

  /** The retention of its result is over. */
  isExpired(now: number): boolean {
    return this.#endedAt !== undefined && now - this.#endedAt > this.#retentionMs;
  }

  /** Its handler was entered. */
  started(now: number): void {
    if (this.state !== JobState.IN_QUEUE || this.hasEnded) return;
    this.state = JobState.IN_PROGRESS;
    this.attempts += 1;
    this.#startedAt = now;
    this.#changed();
  }

  progress(data: Buffer): void {
    if (this.hasEnded) return;
    this.#progress = data;
    this.#changed();
  }

  chunk(data: Buffer): void {
    if (this.hasEnded) return;
    this.#chunks.push(data);
    this.#chunkBytes += data.length;
    while (this.#chunkBytes > MAX_STREAM_BYTES && this.#chunks.length > 1) {
      this.#chunkBytes -= this.#chunks.shift()?.length ?? 0;
      this.#firstKept += 1;
    }
    this.#changed();
  }

  /** Returns false when it had ended already. */
  ended(end: JobEnd, now: number): boolean {
    if (this.hasEnded) return false;
    this.#end = this.#startedAt === undefined ? end : { executionMs: Math.max(0, Math.round(now - this.#startedAt)), ...end };
    this.state = end.state;
    this.#endedAt = now;
    this.#changed();
    return true;
  }

  /** Returns to the queue without what it had, as if submitted now. */
  retried(now: number): void {
    this.#submittedAt = now;
    this.#endedAt = undefined;
    this.#end = undefined;
    this.attempts = 0;
    this.#sums = this.#sums.suspected === undefined ? {} : { suspected: this.#sums.suspected };
    this.#return();
  }

  /** Whether its next attempt has its worker for itself. */
  runsAlone(maxAttempts: number): boolean {
    return mustRunAlone(this.#sums, this.attempts, maxAttempts);
  }

  /** Its worker ended under it. Returns the number of the charged attempt that was its last one; null if it returns to the queue. */
  lost(cost: AttemptCost, maxAttempts: number): number | null {
    this.#sums = sumsAfter(this.#sums, cost);
    const charged = this.attempts - (this.#sums.uncharged ?? 0);
    if ((cost === 'culprit' || cost === 'charged') && charged >= maxAttempts) return Math.min(charged, maxAttempts);
    this.#return();
    return null;
  }

  /** Its worker ended before its handler was entered. */
  unstarted(): void {
    this.#return();
  }

  #return(): void {
    this.#token += 1;
    this.state = JobState.IN_QUEUE;
    this.stop = new AbortController();
    this.workerId = '';
    this.#startedAt = undefined;
    this.#progress = undefined;
    this.#chunks = [];
    this.#chunkBytes = 0;
    this.#firstKept = 0;
    this.#firstUnread = 0;
    this.#changed();
  }

  toMessage(): Job {
    const output = this.#end === undefined ? this.#progress : this.#end.output;
    const executionMs = this.#startedAt === undefined ? undefined : this.#end?.executionMs;
    return jobMessage({
      id: this.id,
      endpointId: this.endpoint,
      state: this.state,
      output: output === undefined ? null : { inline: output },
      error: this.#end?.error,
      delayMs: this.#startedAt === undefined ? null : Math.max(0, Math.round(this.#startedAt - this.#submittedAt)),
      executionMs,
      attempts: this.attempts,
      worker: this.workerId,
      webhook: this.webhook,
    });
  }

  /** True when a read would return chunks. */
  hasUnread(after: StreamCursor | undefined): boolean {
    return this.#firstKept + this.#chunks.length > this.#position(after);
  }

  /** Reads the chunks after a position, without one the unread ones, which are read then. */
  read(after: StreamCursor | undefined): StreamPart {
    const first = Math.max(this.#position(after), this.#firstKept);
    const chunks = this.#chunks.slice(first - this.#firstKept);
    this.#firstUnread = Math.max(this.#firstUnread, first + chunks.length);
    return {
      state: this.state,
      chunks: chunks.map((chunk) => toPayloadMessage({ inline: chunk })),
      ...(this.#end?.error === undefined ? {} : { error: this.#end.error }),
      token: this.#token,
      firstIndex: first,
    };
  }

  /** The response with this part did not arrive: the next read returns its chunks again. */
  unread({ token, firstIndex, chunks }: StreamPart): void {
    if (token !== this.#token || firstIndex === undefined || this.#firstUnread !== firstIndex + chunks.length) return;
    this.#firstUnread = firstIndex;
  }

  #position(after: StreamCursor | undefined): number {
    if (after === undefined) return this.#firstUnread;
    return after.token === this.#token ? after.nextIndex : 0;
  }

  #changed(): void {
    for (const watcher of this.watchers) watcher();
  }
}
