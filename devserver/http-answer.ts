/**
 * Passes one HTTP request to a route's function and the worker's response to the caller, with flow control in both
 * directions.
 */
import type { ServerResponse } from 'node:http';

import type { HttpCall, HttpRequest, LocalWorker } from '../agent/local-workers.ts';
import { withLocationBelow } from '../lib/redirects.ts';

/** Unread bytes of a request's body in transit (proto/capstan/v1/invoke.proto). */
export const WINDOW_BYTES = 256 * 1024;
const PART_BYTES = 64 * 1024;

export interface Answering {
  readonly worker: LocalWorker;
  readonly request: Omit<HttpRequest, 'body' | 'ended'>;
  /** The part of the path in front of what the worker sees: its redirects lead below it. */
  readonly prefix: string;
  /** Empty when there is none. */
  readonly body: AsyncIterable<Uint8Array> | Iterable<Uint8Array>;
  readonly response: ServerResponse;
  /** The worker has the request: the response now comes from it. */
  readonly taken: () => void;
  /** No response has begun; the caller of this function sends one. */
  readonly failed: (message: string) => void;
  /** Receives the body of an error response; returns the body to send instead, or null. */
  readonly threw: (answer: Buffer) => Promise<Buffer | null>;
}

/** Settles when the response has ended, in any way. @throws CapstanError as LocalWorker.ready */
export async function answerByWorker({ worker, request, prefix, body, response, taken, failed, threw }: Answering): Promise<void> {
  const authority = request.headers.find(([name]) => name === 'host')?.[1] ?? '';
  const over = Promise.withResolvers<void>();
  const window = new Window(WINDOW_BYTES);
  const write = (bytes: Buffer, ended: boolean): void => {
    if (bytes.length > 0) response.write(bytes, () => call.credit(bytes.length));
    if (!ended) return;
    response.end();
    over.resolve();
  };
  const sendError = async (status: number, headers: readonly (readonly [string, string])[], bytes: Buffer): Promise<void> => {
    const page = await threw(bytes);
    if (page === null) response.writeHead(status, headers.flat());
    else response.writeHead(status, { 'content-type': 'text/html; charset=utf-8', 'content-length': page.length });
    write(page ?? bytes, true);
  };
  const call = await worker.serve(
    { ...request, body: new Uint8Array(), ended: false },
    {
      head(status, headers, bytes, ended) {
        if (status === 500 && ended) {
          void sendError(status, headers, bytes);
          return;
        }
        response.writeHead(status, withLocationBelow(headers.flat(), prefix, authority));
        if (!ended) response.flushHeaders();
        write(bytes, ended);
      },
      body: write,
      credit: (bytes) => window.grant(bytes),
      failed(_code, message) {
        if (response.headersSent) response.destroy();
        else failed(message);
        over.resolve();
      },
    },
  );
  taken();
  response.once('close', () => {
    // Nothing happens to a call that has ended.
    call.abort(true);
    window.close();
    over.resolve();
  });
  await Promise.all([send(call, body, window), over.promise]);
}

async function send(call: HttpCall, body: Answering['body'], window: Window): Promise<void> {
  try {
    for await (const bytes of body) {
      for (let at = 0; at < bytes.length; at += PART_BYTES) {
        const part = bytes.subarray(at, at + PART_BYTES);
        if (!(await window.take(part.length))) return;
        call.body(part, false);
      }
    }
    call.body(new Uint8Array(), true);
  } catch {
    // The caller disconnected while sending its body: `close` of the response tells the worker.
    call.abort(true);
  }
}

/** Bytes that may still be sent. */
export class Window {
  #left: number;
  #closed = false;
  #wake: (() => void) | undefined;

  constructor(bytes: number) {
    this.#left = bytes;
  }

  /** False when nobody reads any more. */
  async take(bytes: number): Promise<boolean> {
    while (this.#left <= 0 && !this.#closed) {
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#wake = resolve;
      await promise;
    }
    this.#left -= bytes;
    return !this.#closed;
  }

  grant(bytes: number): void {
    this.#left += bytes;
    this.#wake?.();
  }

  close(): void {
    this.#closed = true;
    this.#wake?.();
  }
}
