/**
 * The lines that wait to be forwarded: bounded in number and in size, sent in batches, one at a time. A line that finds no room is
 * dropped, as are the lines of a batch that the receiver does not accept; both are counted.
 */
import type { ForwardedLine } from './log-record.ts';

export type SendOutcome = { readonly kind: 'sent' } | { readonly kind: 'failed'; readonly reason: string };

export interface BatchSender {
  /** Called with one batch at a time. Resolves within a bounded time, and never rejects. */
  send(lines: readonly ForwardedLine[]): Promise<SendOutcome>;
  /** Gives up the batch that is being sent. */
  close(): Promise<void>;
}

export interface Timers {
  /** Runs later unless the result is called first, ms. */
  after(ms: number, run: () => void): () => void;
}

export interface ForwardQueueOptions {
  readonly sender: BatchSender;
  readonly timers: Timers;
  /** Most lines that wait. */
  readonly maxLines: number;
  /** Most lines of a batch. */
  readonly batchLines: number;
  /** How long a batch that is not full waits for more lines, and how long a failure is followed by a pause, ms. */
  readonly delayMs: number;
  readonly onSent: (lines: number) => void;
  readonly onDropped: (lines: number, reason: string) => void;
}

/** Text that waits, characters. */
const MAX_WAITING = 16_000_000;
/** Text of a batch, characters: receivers of gRPC refuse messages above 4 MiB by default. */
const MAX_BATCH = 1_000_000;
/** What a record takes besides its text. */
const RECORD_OVERHEAD = 500;
/** Time to send what waits when the agent stops, ms. */
const CLOSE_MS = 5_000;

export class ForwardQueue {
  readonly #options: ForwardQueueOptions;
  #lines: ForwardedLine[] = [];
  #characters = 0;
  #sending: Promise<boolean> | undefined;
  #cancelTimer: (() => void) | undefined;
  /** The receiver did not accept the last batch: the next one waits. */
  #resting = false;
  #closed = false;
  #abandoned = false;

  constructor(options: ForwardQueueOptions) {
    this.#options = options;
  }

  add(line: ForwardedLine): void {
    const size = sizeOf(line);
    if (this.#closed) return this.#options.onDropped(1, 'the agent stops');
    if (this.#lines.length >= this.#options.maxLines || this.#characters + size > MAX_WAITING)
      return this.#options.onDropped(1, 'the queue is full');
    this.#lines.push(line);
    this.#characters += size;
    this.#arm();
  }

  /** Sends what waits, for 5 s at most, and while the receiver accepts it. */
  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    this.#cancelTimer?.();
    const { promise: late, resolve } = Promise.withResolvers<void>();
    const cancel = this.#options.timers.after(CLOSE_MS, resolve);
    await Promise.race([this.#drain(), late]);
    cancel();
    this.#abandoned = true;
    await this.#options.sender.close();
    await this.#sending;
    if (this.#lines.length > 0) this.#options.onDropped(this.#lines.length, 'the agent stops');
    this.#lines = [];
  }

  async #drain(): Promise<void> {
    let accepts = (await this.#sending) ?? true;
    while (accepts && !this.#abandoned && this.#lines.length > 0) accepts = await this.#send();
  }

  #arm(): void {
    if (this.#sending !== undefined || this.#closed) return;
    if (!this.#resting && this.#lines.length >= this.#options.batchLines) {
      this.#cancelTimer?.();
      this.#cancelTimer = undefined;
      void this.#send();
      return;
    }
    this.#cancelTimer ??= this.#options.timers.after(this.#options.delayMs, () => {
      this.#cancelTimer = undefined;
      this.#resting = false;
      void this.#send();
    });
  }

  /** Sends one batch. Resolves with whether it was accepted. */
  #send(): Promise<boolean> {
    const batch = this.#takeBatch();
    if (batch.length === 0) return Promise.resolve(true);
    this.#sending = this.#options.sender.send(batch).then((outcome) => {
      if (outcome.kind === 'sent') this.#options.onSent(batch.length);
      else this.#options.onDropped(batch.length, outcome.reason);
      this.#sending = undefined;
      this.#resting = outcome.kind === 'failed';
      if (this.#lines.length > 0) this.#arm();
      return outcome.kind === 'sent';
    });
    return this.#sending;
  }

  #takeBatch(): ForwardedLine[] {
    let characters = 0;
    let count = 0;
    for (const line of this.#lines) {
      characters += sizeOf(line);
      if (count > 0 && (count >= this.#options.batchLines || characters > MAX_BATCH)) break;
      this.#characters -= sizeOf(line);
      count += 1;
    }
    return this.#lines.splice(0, count);
  }
}

function sizeOf({ line }: ForwardedLine): number {
  return line.text.length + line.fields.length + RECORD_OVERHEAD;
}
