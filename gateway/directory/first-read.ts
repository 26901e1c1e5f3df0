/** Something that is read in the background, and that requests of a gateway that has just started wait for. */
export class FirstRead {
  readonly #settled = Promise.withResolvers<boolean>();
  #done = false;

  /** It was read at least once. */
  get done(): boolean {
    return this.#done;
  }

  read(): void {
    this.#done = true;
    this.#settled.resolve(true);
  }

  /** It will not be read any more: ends the waits. */
  close(): void {
    this.#settled.resolve(false);
  }

  /** Resolves once it was read, with true; with false after `timeoutMs`, or when this closes. */
  async within(timeoutMs: number): Promise<boolean> {
    if (this.#done) return true;
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<false>((resolve) => {
      timer = setTimeout(() => resolve(false), timeoutMs);
    });
    const isRead = await Promise.race([this.#settled.promise, late]);
    clearTimeout(timer);
    return isRead;
  }
}
