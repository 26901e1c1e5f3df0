/**
 * The hosts with webhooks that are due, kept by the owner: which of them to look at, and from when on.
 *
 * A table of hosts would have a row for each, which every delivery changes: while a reader holds a snapshot open, a look at such a row
 * goes through all its versions. Here a cursor goes through the deliveries of all hosts as they fall due, once each, and finds
 * the hosts; a host is kept until nothing more of it is due.
 */
import { NONE } from './left-edge.ts';

/** Hosts that are kept at most, many more than a look skips: the cursor waits while there are as many. */
const MOST_HOSTS = 10_000;

/** A host, and a bound below its deliveries that wait. */
export type HostFrom = readonly [host: string, from: number];

/** What was written since a look began: the look may not have seen it. */
interface Writes {
  /** Of hosts that the write does not name. */
  lowest: number;
  readonly hosts: Map<string, number>;
}

export class HookHosts {
  /** For each host a bound below its deliveries that wait and are due before the cursor. */
  readonly #from = new Map<string, number>();
  #cursor = 0;
  readonly #looks = new Set<Writes>();
  readonly #most: number;

  constructor(most = MOST_HOSTS) {
    this.#most = most;
  }

  /** Deliveries that are due from then on may be of any host. */
  get cursor(): number {
    return this.#cursor;
  }

  /** How many hosts are kept. */
  get size(): number {
    return this.#from.size;
  }

  get isFull(): boolean {
    return this.#from.size >= this.#most;
  }

  /** A delivery that is due then is about to be written; its host, if the write names it. */
  lower(dueAt: number, host?: string): void {
    for (const writes of this.#looks) {
      if (host === undefined) writes.lowest = Math.min(writes.lowest, dueAt);
      else writes.hosts.set(host, Math.min(writes.hosts.get(host) ?? NONE, dueAt));
    }
    if (dueAt >= this.#cursor) return;
    if (host !== undefined && (this.#from.has(host) || !this.isFull)) this.#keep(host, dueAt);
    else this.#cursor = dueAt;
  }

  /** Anything may have been written. */
  reset(): void {
    this.#from.clear();
    this.lower(0);
  }

  /** Hosts with something that may be due by `wall`, the longest due first. */
  due(wall: number, skip: readonly string[], limit: number): HostFrom[] {
    const skipped = new Set(skip);
    return [...this.#from]
      .filter(([host, from]) => from <= wall && !skipped.has(host))
      .toSorted((a, b) => a[1] - b[1])
      .slice(0, limit);
  }

  /** `read` looks at the database, and tells what it saw. */
  async look<T>(read: (seen: Seen) => Promise<T>): Promise<T> {
    const writes: Writes = { lowest: NONE, hosts: new Map() };
    this.#looks.add(writes);
    try {
      return await read({
        hosts: (found, until) => this.#found(writes, found, until),
        firsts: (hosts, firsts) => this.#settle(writes, hosts, firsts),
      });
    } finally {
      this.#looks.delete(writes);
    }
  }

  /** Whether the cursor moved on. */
  #found(writes: Writes, found: Iterable<HostFrom>, until: number): boolean {
    const before = this.#cursor;
    for (const [host, first] of found) this.#keep(host, first);
    this.#cursor = Math.max(before, Math.min(until + 1, writes.lowest));
    for (const [host, dueAt] of writes.hosts) if (dueAt < this.#cursor) this.#keep(host, dueAt);
    return this.#cursor > before;
  }

  #settle(writes: Writes, hosts: Iterable<HostFrom>, firsts: ReadonlyMap<string, number>): void {
    for (const [host] of hosts) {
      const from = Math.min(firsts.get(host) ?? NONE, writes.hosts.get(host) ?? NONE, writes.lowest);
      // What is due later, the cursor finds.
      if (from >= this.#cursor) this.#from.delete(host);
      else if (this.#from.has(host)) this.#from.set(host, from);
    }
  }

  #keep(host: string, from: number): void {
    this.#from.set(host, Math.min(this.#from.get(host) ?? NONE, from));
  }
}

/** What a look saw of the deliveries that wait. */
export interface Seen {
  /**
   * All hosts with deliveries that are due between the cursor and `until`, each with the first of these.
   * Returns whether the cursor moved on: it does not past what was written meanwhile.
   */
  readonly hosts: (found: Iterable<HostFrom>, until: number) => boolean;
  /** When the first delivery of each of these hosts is due, from its bound on; nothing for a host without any. */
  readonly firsts: (hosts: Iterable<HostFrom>, firsts: ReadonlyMap<string, number>) => void;
}
