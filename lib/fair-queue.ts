/** A queue that serves its parties in rotation: who adds much waits for its own items, not others for them. Pure. */
export class FairQueue<Item> {
  /** The items of each party, first come first; the party that is served next is first. */
  readonly #waiting = new Map<string, Item[]>();

  push(party: string, item: Item): void {
    const items = this.#waiting.get(party);
    if (items === undefined) this.#waiting.set(party, [item]);
    else items.push(item);
  }

  /** Adds an item ahead of those of its party: it goes on when the turn comes round to the party again. */
  pushFirst(party: string, item: Item): void {
    const items = this.#waiting.get(party) ?? [];
    items.unshift(item);
    this.#waiting.set(party, items);
  }

  /** Returns the next item; undefined when none waits. */
  shift(): Item | undefined {
    for (const [party, items] of this.#waiting) {
      const item = items.shift();
      this.#waiting.delete(party);
      if (items.length > 0) this.#waiting.set(party, items);
      return item;
    }
    return undefined;
  }

  /** Number of items of a party that wait. */
  sizeOf(party: string): number {
    return this.#waiting.get(party)?.length ?? 0;
  }

  get isEmpty(): boolean {
    return this.#waiting.size === 0;
  }
}
