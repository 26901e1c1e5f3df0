/** Gathers what one turn produced for a stream and writes it as few messages of at most about 1 MiB. */
const messageBytes = 1_048_576;

export class BatchWriter<T> {
  readonly #write: (items: T[]) => void;
  #items: T[] = [];
  #bytes = 0;
  #armed = false;

  constructor(write: (items: T[]) => void) {
    this.#write = write;
  }

  /** Adds an item of about `bytes` bytes. It leaves at the end of the present turn. */
  add(item: T, bytes: number): void {
    if (this.#bytes + bytes > messageBytes && this.#items.length > 0) this.flush();
    this.#items.push(item);
    this.#bytes += bytes + 64;
    if (this.#armed) return;
    this.#armed = true;
    queueMicrotask(() => {
      this.#armed = false;
      this.flush();
    });
  }

  flush(): void {
    if (this.#items.length === 0) return;
    const items = this.#items;
    this.#items = [];
    this.#bytes = 0;
    this.#write(items);
  }
}
