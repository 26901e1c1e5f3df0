/** Logs how many lines were not forwarded, and why: at once after a quiet minute, else once a minute. */
import type { Logger } from 'pino';

import type { Timers } from './forward-queue.ts';

const INTERVAL_MS = 60_000;

export class DropReport {
  readonly #log: Pick<Logger, 'warn'>;
  readonly #receiver: string;
  readonly #timers: Timers;
  /** Lines by reason since the last report. */
  readonly #dropped = new Map<string, number>();
  #cancelTimer: (() => void) | undefined;

  /** `receiver`: host and port. */
  constructor(receiver: string, log: Pick<Logger, 'warn'>, timers: Timers) {
    this.#receiver = receiver;
    this.#log = log;
    this.#timers = timers;
  }

  add(lines: number, reason: string): void {
    this.#dropped.set(reason, (this.#dropped.get(reason) ?? 0) + lines);
    if (this.#cancelTimer === undefined) this.#report();
  }

  close(): void {
    this.#cancelTimer?.();
    this.#write();
  }

  #report(): void {
    this.#cancelTimer = undefined;
    if (this.#dropped.size === 0) return;
    this.#write();
    this.#cancelTimer = this.#timers.after(INTERVAL_MS, () => this.#report());
  }

  #write(): void {
    if (this.#dropped.size === 0) return;
    const lines = [...this.#dropped.values()].reduce((sum, each) => sum + each, 0);
    this.#log.warn({ lines, reasons: Object.fromEntries(this.#dropped), receiver: this.#receiver }, 'log lines were not forwarded');
    this.#dropped.clear();
  }
}
