/**
 * Tracks in memory which hosts have webhooks that are due.
 *
 * A table of hosts has one row per host, and every delivery updates it. While a reader holds a snapshot open, each lookup of that row
 * reads all its dead versions. Instead, a cursor scans the pending deliveries of all hosts once, in the order in which they
 * fall due, and adds their hosts; a host is removed when none of its deliveries is due.
 */
import { NONE } from './left-edge.ts';

/** Limit of tracked hosts, many more than a read skips. At the limit the cursor stops until a host is removed. */
const MAX_HOSTS = 10_000;

/** A host, and a lower bound of the due times of its pending deliveries, ms since 1970. */
export type HostFrom = readonly [host: string, from: number];

/** The lowest due times written since a read began; the read may not have seen these writes. */
interface Writes {
  /** Of writes that do not name their host. */
  lowest: number;
  readonly hosts: Map<string, number>;
}

export class DeliveryHosts {
  /** By host, a lower bound of the due times of its pending deliveries that are due before the cursor. */
  readonly #from = new Map<string, number>();
  #cursor = 0;
  readonly #looks = new Set<Writes>();
  readonly #most: number;

  constructor(most = MAX_HOSTS) {
    this.#most = most;
  }

  /** Due time up to which deliveries were scanned: a delivery that is due from then on may belong to a host that is not tracked. */
  get cursor(): number {
    return this.#cursor;
  }

  /** Number of tracked hosts. */
  get size(): number {
    return this.#from.size;
  }

  get isFull(): boolean {
    return this.#from.size >= this.#most;
  }

  /** Notes that a delivery with this due time is about to be written, to `host` if the write names it. */
  lower(dueAt: number, host?: string): void {
    for (const writes of this.#looks) {
      if (host === undefined) writes.lowest = Math.min(writes.lowest, dueAt);
      else writes.hosts.set(host, Math.min(writes.hosts.get(host) ?? NONE, dueAt));
    }
    if (dueAt >= this.#cursor) return;
    if (host !== undefined && (this.#from.has(host) || !this.isFull)) this.#keep(host, dueAt);
    else this.#cursor = dueAt;
  }

  /** Forgets everything: another owner may have written. */
  reset(): void {
    this.#from.clear();
    this.lower(0);
  }

  /** Returns up to `limit` hosts that may have a delivery due by `wall`, in order of their lower bounds. */
  due(wall: number, skip: readonly string[], limit: number): HostFrom[] {
    const skipped = new Set(skip);
    return [...this.#from]
      .filter(([host, from]) => from <= wall && !skipped.has(host))
      .toSorted((a, b) => a[1] - b[1])
      .slice(0, limit);
  }

  /** Runs `read`, which queries the database and records the results through its argument. */
  async look<T>(read: (recorder: Recorder) => Promise<T>): Promise<T> {
    const writes: Writes = { lowest: NONE, hosts: new Map() };
    this.#looks.add(writes);
    try {
      return await read({
        scanned: (found, until) => this.#scanned(writes, found, until),
        firstDue: (hosts, firsts) => this.#firstDue(writes, hosts, firsts),
      });
    } finally {
      this.#looks.delete(writes);
    }
  }

  #scanned(writes: Writes, found: Iterable<HostFrom>, until: number): boolean {
    const before = this.#cursor;
    for (const [host, first] of found) this.#keep(host, first);
    this.#cursor = Math.max(before, Math.min(until + 1, writes.lowest));
    for (const [host, dueAt] of writes.hosts) if (dueAt < this.#cursor) this.#keep(host, dueAt);
    return this.#cursor > before;
  }

  #firstDue(writes: Writes, hosts: Iterable<HostFrom>, firsts: ReadonlyMap<string, number>): void {
    for (const [host] of hosts) {
      const from = Math.min(firsts.get(host) ?? NONE, writes.hosts.get(host) ?? NONE, writes.lowest);
      // The cursor finds what is due later.
      if (from >= this.#cursor) this.#from.delete(host);
      else if (this.#from.has(host)) this.#from.set(host, from);
    }
  }

  #keep(host: string, from: number): void {
    this.#from.set(host, Math.min(this.#from.get(host) ?? NONE, from));
  }
}

/** Records what a read found. */
export interface Recorder {
  /**
   * Records a scan from the cursor to `until`: all hosts with deliveries due in between, each with its earliest due time. Moves the
   * cursor past `until`, but not past deliveries that were written during the read. Returns whether the cursor moved.
   */
  readonly scanned: (found: Iterable<HostFrom>, until: number) => boolean;
  /** Records the earliest due time of each of `hosts`; a host without pending deliveries is missing from `firsts`. */
  readonly firstDue: (hosts: Iterable<HostFrom>, firsts: ReadonlyMap<string, number>) => void;
}
