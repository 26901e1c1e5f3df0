/**
 * Shared memory for request bodies of many callers. No caller can exhaust it: a party (an account, a connection, a
 * worker) holds at most as many bytes as it leaves free. One busy party gets half of the memory, n of them get 1/(n+1)
 * each, and the same share remains for the next one.
 */

/** The owner of a reservation. */
export interface Party {
  /** Equal ids are one party; an object stands for itself. */
  readonly id: string | object;
  /** The party's own limit, bytes, if it is less than its share. */
  readonly most?: number;
}

/** Why memory was refused: the party's other bodies hold too much, or all bodies together do. */
export type BudgetShortage = 'party' | 'all';

export class SharedBudget {
  readonly limit: number;
  readonly #held = new Map<string | object, number>();
  /** One function for all reservations. */
  readonly #change: Change = (bytes, given, parties) => this.#add(bytes, given, parties);
  #used = 0;

  /** `limit`: bytes for all parties together. */
  constructor(limit: number) {
    this.limit = limit;
  }

  get used(): number {
    return this.#used;
  }

  /** The largest body that can ever be received, bytes. */
  get largest(): number {
    return Math.floor(this.limit / 2);
  }

  /** Opens an empty reservation that counts for all of `parties`. */
  open(...parties: readonly Party[]): Reservation {
    return new Reservation(parties, this.#change);
  }

  #add(bytes: number, given: number, parties: readonly Party[]): BudgetShortage | null {
    if (bytes > 0) {
      const free = this.limit - this.#used - bytes;
      if (free < 0) return 'all';
      for (const { id, most = Infinity } of parties) {
        const held = this.#held.get(id) ?? 0;
        if (held + bytes <= Math.min(free, most)) continue;
        return held > given ? 'party' : 'all';
      }
    }
    this.#used += bytes;
    for (const { id } of parties) {
      const held = (this.#held.get(id) ?? 0) + bytes;
      if (held === 0) this.#held.delete(id);
      else this.#held.set(id, held);
    }
    return null;
  }
}

/** Reserves `bytes` for the parties, or returns them when negative. `given`: bytes that the reservation holds already. */
type Change = (bytes: number, given: number, parties: readonly Party[]) => BudgetShortage | null;

/** Memory that one request holds. */
export class Reservation {
  readonly parties: readonly Party[];
  readonly #change: Change;
  #bytes = 0;
  #released = false;

  /** Created by `SharedBudget.open`. */
  constructor(parties: readonly Party[], change: Change) {
    this.parties = parties;
    this.#change = change;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** Changes the reservation to `bytes`. A refused change leaves it as it was. A released reservation stays empty. */
  resize(bytes: number): BudgetShortage | null {
    if (this.#released || bytes === this.#bytes) return null;
    const refused = this.#change(bytes - this.#bytes, this.#bytes, this.parties);
    if (refused === null) this.#bytes = bytes;
    return refused;
  }

  /** Releases everything. Idempotent. */
  release(): void {
    this.resize(0);
    this.#released = true;
  }
}
