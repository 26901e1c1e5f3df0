/**
 * When the engine takes its cell over again: shortly after a failure that may pass, and as a standby once the owner may be gone. A
 * failure that cannot pass is fatal.
 */
import { CapstanError, type ErrorCode } from '../../lib/errors.ts';
import { messageOf } from '../../lib/to-error.ts';
import type { EngineOptions } from './engine-options.ts';
import type { Completion } from './loop-store.ts';

export const TAKE_OVER_RETRY_MS = 1_000;
/** How long a standby waits for its turn before it looks who the owner is, ms. */
const TURN_MS = 500;
/** Failures of the store after which a take-over may succeed. */
const RECOVERABLE: ReadonlySet<ErrorCode> = new Set(['DISK_FULL', 'UNAVAILABLE']);

type TurnOptions = Pick<EngineOptions, 'store' | 'clock' | 'cell' | 'standsBy' | 'onRole' | 'log' | 'onFatal'>;

export class TakeOverTurns {
  readonly #options: TurnOptions;
  readonly #begin: (completion: Completion<void>) => void;
  #cancelRetry: (() => void) | null = null;
  #lastFailure = '';
  /** What the owner was last called; empty while the cell is not another's. */
  #heldBy = '';
  #closed = false;

  /** `begin` takes the cell over, once. */
  constructor(options: TurnOptions, begin: (completion: Completion<void>) => void) {
    this.#options = options;
    this.#begin = begin;
  }

  /** Takes the cell over; again later where that fails. */
  takeOver(): void {
    if (this.#closed) return;
    this.#begin({
      done: () => {
        this.#lastFailure = '';
        this.#options.log.info({}, 'queue taken over');
      },
      failed: (error) => this.failed(error),
    });
  }

  retry(ms = TAKE_OVER_RETRY_MS): void {
    if (!this.#closed) this.#cancelRetry = this.#options.clock.after(ms, () => this.takeOver());
  }

  /** Tells of the next owner even if it is the same as before. */
  forgetOwner(): void {
    this.#heldBy = '';
  }

  close(): void {
    this.#closed = true;
    this.#cancelRetry?.();
  }

  /** Decides what a take-over that failed with this error leads to. */
  failed(error: unknown): void {
    if (this.#closed) return;
    if (this.#options.standsBy === true && error instanceof CapstanError && error.code === 'CONFLICT') {
      this.#waitForTurn(error);
      return;
    }
    // A disk may be full for hours: logged once.
    const failure = messageOf(error);
    if (failure !== this.#lastFailure) this.#options.log.error({ err: error }, 'take-over failed; trying again');
    this.#lastFailure = failure;
    if (error instanceof CapstanError && !isRecoverable(error)) this.#options.onFatal(error);
    else this.retry();
  }

  /** Another process owns the cell: waits until it may be free, and looks again. */
  #waitForTurn(error: CapstanError): void {
    const { store, cell = 0, onRole } = this.#options;
    if (error.message !== this.#heldBy)
      onRole?.({ kind: 'standby', heldBy: error.message, ...(error.owner === undefined ? {} : { owner: error.owner }) });
    this.#heldBy = error.message;
    if (store.waitForTurn === undefined) this.retry(TURN_MS);
    else store.waitForTurn(cell, TURN_MS, { done: () => this.takeOver(), failed: () => this.retry() });
  }
}

export function isRecoverable(error: unknown): boolean {
  return error instanceof CapstanError && RECOVERABLE.has(error.code);
}

export function takingOver(): CapstanError {
  return new CapstanError('UNAVAILABLE', 'the scheduler is taking over its queue', { retryAfterMs: TAKE_OVER_RETRY_MS });
}
