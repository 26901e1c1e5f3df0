/** The HTTP requests of a host: request parts go out as frames, responses return as frames. */
import { WorkerEnd } from '../../../proto/gen/capstan/v1/invoke.ts';
import { isIdempotent } from '../idempotent.ts';
import { HTTP_WINDOW_BYTES, type HttpCall, type HttpEvents, type HttpRequest } from '../runtime.ts';
import type { HttpFromHost, ToHost } from '../host-protocol.ts';

export interface HostRequestsDeps {
  readonly send: (frame: ToHost, body?: Uint8Array) => void;
  /** A request that was aborted by force and has not ended kills the host after this time, ms. */
  readonly killMs: number;
  readonly kill: () => void;
}

/** Keys are numbered from 1. */
const KEY = /^h([1-9]\d{0,14})$/;

/**
 * `foreign`: its request was never this host's. `beyond-credit`: more bytes of the response than the caller's side grants,
 * or more credit than the request had bytes.
 */
export type FrameVerdict = 'fine' | 'foreign' | 'beyond-credit';

/** What ended the functions of a host: one of its requests, something other than its requests, or one that is not known. */
export type EndedBy = { readonly kind: 'request'; readonly key: string } | { readonly kind: 'other' } | { readonly kind: 'unknown' };

/** A function writes while its window is open, in parts of at most this size, bytes: the last one may go beyond it. */
const PART_BYTES = 64 * 1024;

interface Open {
  readonly events: HttpEvents;
  /** Its method is idempotent, it has no part of its response, and its caller waits for one. */
  isRepeatable: boolean;
  /** Bytes of the response that may be sent. */
  window: number;
  /** Bytes of the request that the function has not read. */
  unreadOfRequest: number;
  killTimer: NodeJS.Timeout | undefined;
}

export class HostRequests {
  readonly #deps: HostRequestsDeps;
  readonly #open = new Map<string, Open>();
  #next = 1;
  #closed = false;

  constructor(deps: HostRequestsDeps) {
    this.#deps = deps;
  }

  add(request: HttpRequest, events: HttpEvents, life: number): HttpCall {
    if (this.#closed) {
      process.nextTick(() => events.failed('UNAVAILABLE', 'the worker has ended', true));
      return { body() {}, credit() {}, abort() {} };
    }
    const key = `h${this.#next++}`;
    const { send, kill, killMs } = this.#deps;
    const open: Open = {
      events,
      isRepeatable: isIdempotent(request.method),
      window: HTTP_WINDOW_BYTES,
      unreadOfRequest: request.body.length,
      killTimer: undefined,
    };
    this.#open.set(key, open);
    const { body, upgrade, ...head } = request;
    send({ t: 'http', life, key, ...head, ...(upgrade === true ? { upgrade } : {}) }, body);
    const isOpen = (): boolean => this.#open.has(key);
    return {
      body: (bytes, ended) => {
        if (!isOpen()) return;
        open.unreadOfRequest += bytes.length;
        send({ t: 'http-body', key, ended }, bytes);
      },
      credit: (count) => {
        if (!isOpen()) return;
        open.window += count;
        send({ t: 'http-credit', key, count });
      },
      abort: (force) => {
        if (!isOpen()) return;
        open.isRepeatable = false;
        send({ t: 'http-abort', key });
        if (force) open.killTimer ??= setTimeout(kill, killMs);
      },
    };
  }

  /** Requests in progress. */
  get count(): number {
    return this.#open.size;
  }

  /** Whether a request is in progress. */
  has(key: string): boolean {
    return this.#open.has(key);
  }

  /** Tells the functions of all requests that their callers are gone. */
  abortAll(): void {
    for (const key of this.#open.keys()) this.#deps.send({ t: 'http-abort', key });
  }

  /** Delivers a frame; one of an ended request is late and dropped. */
  onFrame(frame: HttpFromHost, body: Buffer): FrameVerdict {
    const open = this.#open.get(frame.key);
    if (open === undefined) return this.hasHad(frame.key) ? 'fine' : 'foreign';
    if (!hasCredit(open, frame, body)) return 'beyond-credit';
    const { events } = open;
    switch (frame.t) {
      case 'http-head':
        open.isRepeatable = false;
        if (frame.ended) this.#forget(frame.key, open);
        events.head(frame.status, frame.headers, body, frame.ended);
        break;
      case 'http-body':
        if (frame.ended) this.#forget(frame.key, open);
        events.body(body, frame.ended);
        break;
      case 'http-credit':
        events.credit(frame.count);
        break;
      case 'http-failed':
        this.#forget(frame.key, open);
        events.failed('INTERNAL', frame.message, false);
        break;
    }
    return 'fine';
  }

  /** The caller reads no more: later data reaches no function. */
  close(): void {
    this.#closed = true;
  }

  /** The host is gone, or its functions are. What did not end them may be sent again where its method allows it. */
  loseAll(why: string, endedBy: EndedBy): void {
    const lost = [...this.#open];
    const isSole = lost.length === 1;
    for (const [key, open] of lost) {
      this.#forget(key, open);
      if (endedBy.kind === 'request' ? endedBy.key === key : endedBy.kind === 'unknown' && isSole) {
        open.events.failed('WORKER_LOST', why, false);
        continue;
      }
      const workerEnd = endedBy.kind === 'unknown' ? WorkerEnd.SUSPECT : WorkerEnd.NEIGHBOUR;
      const message = endedBy.kind === 'request' ? `another request ended the worker, and this one may have run: ${why}` : why;
      open.events.failed('WORKER_LOST', message, open.isRepeatable, workerEnd);
    }
  }

  /** Whether it is the key of a request of this host, perhaps an ended one. */
  hasHad(key: string): boolean {
    const number = KEY.exec(key)?.[1];
    return number !== undefined && Number(number) < this.#next;
  }

  #forget(key: string, open: Open): void {
    this.#open.delete(key);
    clearTimeout(open.killTimer);
  }
}

function hasCredit(open: Open, frame: HttpFromHost, body: Buffer): boolean {
  if (frame.t === 'http-credit') {
    open.unreadOfRequest -= frame.count;
    return open.unreadOfRequest >= 0;
  }
  open.window -= body.length;
  return open.window >= -PART_BYTES;
}
