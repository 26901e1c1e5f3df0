/** The readers of the accounts that have workers here, and one started ahead. */
import { ReadingShares } from '../reading-shares.ts';
import type { AccountReading } from '../account-reading.ts';
import { ReaderProcess, type ReaderStart } from './reader-process.ts';

/** A reader without workers ends after this time, ms. */
const IDLE_MS = 10_000;
/** The worker that took the spare has the processor for its start before the next one, ms. */
const REFILL_MS = 500;

export class AccountReaders {
  readonly #start: ReaderStart;
  readonly #shares = new ReadingShares();
  readonly #accounts = new Map<string, ReaderProcess>();
  readonly #living = new Set<ReaderProcess>();
  #spare: ReaderProcess | undefined;
  #refill: NodeJS.Timeout | undefined;
  #isClosed = false;

  constructor(start: ReaderStart) {
    this.#start = start;
    this.#refillLater(0);
  }

  of(account: string): AccountReading {
    return {
      share: this.#shares.of(account),
      attach: (listener) => this.#readerOf(account).attach(listener),
    };
  }

  /** Stops reading the workers of these accounts, and reads those of all others. */
  hold(accounts: ReadonlySet<string>): void {
    this.#shares.hold(accounts);
  }

  /** Process of an account's reader; undefined without one. */
  pidOf(account: string): number | undefined {
    return this.#accounts.get(account)?.pid;
  }

  /** Ends all readers. No worker may be left. */
  async close(): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#refill);
    const living = [...this.#living];
    for (const reader of living) reader.kill('the agent is stopping');
    await Promise.all(living.map(({ exited }) => exited));
  }

  #readerOf(account: string): ReaderProcess {
    const present = this.#accounts.get(account);
    if (present !== undefined && !present.isGone) return present;
    const spare = this.#spare?.isGone === false ? this.#spare : undefined;
    this.#spare = undefined;
    const reader = spare ?? this.#launch();
    reader.within(this.#shares.of(account));
    this.#accounts.set(account, reader);
    this.#endIdle(account, reader);
    this.#refillLater();
    return reader;
  }

  #launch(): ReaderProcess {
    const reader = new ReaderProcess(this.#start);
    this.#living.add(reader);
    void reader.exited.then(() => this.#living.delete(reader));
    return reader;
  }

  #endIdle(account: string, reader: ReaderProcess): void {
    let wasIdle = false;
    const timer = setInterval(() => {
      if (reader.size === 0 && wasIdle && this.#accounts.get(account) === reader) {
        this.#accounts.delete(account);
        reader.kill('it has no workers');
      }
      wasIdle = reader.size === 0;
    }, IDLE_MS).unref();
    void reader.exited.then(() => {
      clearInterval(timer);
      if (this.#accounts.get(account) === reader) this.#accounts.delete(account);
    });
  }

  #refillLater(ms = REFILL_MS): void {
    if (this.#isClosed) return;
    this.#refill ??= setTimeout(() => {
      this.#refill = undefined;
      if (this.#isClosed || this.#spare?.isGone === false) return;
      try {
        this.#spare = this.#launch();
      } catch {
        // A machine without room for a spare has none; the next worker's own start reports the reason.
      }
    }, ms).unref();
  }
}
