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
    const meter: UploadMeter = new UploadMeter(this.#rule, onSlow, () => this.#end(meter));
    this.#meters.add(meter);
    this.#timer ??= setInterval(() => {
      // Reads the sockets once more before it decides: bytes that wait for a busy process have arrived in time.
      setImmediate(() => this.#check());
    }, this.#rule.windowMs / CHECKS).unref();
    return meter;
  }

  #end(meter: UploadMeter): void {
    this.#meters.delete(meter);
    if (this.#meters.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  #check(): void {
    for (const meter of this.#meters) meter.check();
  }
}

export class UploadMeter {
  readonly #rule: UploadRule;
  readonly #onSlow: () => void;
  readonly #onEnd: () => void;
  #bytes = 0;
  #windowStart: number;
  #pausedAt: number | undefined;

  /** Created by `UploadMonitor.watch`. */
  constructor(rule: UploadRule, onSlow: () => void, onEnd: () => void) {
    this.#rule = rule;
    this.#onSlow = onSlow;
    this.#onEnd = onEnd;
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
    this.#onEnd();
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
