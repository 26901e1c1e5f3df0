/**
 * Sends batches by a thread of its own, so that neither encoding nor a receiver's behaviour takes time from the workers. The thread
 * starts with the first batch, and is ended when a batch takes too long or the thread fails; the next batch starts another one.
 */
import { Worker } from 'node:worker_threads';

import { errnoOf } from '../../../lib/to-error.ts';
import type { BatchSender, SendOutcome } from './forward-queue.ts';
import type { ThreadData, ThreadMessage } from './forward-thread.ts';
import type { ForwardedLine } from './log-record.ts';

/** Memory of the thread, MB. */
const THREAD_MEMORY_MB = 256;
/** Longest start of the thread, ms. */
const START_MS = 60_000;

export interface ThreadSenderOptions {
  /** Environment of the thread: the agent's OTEL_* variables. */
  readonly env: Readonly<Record<string, string>>;
  /** Read when a thread starts. */
  readonly data: () => ThreadData;
  /** Longest time of a batch, ms. */
  readonly timeoutMs: number;
}

export class ThreadSender implements BatchSender {
  readonly #options: ThreadSenderOptions;
  #worker: Worker | undefined;
  #onMessage: ((message: ThreadMessage) => void) | undefined;

  constructor(options: ThreadSenderOptions) {
    this.#options = options;
  }

  async send(lines: readonly ForwardedLine[]): Promise<SendOutcome> {
    if (this.#worker === undefined) {
      this.#start();
      const started = await this.#answer(START_MS);
      if (started.kind === 'failed') return started;
    }
    this.#worker?.postMessage(lines);
    const outcome = await this.#answer(this.#options.timeoutMs);
    return outcome.kind === 'failed' ? outcome : { kind: 'sent' };
  }

  async close(): Promise<void> {
    const worker = this.#worker;
    this.#fail('the agent stops');
    await worker?.terminate();
  }

  /** Resolves with the next message of the thread, which is ended after the time. */
  async #answer(ms: number): Promise<ThreadMessage> {
    const { promise, resolve } = Promise.withResolvers<ThreadMessage>();
    this.#onMessage = resolve;
    const timer = setTimeout(() => this.#fail('time-out'), ms);
    try {
      return await promise;
    } finally {
      clearTimeout(timer);
    }
  }

  #start(): void {
    const worker = new Worker(new URL('./forward-thread.ts', import.meta.url), {
      name: 'capstan-log-forwarding',
      env: { ...this.#options.env },
      workerData: this.#options.data(),
      resourceLimits: { maxOldGenerationSizeMb: THREAD_MEMORY_MB },
      // What the libraries print could hold credentials.
      stdout: true,
      stderr: true,
    });
    worker.stdout.resume();
    worker.stderr.resume();
    worker.unref();
    this.#worker = worker;
    worker.on('message', (message: ThreadMessage) => {
      if (this.#worker === worker) this.#onMessage?.(message);
    });
    worker.on('error', (error) => {
      if (this.#worker === worker) this.#fail(`the thread failed: ${errnoOf(error) ?? 'unknown error'}`);
    });
    worker.on('exit', () => {
      if (this.#worker === worker) this.#fail('the thread ended');
    });
  }

  /** Ends the thread; the batch that it has is lost. */
  #fail(reason: string): void {
    const worker = this.#worker;
    this.#worker = undefined;
    void worker?.terminate();
    this.#onMessage?.({ kind: 'failed', reason });
  }
}
