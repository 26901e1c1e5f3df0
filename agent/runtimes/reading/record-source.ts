/**
 * The records of a reader, handled in short turns. One read of its pipe may hold tens of thousands of lines: handled at once they
 * would take many times the share of their account.
 */
import type { Socket } from 'node:net';

import type { PausableSource, ReadingShare } from '../reading-shares.ts';
import { freeBuffer } from '../../../lib/free-buffer.ts';

/** Bytes that are handled before the time is looked at: a few thousand lines at most. */
const PIECE_BYTES = 4 * 1024;
/** After this time the rest of a read waits for the next turn of the loop, ms. */
const TURN_MS = 5;

export class RecordSource implements PausableSource {
  readonly #pipe: Socket;
  readonly #push: (bytes: Buffer) => void;
  readonly #hold: (is: boolean) => void;
  readonly #now: () => number;
  #share: ReadingShare | undefined;
  /** A read, and how much of it was handled. */
  #read: Buffer | undefined;
  #handled = 0;
  #isPaused = false;
  #isScheduled = false;

  /** `hold`: stops the reader itself. */
  constructor(pipe: Socket, push: (bytes: Buffer) => void, hold: (is: boolean) => void, now: () => number = () => performance.now()) {
    this.#pipe = pipe;
    this.#push = push;
    this.#hold = hold;
    this.#now = now;
    pipe.on('data', (data: Buffer) => {
      this.#read = data;
      this.#handled = 0;
      this.#takeTurn();
    });
  }

  /** Its records count for an account from now on. */
  within(share: ReadingShare): void {
    this.#share = share;
    share.add(this);
  }

  /** No more comes. */
  end(): void {
    this.#share?.delete(this);
    this.#read = undefined;
    this.#pipe.destroy();
  }

  pause(): void {
    this.#isPaused = true;
    this.#pipe.pause();
  }

  resume(): void {
    this.#isPaused = false;
    if (this.#read === undefined) this.#pipe.resume();
    else this.#schedule();
  }

  hold(is: boolean): void {
    this.#hold(is);
  }

  #takeTurn(): void {
    if (this.#share === undefined) this.#handlePieces();
    else this.#share.handle(() => this.#handlePieces());
    if (this.#read !== undefined) {
      this.#pipe.pause();
      this.#schedule();
    } else if (!this.#isPaused) this.#pipe.resume();
  }

  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    setImmediate(() => {
      this.#isScheduled = false;
      if (!this.#isPaused && this.#read !== undefined) this.#takeTurn();
    });
  }

  #handlePieces(): void {
    const end = this.#now() + TURN_MS;
    for (let read = this.#read; read !== undefined; read = this.#read) {
      const piece = read.subarray(this.#handled, this.#handled + PIECE_BYTES);
      this.#handled += piece.length;
      this.#push(piece);
      if (this.#handled === read.length) {
        this.#read = undefined;
        freeBuffer(read);
      } else if (this.#now() >= end) return;
    }
  }
}
