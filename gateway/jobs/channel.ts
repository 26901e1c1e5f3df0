/**
 * The job channel: one long-lived stream to the scheduler that carries every submission, status read and wait of this
 * gateway, in batches gathered per turn of the event loop.
 *
 *            open()                     first reply
 *   (closed) ───────▶ opening ─────────────────────▶ open
 *                        ▲                             │ stream ends or breaks
 *                        └──────── backoff ◀───────────┘
 *
 * A request is pending from `request` until its reply, its caller's `abandon` or its time-out, whatever happens to the
 * stream. Every pending request is sent again on a new stream: submissions are idempotent by job id, a read of a stream
 * carries its position, other requests only read. A wait is sent with its remaining time.
 */
import type { ClientDuplexStream, Metadata } from '@grpc/grpc-js';
import { connectivityState } from '@grpc/grpc-js';

import { CapstanError } from '../../lib/errors.ts';
import { ENDED_BY_SCHEDULER, handleItem, readClientStream } from '../../lib/stream-guard.ts';
import { fromFailure, fromServiceError } from '../../lib/grpc-errors.ts';
import type { Job, JobReplies, JobRequest, JobRequests, JobServiceClient, StreamPart } from '../../proto/gen/capstan/v1/jobs.ts';
import { backoffMs } from '../../lib/backoff.ts';
import { unavailable } from '../grpc/refusals.ts';
import type { Budget } from '../limits/budget.ts';
import type { Reservation } from '../../lib/shared-budget.ts';
import { INTERNAL_ERROR } from '../../lib/http-messages.ts';
import type { Log } from '../log.ts';
import { nextMessage } from './batch.ts';
import { StreamCursors } from './stream-cursors.ts';

/** The request; the channel adds the request id. */
export type Operation = Exclude<NonNullable<JobRequest['operation']>, { $case: 'abandon' }>;

export type JobResult = { readonly job: Job } | { readonly stream: StreamPart };

/** Called exactly once, never before `request` has returned, unless the request is abandoned. */
export type Done = (error: CapstanError | null, answer: JobResult | null) => void;

export interface ChannelOptions {
  /** Count of pending requests. */
  readonly inFlight: Budget;
  /** How long a submission stays pending while the scheduler is unreachable, ms. */
  readonly submitTimeoutMs: number;
  /** The same for reads, ms. */
  readonly readTimeoutMs: number;
  /** The channel to the cell that has an endpoint by now, if this one's owner does not know it. */
  readonly elsewhere?: (endpointId: string) => Promise<JobChannel | undefined>;
  readonly log: Log;
  /** Monotonic clock, ms. */
  readonly now: () => number;
}

interface Pending {
  readonly request: JobRequest;
  readonly operation: Operation;
  /** Memory of its inline body. */
  held: Reservation | null;
  readonly since: number;
  readonly waitMs: number;
  readonly done: Done;
  /** It was sent to the scheduler on some stream. */
  sent: boolean;
}

const SWEEP_MS = 200;
/** A stream that lasted this long, or received a reply, was healthy: the next backoff starts from its minimum. */
const GOOD_STREAM_MS = 1000;
const MAX_REQUEST_ID = 0xffff_ffff;

export interface ChannelRequest {
  readonly endpointId: string;
  readonly operation: Operation;
  /** Memory of the operation's body, released by the channel. */
  readonly held: Reservation | null;
  /** What the operation counts as for rate limits (jobs.proto); empty for its own kind. */
  readonly limitedAs?: string;
}

export class JobChannel {
  readonly #client: JobServiceClient;
  readonly #metadata: Metadata;
  readonly #options: ChannelOptions;
  readonly #pending = new Map<number, Pending>();
  /** What abandons a submission whose endpoint is looked for in other cells, or was found there. */
  readonly #elsewhere = new Map<number, () => void>();
  readonly #cursors = new StreamCursors();
  readonly #sweeper: NodeJS.Timeout;
  #call: ClientDuplexStream<JobRequests, JobReplies> | null = null;
  #openedAt = 0;
  #attempt = 0;
  #reopen: NodeJS.Timeout | null = null;
  #unsent: JobRequest[] = [];
  #flushing = false;
  #blocked = false;
  #nextId = 1;
  /** Time since which the scheduler is unreachable; null while it is reachable. */
  #brokenAt: number | null;
  #closed = false;
  #lastFailure = '';

  /** `metadata` must wait for readiness, so that opening a stream waits for the connection. */
  constructor(client: JobServiceClient, metadata: Metadata, options: ChannelOptions) {
    this.#client = client;
    this.#metadata = metadata;
    this.#options = options;
    this.#brokenAt = options.now();
    this.#sweeper = setInterval(() => {
      this.#sweep();
    }, SWEEP_MS);
    this.#open();
  }

  /** The stream is on a live connection. */
  get connected(): boolean {
    return this.#call !== null && this.#client.getChannel().getConnectivityState(false) === connectivityState.READY;
  }

  get pending(): number {
    return this.#pending.size;
  }

  /**
   * Sends a request and returns its id for `abandon`. `done` receives UNAVAILABLE when the gateway holds too many
   * bytes, when the scheduler was unreachable for too long, or when the channel was closed.
   */
  request({ endpointId, operation, held, limitedAs = '' }: ChannelRequest, done: Done): number {
    const refused = this.#admit();
    if (refused !== null) {
      held?.release();
      setImmediate(done, refused, null);
      return 0;
    }
    const requestId = this.#freeId();
    if (operation.$case === 'stream') this.#cursors.place(operation.value);
    const waitMs = operation.value.waitMs;
    const request: JobRequest = { requestId, endpointId, operation, limitedAs, resent: false };
    this.#pending.set(requestId, { request, operation, held, since: this.#options.now(), waitMs, done, sent: this.#call !== null });
    this.#send(request);
    return requestId;
  }

  /** Abandons a request whose caller disconnected: `done` is not called, and the scheduler drops the wait. */
  abandon(requestId: number): void {
    this.#elsewhere.get(requestId)?.();
    const entry = this.#take(requestId);
    if (entry === undefined) return;
    this.#giveUp(entry);
    if (this.#call !== null)
      this.#send({
        requestId,
        endpointId: entry.request.endpointId,
        operation: { $case: 'abandon', value: requestId },
        limitedAs: 'none',
        resent: false,
      });
  }

  /** The response to this read of a stream was cut off before its reader had all of it. */
  lost(operation: Operation, part: StreamPart): void {
    if (operation.$case === 'stream') this.#cursors.lost(operation.value.jobId, part, operation.value.after);
  }

  /** Ends all waits at once: each pending request is sent again without a wait. */
  expireWaits(): void {
    for (const [requestId, entry] of this.#pending) {
      if (entry.waitMs === 0) continue;
      const { operation, held } = entry;
      entry.held = null;
      this.abandon(requestId);
      operation.value.waitMs = 0;
      // It was counted when it was first sent.
      this.request({ endpointId: entry.request.endpointId, operation, held, limitedAs: 'none' }, entry.done);
    }
  }

  /** Ends the stream; pending requests fail with UNAVAILABLE. */
  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    clearInterval(this.#sweeper);
    if (this.#reopen !== null) clearTimeout(this.#reopen);
    const call = this.#call;
    this.#call = null;
    call?.end();
    call?.cancel();
    for (const requestId of this.#pending.keys()) this.#fail(requestId, unavailable('the gateway is closing'));
  }

  #admit(): CapstanError | null {
    if (this.#closed) return unavailable('the gateway is closing');
    const { inFlight } = this.#options;
    return inFlight.take(1) ? null : unavailable(`the gateway already has ${inFlight.limit} requests in flight`);
  }

  #freeId(): number {
    while (this.#pending.has(this.#nextId) || this.#elsewhere.has(this.#nextId))
      this.#nextId = this.#nextId === MAX_REQUEST_ID ? 1 : this.#nextId + 1;
    const id = this.#nextId;
    this.#nextId = id === MAX_REQUEST_ID ? 1 : id + 1;
    return id;
  }

  #take(requestId: number): Pending | undefined {
    const entry = this.#pending.get(requestId);
    if (entry === undefined) return undefined;
    this.#pending.delete(requestId);
    this.#options.inFlight.give(1);
    entry.held?.release();
    return entry;
  }

  #fail(requestId: number, error: CapstanError): void {
    const entry = this.#take(requestId);
    if (entry === undefined) return;
    this.#giveUp(entry);
    entry.done(error, null);
  }

  #giveUp({ operation }: Pending): void {
    if (operation.$case === 'stream') this.#cursors.giveUp(operation.value.jobId);
  }

  #send(request: JobRequest): void {
    // Without a stream, the map of pending requests holds what is unsent.
    if (this.#call === null) return;
    this.#unsent.push(request);
    if (this.#flushing || this.#blocked) return;
    this.#flushing = true;
    setImmediate(() => {
      this.#flushing = false;
      this.#flush();
    });
  }

  #flush(): void {
    const call = this.#call;
    if (call === null) return;
    while (this.#unsent.length > 0 && !this.#blocked) {
      const { message, rest } = nextMessage(this.#unsent);
      this.#unsent = rest;
      this.#blocked = !call.write(message);
    }
  }

  #open(): void {
    this.#reopen = null;
    if (this.#closed) return;
    const call = this.#client.channel(this.#metadata);
    this.#call = call;
    this.#openedAt = this.#options.now();
    this.#blocked = false;
    const stream = { name: 'JobService.Channel', log: this.#options.log };
    readClientStream<JobReplies>(call, stream, ({ replies }) => {
      for (const { requestId, result } of replies) {
        // An error in one reply must not affect the other requests.
        handleItem(stream, () => this.#answer(requestId, result));
      }
      this.#attempt = 0;
    });
    call.on('drain', () => {
      if (this.#call !== call) return;
      this.#blocked = false;
      // A request that was abandoned while the stream was full is not sent.
      this.#unsent = this.#unsent.filter(({ requestId, operation }) => operation?.$case === 'abandon' || this.#pending.has(requestId));
      this.#flush();
    });
    call.on('error', (error: Error) => {
      this.#broken(call, error);
    });
    call.on('end', () => {
      this.#broken(call, null);
    });
    const now = this.#options.now();
    this.#unsent = [];
    for (const entry of this.#pending.values()) {
      const { request, operation, since, waitMs } = entry;
      operation.value.waitMs = Math.max(0, Math.round(waitMs - (now - since)));
      request.resent = entry.sent;
      if (operation.$case === 'stream') this.#cursors.place(operation.value);
      entry.sent = true;
      this.#unsent.push(request);
    }
    this.#flush();
  }

  #broken(call: ClientDuplexStream<JobRequests, JobReplies>, error: Error | null): void {
    if (this.#call !== call) return;
    const now = this.#options.now();
    this.#call = null;
    this.#unsent = [];
    this.#brokenAt ??= now;
    if (error === null) call.end();
    const reason = error === null ? ENDED_BY_SCHEDULER : fromServiceError(error).message;
    if (reason !== this.#lastFailure) this.#options.log.warn({ reason, pending: this.#pending.size }, 'job channel ended; reconnecting');
    this.#lastFailure = reason;
    if (now - this.#openedAt > GOOD_STREAM_MS) this.#attempt = 0;
    this.#reopen = setTimeout(() => {
      this.#open();
    }, backoffMs(this.#attempt));
    this.#attempt += 1;
  }

  #answer(requestId: number, result: JobReplies['replies'][number]['result']): void {
    // Unknown ids are replies to abandoned or timed-out requests.
    const entry = this.#take(requestId);
    if (entry === undefined) return;
    try {
      this.#complete(entry, result);
    } catch (error) {
      entry.done(new CapstanError('INTERNAL', INTERNAL_ERROR, { cause: error }), null);
      throw error;
    }
  }

  #complete(entry: Pending, result: JobReplies['replies'][number]['result']): void {
    if (entry.operation.$case === 'stream') this.#cursors.noteResult(entry.operation.value, result);
    switch (result?.$case) {
      case 'job':
        entry.done(null, { job: result.value });
        return;
      case 'stream':
        entry.done(null, { stream: result.value });
        return;
      case 'failure':
        this.#refused(entry, fromFailure(result.value));
        return;
      case undefined:
        entry.done(new CapstanError('INTERNAL', 'the scheduler sent an empty reply'), null);
    }
  }

  /** A submission to an endpoint that left this cell is sent to the cell that has it by now. */
  #refused({ request, operation, done }: Pending, error: CapstanError): void {
    const { elsewhere } = this.#options;
    if (error.code !== 'NOT_FOUND' || operation.$case !== 'submit' || elsewhere === undefined) {
      done(error, null);
      return;
    }
    const { requestId, endpointId, limitedAs } = request;
    let isAbandoned = false;
    this.#elsewhere.set(requestId, () => (isAbandoned = true));
    const finished: Done = (failure, answer) => {
      this.#elsewhere.delete(requestId);
      if (!isAbandoned) done(failure, answer);
    };
    elsewhere(endpointId).then(
      (channel) => {
        if (channel === undefined || isAbandoned) {
          finished(error, null);
          return;
        }
        const ticket = channel.request({ endpointId, operation, held: null, limitedAs }, finished);
        this.#elsewhere.set(requestId, () => {
          this.#elsewhere.delete(requestId);
          channel.abandon(ticket);
        });
      },
      (cause: unknown) => finished(cause instanceof CapstanError ? cause : unavailable('the endpoint could not be looked up', cause), null),
    );
  }

  /** Checks the time-outs of all pending requests together, without a timer per request. */
  #sweep(): void {
    const now = this.#options.now();
    const connected = this.connected;
    if (connected) {
      if (this.#brokenAt !== null) this.#options.log.info({ pending: this.#pending.size }, 'job channel connected');
      this.#brokenAt = null;
      this.#lastFailure = '';
    } else {
      this.#brokenAt ??= now;
    }
    for (const [requestId, entry] of this.#pending) {
      const patience = entry.operation.$case === 'submit' ? this.#options.submitTimeoutMs : this.#options.readTimeoutMs;
      const since = this.#brokenAt === null ? entry.since + entry.waitMs : Math.max(entry.since, this.#brokenAt);
      if (now - since > patience) {
        this.#fail(requestId, unavailable(connected ? 'the scheduler does not respond' : 'the scheduler is unreachable'));
      }
    }
  }
}
