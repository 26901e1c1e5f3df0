/** How large messages between the parts may be, and how what one turn of the event loop says is gathered into few of them. */
import type { ChannelOptions } from '@grpc/grpc-js';

const MAX_MESSAGE_BYTES = 32 * 1024 * 1024;
/** A new message begins at this size, bytes. */
export const BATCH_BYTES = 1024 * 1024;
/** The same for frames of requests, which shall not wait for one another. */
export const FRAMES_BYTES = 512 * 1024;
/** Number and framing of an item. */
const ITEM_BYTES = 64;

/** Of every client and server of the parts. */
export const messageLimits = {
  'grpc.max_receive_message_length': MAX_MESSAGE_BYTES,
  'grpc.max_send_message_length': MAX_MESSAGE_BYTES,
} as const satisfies ChannelOptions;

export interface BatchOptions {
  /** A new message begins at this size. */
  readonly bytes?: number;
  /** Says when a turn is over: `queueMicrotask` soonest, `setImmediate` gathers most. */
  readonly later?: (end: () => void) => void;
}

/** Gathers the items of one turn for one stream. */
export class BatchWriter<T> {
  readonly #write: (items: T[]) => void;
  readonly #most: number;
  readonly #later: (end: () => void) => void;
  #items: T[] = [];
  #bytes = 0;
  #armed = false;

  constructor(write: (items: T[]) => void, { bytes = BATCH_BYTES, later = setImmediate }: BatchOptions = {}) {
    this.#write = write;
    this.#most = bytes;
    this.#later = later;
  }

  /** Adds an item of about `bytes` bytes beyond its framing. */
  add(item: T, bytes: number): void {
    if (this.#bytes + bytes > this.#most) this.flush();
    this.#items.push(item);
    this.#bytes += bytes + ITEM_BYTES;
    if (this.#armed) return;
    this.#armed = true;
    this.#later(() => {
      this.#armed = false;
      this.flush();
    });
  }

  flush(): void {
    if (this.#items.length === 0) return;
    const items = this.#items;
    this.clear();
    this.#write(items);
  }

  /** Forgets what was not written: the stream is gone. */
  clear(): void {
    this.#items = [];
    this.#bytes = 0;
  }
}
