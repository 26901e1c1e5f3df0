/** One HTTP request of a route's function: its body to the worker, the worker's answer to the caller, neither further ahead than the other reads. */
import type { ServerResponse } from 'node:http';

import type { HttpCall, HttpRequest, LocalWorker } from '../../agent/local-workers.ts';

/** Bytes of a request's body that may be on their way unread (proto/capstan/v1/invoke.proto). */
const WINDOW_BYTES = 256 * 1024;
const PART_BYTES = 64 * 1024;

export interface Answering {
  readonly worker: LocalWorker;
  readonly request: Omit<HttpRequest, 'body' | 'ended'>;
  /** Empty for none. */
  readonly body: AsyncIterable<Uint8Array> | Iterable<Uint8Array>;
  readonly response: ServerResponse;
  /** The worker has the request: from now on the answer is its own. */
  readonly taken: () => void;
  /** No answer has begun; whoever asked says what is left to say. */
  readonly failed: (message: string) => void;
  /** The function threw before it answered; the text of its answer. */
  readonly threw: (answer: Buffer) => Buffer | null;
}

/** Settles when the answer is over, however it ends. @throws CapstanError as LocalWorker.ready */
export async function answerByWorker({ worker, request, body, response, taken, failed, threw }: Answering): Promise<void> {
  const over = Promise.withResolvers<void>();
  const window = new Window(WINDOW_BYTES);
  const write = (bytes: Buffer, ended: boolean): void => {
    if (bytes.length > 0) response.write(bytes, () => call.credit(bytes.length));
    if (!ended) return;
    response.end();
    over.resolve();
  };
  const call = await worker.serve(
    { ...request, body: new Uint8Array(), ended: false },
    {
      head(status, headers, bytes, ended) {
        const page = status === 500 && ended ? threw(bytes) : null;
        if (page === null) response.writeHead(status, headers.flat());
        else response.writeHead(status, { 'content-type': 'text/html; charset=utf-8', 'content-length': page.length });
        if (!ended) response.flushHeaders();
        write(page ?? bytes, ended);
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
    // The caller broke off in the middle of its body: `close` of the response says so to the worker.
    call.abort(true);
  }
}

/** Bytes that may still be sent. */
class Window {
  #left: number;
  #closed = false;
  #wake: (() => void) | undefined;

  constructor(bytes: number) {
    this.#left = bytes;
  }

  /** False once nobody reads any more. */
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
