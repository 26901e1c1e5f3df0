/**
 * One request of a caller and its response, over an agent's stream:
 *
 *   waiting ──a worker is free──▶ sent ──first frame of the worker──▶ accepted ──▶ over
 *      ▲                           │
 *      └── the agent did not take it (nothing reached the function) ──┘
 *
 * The time limit for finding a worker counts from the first attempt, and the exchange keeps its place in the queue.
 * Until a worker accepts the request, the part of the body that was sent is kept, so that another worker can receive
 * the same request. The agent is told when the caller disconnects; the worker's slot is free again when the agent
 * reports it.
 */
import { CapstanError, isErrorCode } from '../../lib/errors.ts';
import { WorkerEnd, type AgentFrame, type Begin, type ResponseHead } from '../../proto/gen/capstan/v1/invoke.ts';
import { ResponseValidator, type HeaderPair } from '../../lib/response-validator.ts';
import type { AgentLink, LinkedRequest } from '../invoke/agent-link.ts';
import type { Pools, PoolWorker, WaitingRequest } from './pools.ts';

/** The caller's side: an HTTP response, or an upgraded connection. */
export interface Responder {
  head(status: number, headers: string[]): void;
  /** False when the caller is too slow; `drained` of the exchange is called later. */
  write(bytes: Buffer): boolean;
  /** The last bytes, and the end. */
  end(bytes: Buffer): void;
  /**
   * Before the head: sends an error response. After it: cuts the connection, so that the caller sees that the response
   * is incomplete.
   */
  fail(error: CapstanError): void;
}

export interface ExchangeOptions {
  readonly endpointId: string;
  readonly begin: Omit<Begin, 'workerId' | 'body' | 'ended' | 'timeoutMs'>;
  readonly pools: Pools<AgentLink>;
  /** Time limit of a worker's response, ms. */
  readonly timeoutMs: number;
  readonly responder: Responder;
  /** {@link WaitingRequest.hasKey} */
  readonly hasKey: boolean;
  readonly headersOf: (headers: readonly HeaderPair[]) => string[];
  /** The agent sent an invalid response; agents validate responses, too. */
  readonly onInvalid: (node: string, reason: string) => void;
  /** More of the body may be pushed. */
  readonly onReady: () => void;
}

/** Window of a body, bytes per direction (invoke.proto). */
const WINDOW_BYTES = 256 * 1024;
/** Bytes of a body that are read before a worker has accepted the request. */
export const RETAINED_BYTES = 64 * 1024;
/** Credit for the body of a response is granted in pieces of at least this size. */
const GRANT_BYTES = 64 * 1024;
/** Bytes that an agent may exceed its credit by before its stream is considered hostile. */
const MAX_OWED_BYTES = 4 * WINDOW_BYTES;
/** Workers that a request may lose to others before it fails. */
const MAX_NEIGHBOURS_LOSSES = 3;
const NOTHING = Buffer.alloc(0);

export class Exchange implements WaitingRequest<AgentLink>, LinkedRequest {
  readonly #options: ExchangeOptions;
  readonly #validator: ResponseValidator;
  waitingSince: number | undefined;
  /** Null once it is accepted. */
  #retained: Buffer[] | null = [];
  #retainedBytes = 0;
  #ended = false;
  /** Why the last worker did not accept it. */
  #refusal = '';
  /** The connection of a worker was reset: the request was most likely not read. */
  #wasReset = false;
  /** Workers that others ended under it. */
  #losses = 0;
  alone = false;
  aloneSince: number | undefined;
  #window = WINDOW_BYTES;
  #worker: PoolWorker<AgentLink> | undefined;
  #number = 0;
  #cancelWait: () => void = () => undefined;
  #timer: NodeJS.Timeout | undefined;
  /** Bytes of the response without granted credit. */
  #owed = 0;
  #blocked = false;
  /** The caller has its response, or has disconnected. */
  #over = false;

  constructor(options: ExchangeOptions) {
    this.#options = options;
    this.#validator = new ResponseValidator(options.begin);
  }

  get functionName(): string {
    return this.#options.begin.function;
  }

  get hasKey(): boolean {
    return this.#options.hasKey;
  }

  /** Bytes of the body that no worker has taken yet. */
  get heldBytes(): number {
    if (this.#over) return 0;
    return this.#retained === null ? WINDOW_BYTES - this.#window : this.#retainedBytes;
  }

  /** Starts to wait for a worker, with the part of the body that has arrived. */
  start(body: Buffer, ended: boolean): void {
    if (body.length > 0) this.#retain(body);
    this.#ended = ended;
    this.#requestWorker();
  }

  /** Adds a part of the body; returns false when no more may be pushed until `onReady`. */
  push(bytes: Buffer): boolean {
    if (this.#over) return true;
    if (this.#retained !== null) this.#retain(bytes);
    if (this.#worker !== undefined) {
      this.#window -= bytes.length;
      this.#send({ $case: 'body', value: { bytes, ended: false } }, bytes.length);
    }
    return this.#retained === null ? this.#window > 0 : this.#retainedBytes < RETAINED_BYTES;
  }

  /** The body is complete. */
  finish(): void {
    if (this.#over || this.#ended) return;
    this.#ended = true;
    if (this.#worker !== undefined) this.#send({ $case: 'body', value: { bytes: NOTHING, ended: true } }, 0);
  }

  /** The caller reads again. */
  drained(): void {
    this.#blocked = false;
    this.#grant(1);
  }

  /** The caller disconnected, or broke a rule while its body arrived. */
  abandon(why: string): void {
    if (this.#over) return;
    this.#over = true;
    this.#cancelWait();
    clearTimeout(this.#timer);
    if (this.#worker !== undefined) {
      this.#send({ $case: 'abort', value: { code: 'CONFLICT', message: why, untouched: false } }, 0);
      this.#retained = null;
    }
  }

  placed(worker: PoolWorker<AgentLink>): void {
    const { begin, timeoutMs } = this.#options;
    this.#worker = worker;
    this.#number = worker.host.add(this);
    const retained = this.#retained ?? [];
    const body = retained.length === 1 ? (retained[0] ?? NOTHING) : Buffer.concat(retained);
    this.#window = WINDOW_BYTES - body.length;
    this.#send({ $case: 'begin', value: { ...begin, workerId: worker.id, body, ended: this.#ended, timeoutMs } }, body.length + 256);
    this.#timer ??= setTimeout(() => this.#outOfTime(), timeoutMs);
  }

  refused(error: CapstanError): void {
    const { code, message, retryAfterMs } = error;
    if (this.#refusal === '' || retryAfterMs === undefined) this.#fail(error);
    else this.#fail(new CapstanError(code, `${message}; last attempt: ${this.#refusal}`, { retryAfterMs }));
  }

  onFrame(frame: NonNullable<AgentFrame['frame']>): void {
    switch (frame.$case) {
      case 'head':
        this.#accepted();
        this.#heardHead(frame.value);
        break;
      case 'body': {
        const { bytes, ended } = frame.value;
        const reason = this.#over ? null : (this.#validator.body(bytes.length, ended) ?? this.#overrun());
        if (reason === null) this.#write(bytes, ended);
        else this.#refuse(reason, ended);
        break;
      }
      case 'credit':
        this.#window += frame.value;
        this.#accepted();
        if (this.#window > 0) this.#options.onReady();
        break;
      case 'abort': {
        const { code, message, untouched, workerEnd } = frame.value;
        const again = untouched && this.#retained !== null && (code !== 'WORKER_LOST' || this.#mayFollowLoss(workerEnd));
        this.#releaseWorker(again);
        if (this.#over) break;
        if (again) {
          this.#refusal = message;
          // The next worker has its whole time.
          clearTimeout(this.#timer);
          this.#timer = undefined;
          this.#requestWorker();
        } else this.#fail(new CapstanError(isErrorCode(code) ? code : 'WORKER_LOST', message));
        break;
      }
      case 'serving':
        break;
    }
  }

  lost(): void {
    this.#releaseWorker(false);
    this.#fail(
      new CapstanError(
        'NODE_LOST',
        'the worker’s agent ended, or the connection to it was lost, before it responded: the function may have run',
      ),
    );
  }

  /** An error in handling a frame ends this request only. */
  broken(error: unknown): void {
    if (this.#worker !== undefined)
      this.#send({ $case: 'abort', value: { code: 'INTERNAL', message: 'the gateway failed', untouched: false } }, 0);
    this.#releaseWorker(false);
    this.#fail(new CapstanError('INTERNAL', 'the gateway failed while it sent the response', { cause: error }));
  }

  #heardHead({ status, headers, body, ended }: ResponseHead): void {
    if (!this.#over) {
      const pairs = headers.map(({ name, value }): HeaderPair => [name, value]);
      const head = this.#validator.head(status, pairs, body.length, ended);
      if (head.kind === 'invalid') {
        this.#refuse(head.reason, ended);
        return;
      }
      // An upgraded connection has no time limit.
      if (status === 101) clearTimeout(this.#timer);
      // What follows may last for hours: a WebSocket, a stream.
      if (!ended && this.#worker !== undefined) this.#options.pools.share(this.#worker);
      this.#options.responder.head(status, this.#options.headersOf(head.headers));
    }
    this.#write(body, ended);
  }

  /** The response to a slow caller may use no more memory than the window, and a bit for the size of its parts. */
  #overrun(): string | null {
    return this.#owed > MAX_OWED_BYTES ? 'the agent exceeded its flow-control credit' : null;
  }

  /** Ends the exchange with 500, or cuts off a response that has begun. */
  #refuse(reason: string, ended: boolean): void {
    this.#options.onInvalid(this.#worker?.host.node ?? '', reason);
    if (ended) this.#releaseWorker(false);
    else this.#send({ $case: 'abort', value: { code: 'INTERNAL', message: reason, untouched: false } }, 0);
    this.#fail(new CapstanError('INTERNAL', reason));
  }

  /** Whether the request is sent again after a worker that may have read it. It may do harm: its last try hurts no other. */
  #mayFollowLoss(workerEnd: WorkerEnd | undefined): boolean {
    const { alone: wasAlone } = this;
    if (workerEnd === WorkerEnd.SUSPECT) {
      this.alone = true;
      return !wasAlone;
    }
    if (workerEnd === WorkerEnd.NEIGHBOUR) {
      this.#losses += 1;
      this.alone ||= this.#losses > 1;
      return this.#losses <= MAX_NEIGHBOURS_LOSSES;
    }
    const wasReset = this.#wasReset;
    this.#wasReset = true;
    return !wasReset;
  }

  #requestWorker(): void {
    this.#cancelWait = this.#options.pools.requestWorker(this.#options.endpointId, this);
  }

  #retain(bytes: Buffer): void {
    this.#retained?.push(bytes);
    this.#retainedBytes += bytes.length;
  }

  #accepted(): void {
    if (this.#retained === null) return;
    this.#retained = null;
    if (this.#window > 0) this.#options.onReady();
  }

  #write(bytes: Buffer, ended: boolean): void {
    const { responder } = this.#options;
    if (ended) {
      this.#releaseWorker(false);
      if (this.#over) return;
      this.#over = true;
      clearTimeout(this.#timer);
      responder.end(bytes);
    } else if (bytes.length > 0) {
      this.#owed += bytes.length;
      if (!this.#over && !responder.write(bytes)) this.#blocked = true;
      this.#grant(GRANT_BYTES);
    }
  }

  #grant(least: number): void {
    if (this.#blocked || this.#owed < least || this.#worker === undefined) return;
    this.#send({ $case: 'credit', value: this.#owed }, 0);
    this.#owed = 0;
  }

  #outOfTime(): void {
    if (this.#over) return;
    const message = `the function did not respond within ${this.#options.timeoutMs / 1000} s`;
    this.#send({ $case: 'abort', value: { code: 'DEADLINE_EXCEEDED', message, untouched: false } }, 0);
    this.#fail(new CapstanError('WORKER_LOST', message));
  }

  #fail(error: CapstanError): void {
    if (this.#over) return;
    this.#over = true;
    clearTimeout(this.#timer);
    this.#options.responder.fail(error);
  }

  /** The agent has finished the request: the slot is free. */
  #releaseWorker(refused: boolean): void {
    const worker = this.#worker;
    if (worker === undefined) return;
    this.#worker = undefined;
    worker.host.remove(this.#number);
    this.#options.pools.release(worker, refused);
  }

  #send(frame: Parameters<AgentLink['send']>[1], bytes: number): void {
    this.#worker?.host.send(this.#number, frame, bytes);
  }
}
