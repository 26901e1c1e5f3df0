/**
 * Turns of searches, lists and counts: what people look at must not delay what programs submit. One piece of such work runs at a
 * time, accounts in rotation, and pauses follow that are as long as the piece took. Pieces read apart from submissions
 * (`Store.search`); the pauses leave a processor to these for at least half of the time, and SQLite's log times without a reader, in
 * which it begins anew.
 */
import { CapstanError } from '../../lib/errors.ts';
import { FairQueue } from '../../lib/fair-queue.ts';
import { toError } from '../../lib/to-error.ts';

/** Pieces of work of one account that may wait. */
const MAX_WAITING = 200;
/** Rows of a piece: it takes about a millisecond. */
export const PIECE_ROWS = 50;
/** Time after which a search returns what it has, with the cursor where it goes on, ms. */
export const SEARCH_MS = 5_000;

interface Piece {
  run(): Promise<void>;
}

export interface TurnClock {
  /** Monotonic, ms. */
  now(): number;
  after(ms: number, run: () => void): void;
}

const systemClock: TurnClock = {
  now: () => performance.now(),
  after: (ms, run) => void setTimeout(run, ms),
};

export class SearchTurns {
  readonly #clock: TurnClock;
  readonly #waiting = new FairQueue<Piece>();
  #isBusy = false;

  constructor(clock: TurnClock = systemClock) {
    this.#clock = clock;
  }

  /** Runs a short piece of work when it is the account's turn. @throws CapstanError RATE_LIMITED */
  take<T>(account: string, work: () => Promise<T>): Promise<T> {
    if (this.#waiting.sizeOf(account) >= MAX_WAITING)
      throw new CapstanError('RATE_LIMITED', `${MAX_WAITING} searches of the account are waiting; try again when some have ended`, {
        retryAfterMs: 1_000,
      });
    return new Promise((resolve, reject) => {
      const run = (): Promise<void> =>
        work().then(resolve, (error: unknown) => {
          reject(toError(error));
        });
      this.#waiting.push(account, { run });
      this.#next();
    });
  }

  #next(): void {
    if (this.#isBusy) return;
    const piece = this.#waiting.shift();
    if (piece === undefined) return;
    this.#isBusy = true;
    const begun = this.#clock.now();
    void piece.run().then(() => {
      this.#clock.after(this.#clock.now() - begun, () => {
        this.#isBusy = false;
        this.#next();
      });
    });
  }
}
