/** Something that is read in the background, and that requests of a gateway that has just started wait for. */
export abstract class ReadInBackground {
  readonly #first = Promise.withResolvers<boolean>();
  #reached = false;

  /** It was read at least once. */
  get reached(): boolean {
    return this.#reached;
  }

  /** Resolves once it was read, with true; with false after `timeoutMs`, or when this closes. */
  async firstRead(timeoutMs: number): Promise<boolean> {
    if (this.#reached) return true;
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<false>((resolve) => {
      timer = setTimeout(() => resolve(false), timeoutMs);
    });
    const isRead = await Promise.race([this.#first.promise, late]);
    clearTimeout(timer);
    return isRead;
  }

  protected wasRead(): void {
    this.#reached = true;
    this.#first.resolve(true);
  }

  /** It will not be read any more: ends the waits. */
  protected endReads(): void {
    this.#first.resolve(false);
  }
}
