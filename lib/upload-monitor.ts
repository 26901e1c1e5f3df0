/**
 * Detects slow uploads: in every window of time in which the receiver is ready to read, a minimum number of bytes must
 * arrive. Otherwise a caller could hold a connection and the memory of its body by sending a byte from time to time.
 */

export interface UploadRule {
  /** Minimum bytes per window. */
  readonly minBytes: number;
  /** Length of a window, ms. */
  readonly windowMs: number;
  /** Monotonic clock, ms. */
  readonly now: () => number;
}

/** Checks per window. */
const CHECKS = 4;

export class UploadMonitor {
  readonly #rule: UploadRule;
  readonly #meters = new Set<UploadMeter>();
  #timer: NodeJS.Timeout | undefined;

  constructor(rule: UploadRule) {
    this.#rule = rule;
  }

  /** Starts to measure an upload. `onSlow` is called at most once; the measurement has ended then. */
  watch(onSlow: () => void): UploadMeter {
    const meter = new UploadMeter(this.#rule, onSlow, this.#meters);
    this.#meters.add(meter);
    this.#timer ??= setInterval(() => {
      // Reads the sockets once more before it decides: bytes that wait for a busy process have arrived in time.
      setImmediate(() => this.#check());
    }, this.#rule.windowMs / CHECKS).unref();
    return meter;
  }

  /** The timer outlives short uploads: starting one for each would cost more than the upload. */
  #check(): void {
    for (const meter of this.#meters) meter.check();
    if (this.#meters.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }
}

export class UploadMeter {
  readonly #rule: UploadRule;
  readonly #onSlow: () => void;
  readonly #open: Set<UploadMeter>;
  #bytes = 0;
  #windowStart: number;
  #pausedAt: number | undefined;

  /** Created by `UploadMonitor.watch`. */
  constructor(rule: UploadRule, onSlow: () => void, open: Set<UploadMeter>) {
    this.#rule = rule;
    this.#onSlow = onSlow;
    this.#open = open;
    this.#windowStart = rule.now();
  }

  count(bytes: number): void {
    this.#bytes += bytes;
  }

  /** The receiver does not read: the sender's time is suspended. */
  pause(): void {
    this.#pausedAt ??= this.#rule.now();
  }

  resume(): void {
    if (this.#pausedAt === undefined) return;
    this.#windowStart += this.#rule.now() - this.#pausedAt;
    this.#pausedAt = undefined;
  }

  end(): void {
    this.#open.delete(this);
  }

  /** Called by the monitor. */
  check(): void {
    const now = this.#rule.now();
    if (this.#pausedAt !== undefined || now - this.#windowStart < this.#rule.windowMs) return;
    if (this.#bytes < this.#rule.minBytes) {
      this.end();
      this.#onSlow();
      return;
    }
    this.#bytes = 0;
    this.#windowStart = now;
  }
}
