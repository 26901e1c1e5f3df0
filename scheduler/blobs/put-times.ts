/**
 * When this process put blobs, by its monotonic clock, and which removals are in progress. Both keep a sweep from
 * removing a blob that was put again in the meantime, whatever the clock of the storage does.
 */
export class PutTimes {
  readonly #putAt = new Map<string, number>();
  /** A put of the same blob waits for the removal and then writes it again. */
  readonly #removing = new Map<string, Promise<boolean>>();

  /** From here on no sweep of this process removes the blob. Resolves when a removal that had already begun has ended. */
  async pin(id: string): Promise<void> {
    this.#putAt.set(id, performance.now());
    await this.#removing.get(id);
    // The removal deleted the time together with the blob.
    this.#putAt.set(id, performance.now());
  }

  /** Forgets a blob that does not exist. */
  forget(id: string): void {
    this.#putAt.delete(id);
  }

  /** Whether this process put the blob less than `ageMs` ago. */
  isWithin(id: string, ageMs: number): boolean {
    const at = this.#putAt.get(id);
    if (at === undefined) return false;
    if (performance.now() - at < ageMs) return true;
    this.#putAt.delete(id);
    return false;
  }

  remove(id: string, removal: () => Promise<boolean>): Promise<boolean> {
    const removing = removal().finally(() => {
      this.#removing.delete(id);
      this.#putAt.delete(id);
    });
    this.#removing.set(id, removing);
    return removing;
  }
}
