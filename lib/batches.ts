/** Limits on the size of messages between parts, and batching of the items of one turn of the event loop. */
import type { ChannelOptions } from '@grpc/grpc-js';

const MAX_MESSAGE_BYTES = 32 * 1024 * 1024;
/** Size at which a new message begins, bytes. */
export const BATCH_BYTES = 1024 * 1024;
/** The same for frames of requests, which must not delay each other. */
export const FRAMES_BYTES = 512 * 1024;
/** Number and framing of an item. */
const ITEM_BYTES = 64;

/** Options of every gRPC client and server. */
export const messageLimits = {
  'grpc.max_receive_message_length': MAX_MESSAGE_BYTES,
  'grpc.max_send_message_length': MAX_MESSAGE_BYTES,
} as const satisfies ChannelOptions;

export interface BatchOptions {
  /** A new message begins at this size. */
  readonly bytes?: number;
  /** Schedules the end of a turn: `queueMicrotask` is soonest, `setImmediate` batches most. */
  readonly later?: (end: () => void) => void;
}

/** Batches the items of one turn for one stream. */
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

  /** Drops unwritten items, because the stream has ended. */
  clear(): void {
    this.#items = [];
    this.#bytes = 0;
  }
}
