/** An incoming request body, read whole or as a stream. Reading grants the sender credit. */

/** Credit is granted in steps of at least this size, bytes. */
const GRANT_BYTES = 64 * 1024;

export class RequestBody {
  readonly #grant: (bytes: number) => void;
  #parts: Uint8Array[] = [];
  #ended: boolean;
  #failed: Error | undefined;
  #wake: (() => void) | undefined;
  #owed = 0;

  constructor(first: Uint8Array, ended: boolean, grant: (bytes: number) => void) {
    if (first.length > 0) this.#parts.push(first);
    this.#ended = ended;
    this.#grant = grant;
  }

  /** There are no bytes and none will follow. */
  get isEmpty(): boolean {
    return this.#ended && this.#parts.length === 0;
  }

  push(bytes: Uint8Array, ended: boolean): void {
    if (bytes.length > 0) this.#parts.push(bytes);
    this.#ended ||= ended;
    this.#wake?.();
  }

  /** The caller is gone: readers receive an error. */
  fail(error: Error): void {
    this.#failed ??= error;
    this.#wake?.();
  }

  /** Returns the next part; undefined at the end. */
  async next(): Promise<Uint8Array | undefined> {
    while (this.#parts.length === 0) {
      if (this.#failed !== undefined) throw this.#failed;
      if (this.#ended) return undefined;
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#wake = resolve;
      await promise;
    }
    const part = this.#parts.shift();
    this.#owed += part?.length ?? 0;
    if (!this.#ended && this.#owed >= GRANT_BYTES) {
      this.#grant(this.#owed);
      this.#owed = 0;
    }
    return part;
  }

  async text(): Promise<string> {
    if (this.#ended && this.#parts.length === 1) {
      const [only] = this.#parts;
      this.#parts = [];
      return decode(only ?? new Uint8Array());
    }
    const parts: Uint8Array[] = [];
    for (let part = await this.next(); part !== undefined; part = await this.next()) parts.push(part);
    return decode(Buffer.concat(parts));
  }

  stream(): ReadableStream<Uint8Array> {
    return new ReadableStream<Uint8Array>(
      {
        pull: async (controller) => {
          const part = await this.next();
          if (part === undefined) controller.close();
          else controller.enqueue(part);
        },
      },
      { highWaterMark: 0 },
    );
  }
}

const decoder = new TextDecoder('utf-8', { fatal: true });

function decode(bytes: Uint8Array): string {
  return decoder.decode(bytes);
}
