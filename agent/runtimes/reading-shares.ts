/**
 * Shares the agent's loop among the accounts whose workers it reads. What a worker writes to its channel and its output
 * is read and parsed on the loop that serves all workers of the node, so the time that this takes is measured by account.
 * An account that has used its share of a short window is not read before the next one: its own processes wait in their
 * writes, and the bytes of others are read meanwhile.
 *
 * The limits of frames and of lines (host-frames.ts, output-limiter.ts) bound what a single read can cost: a share
 * is exceeded by one read at most.
 *
 * What has arrived of frames that are not complete is bounded by account, too: beyond the bound only one of its large frames is
 * read on, until it is complete.
 */

/** Length of a window, ms. */
export const WINDOW_MS = 50;
/** Time in a window for the bytes of all accounts together, ms; and where only one has workers here. */
export const SHARED_MS = 20;
export const ALONE_MS = 40;
/** Least share of an account, ms. */
const LEAST_MS = 2;
/** Cost of a read beside the time of its handler, ms. */
const READ_MS = 0.02;
/** An account that used less than this in a window, ms, is not counted among those that share the next one. */
const BUSY_MS = 1;

/** Large incomplete frames of an account that are read on beside each other, bytes. */
export const INCOMPLETE_BYTES = 4 * 1024 * 1024;
/** Shorter incomplete frames are not counted, bytes. */
const SHORT_BYTES = 1024 * 1024;

/** A stream of a worker's bytes. */
export interface PausableSource {
  pause(): unknown;
  resume(): unknown;
  /** Stops reading what lies behind it instead (the reader of an account has sources of its own). */
  hold?(is: boolean): void;
}

export class ReadingShares {
  readonly #now: () => number;
  /** By account; never removed, as its workers come and go. */
  readonly #shares = new Map<string, ReadingShare>();
  #windowAt = Number.NEGATIVE_INFINITY;
  /** Accounts that were busy in the window before. */
  #busy = 1;
  #isTimed = false;

  readonly #aloneMs: number;

  /** `now`: monotonic, ms. `aloneMs`: time in a window where only one account has workers. */
  constructor(now: () => number = () => performance.now(), aloneMs = ALONE_MS) {
    this.#now = now;
    this.#aloneMs = aloneMs;
  }

  /** Stops reading the workers of these accounts, and reads those of all others. */
  hold(accounts: ReadonlySet<string>): void {
    for (const [account, share] of this.#shares) share.hold(accounts.has(account));
  }

  of(account: string): ReadingShare {
    let share = this.#shares.get(account);
    if (share === undefined) {
      share = new ReadingShare({
        now: this.#now,
        begin: () => this.#begin(),
        isUsedUp: (used) => this.#isUsedUp(used),
      });
      this.#shares.set(account, share);
    }
    return share;
  }

  #isUsedUp(share: ReadingShare): boolean {
    if (share.used < this.#most()) return false;
    const left = this.#windowAt + WINDOW_MS - this.#now();
    if (this.#isTimed) return true;
    this.#isTimed = true;
    setTimeout(
      () => {
        this.#isTimed = false;
        this.#begin(true);
      },
      Math.max(1, left),
    );
    return true;
  }

  #most(): number {
    let accounts = 0;
    for (const { size } of this.#shares.values()) if (size > 0) accounts += 1;
    return accounts <= 1 ? this.#aloneMs : Math.max(LEAST_MS, SHARED_MS / this.#busy);
  }

  /** Begins a window if the last one is over; `isOver`: it is. */
  #begin(isOver = false): void {
    const now = this.#now();
    if (!isOver && now < this.#windowAt + WINDOW_MS) return;
    this.#windowAt = now;
    this.#busy = 0;
    for (const share of this.#shares.values()) {
      if (share.used >= BUSY_MS) this.#busy += 1;
      share.renew();
    }
    this.#busy = Math.max(1, this.#busy);
  }
}

interface Windows {
  readonly now: () => number;
  /** Begins a window if the last one is over. */
  readonly begin: () => void;
  readonly isUsedUp: (share: ReadingShare) => boolean;
}

/** The share of one account. */
export class ReadingShare {
  readonly #windows: Windows;
  readonly #sources = new Set<PausableSource>();
  /** Sources with a large incomplete frame, and its bytes so far. */
  readonly #incomplete = new Map<PausableSource, number>();
  readonly #paused = new Set<PausableSource>();
  #isUsedUp = false;
  #isHeld = false;
  /** Time used in the present window, ms. */
  used = 0;

  /** Created by `ReadingShares.of`. */
  constructor(windows: Windows) {
    this.#windows = windows;
  }

  /** Number of sources that are read. */
  get size(): number {
    return this.#sources.size;
  }

  add(source: PausableSource): void {
    this.#sources.add(source);
    if (this.#isHeld) source.hold?.(true);
    this.#update();
  }

  delete(source: PausableSource): void {
    this.#sources.delete(source);
    this.#paused.delete(source);
    if (this.#incomplete.delete(source)) this.#update();
  }

  /** Handles a read, and pauses the account's sources if that used its share up. */
  handle(read: () => void): void {
    const { now, begin } = this.#windows;
    begin();
    const begun = now();
    read();
    this.#use(now() - begun + READ_MS);
  }

  /** Charges time that was, or will be, used for the account, ms. */
  charge(ms: number): void {
    this.#windows.begin();
    this.#use(ms);
  }

  #use(ms: number): void {
    const { isUsedUp } = this.#windows;
    this.used += ms;
    if (this.#isUsedUp || !isUsedUp(this)) return;
    this.#isUsedUp = true;
    this.#update();
  }

  /** Sets what has arrived of a source's incomplete frame, bytes. */
  keep(source: PausableSource, bytes: number): void {
    const had = this.#incomplete.has(source);
    if (bytes >= SHORT_BYTES) this.#incomplete.set(source, bytes);
    else this.#incomplete.delete(source);
    if (had || bytes >= SHORT_BYTES) this.#update();
  }

  /** Stops reading, whatever time is left, until it is called with false. */
  hold(is: boolean): void {
    if (this.#isHeld === is) return;
    this.#isHeld = is;
    for (const source of this.#sources) source.hold?.(is);
    this.#update();
  }

  /** A window begins. */
  renew(): void {
    this.used = 0;
    if (!this.#isUsedUp) return;
    this.#isUsedUp = false;
    this.#update();
  }

  #update(): void {
    const { first } = this;
    for (const source of this.#sources) {
      const waits = first !== undefined && source !== first && this.#incomplete.has(source);
      const isPaused = this.#isUsedUp || (this.#isHeld && source.hold === undefined) || waits;
      if (isPaused === this.#paused.has(source)) continue;
      if (isPaused) {
        this.#paused.add(source);
        source.pause();
      } else {
        this.#paused.delete(source);
        source.resume();
      }
    }
  }

  /** The source for whose frame those of others wait. */
  get awaited(): PausableSource | undefined {
    return this.#incomplete.size > 1 ? this.first : undefined;
  }

  /** The source whose frame is nearest to its end, if the account's incomplete frames are beyond their bound: others wait for it. */
  get first(): PausableSource | undefined {
    let sum = 0;
    let first: PausableSource | undefined;
    for (const [source, bytes] of this.#incomplete) {
      sum += bytes;
      if (bytes > (first === undefined ? 0 : (this.#incomplete.get(first) ?? 0))) first = source;
    }
    return sum > INCOMPLETE_BYTES ? first : undefined;
  }
}
