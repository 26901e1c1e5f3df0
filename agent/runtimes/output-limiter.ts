/**
 * Limits the cost of a worker's output. Output shares the channel with results, and each line is work for the agent:
 * 100 MB of it would delay the job's own result, and those of other workers, for many seconds.
 *
 * Text is sent immediately while its budget lasts: a burst, then a rate per second. Beyond the budget only the newest
 * text is kept; it is sent as the budget recovers, or with `flush` at the end of its job. An extra line counts what was
 * dropped.
 */
export type OutputStream = 'stdout' | 'stderr';

export type SendOutput = (stream: OutputStream, jobId: string, text: string) => void;

/** Burst, characters. */
export const OUTPUT_BURST = 1024 * 1024;
/** Rate after the burst, characters per second. */
export const OUTPUT_PER_SECOND = 1024 * 1024;
/** Newest characters kept beyond the budget. */
export const OUTPUT_KEPT = 256 * 1024;
/** The end of a job's output, characters: kept however much was printed before. */
const TAIL = 16 * 1024;
/** Longest piece that text is collected into, characters. */
const MAX_PIECE = 16 * 1024;
const LOOK_MS = 250;

interface Piece {
  readonly stream: OutputStream;
  readonly jobId: string;
  text: string;
}

export class OutputLimiter {
  readonly #send: SendOutput;
  /** Monotonic, ms. */
  readonly #now: () => number;
  #budget = OUTPUT_BURST;
  #filledAt: number;
  #pieces: Piece[] = [];
  #kept = 0;
  #leftOut = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(send: SendOutput, now: () => number = () => performance.now()) {
    this.#send = send;
    this.#now = now;
    this.#filledAt = now();
  }

  /** Adds whole lines, or a piece of a long one. */
  add(stream: OutputStream, jobId: string, text: string): void {
    if (this.#pieces.length === 0 && this.#take(text.length)) {
      this.#send(stream, jobId, text);
      return;
    }
    const last = this.#pieces.at(-1);
    if (last?.stream === stream && last.jobId === jobId && last.text.length + text.length <= MAX_PIECE) last.text += text;
    else this.#pieces.push({ stream, jobId, text });
    this.#kept += text.length;
    if (this.#kept > 2 * OUTPUT_KEPT) this.#keep(OUTPUT_KEPT);
    this.#timer ??= setTimeout(() => this.#look(), LOOK_MS).unref();
  }

  /** Sends the waiting text; of a flood only its end. */
  flush(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#pieces.length === 0) return;
    this.#refill();
    this.#keep(Math.max(TAIL, Math.min(OUTPUT_KEPT, OUTPUT_KEPT + this.#budget)));
    this.#budget -= this.#kept;
    for (const piece of this.#pieces.splice(0)) this.#leave(piece);
    this.#kept = 0;
  }

  #look(): void {
    this.#timer = undefined;
    this.#keep(OUTPUT_KEPT);
    let sent = 0;
    for (const piece of this.#pieces) {
      if (!this.#take(piece.text.length)) break;
      this.#leave(piece);
      this.#kept -= piece.text.length;
      sent += 1;
    }
    this.#pieces.splice(0, sent);
    if (this.#pieces.length > 0) this.#timer = setTimeout(() => this.#look(), LOOK_MS).unref();
  }

  #leave({ stream, jobId, text }: Piece): void {
    if (this.#leftOut > 0) {
      this.#send(stream, jobId, `(${this.#leftOut} characters of output are omitted: too much was printed at once)\n`);
      this.#leftOut = 0;
    }
    this.#send(stream, jobId, text);
  }

  /** Drops the oldest pieces. */
  #keep(characters: number): void {
    let gone = 0;
    while (this.#kept > characters && gone < this.#pieces.length - 1) {
      const { length } = this.#pieces[gone]?.text ?? '';
      this.#kept -= length;
      this.#leftOut += length;
      gone += 1;
    }
    this.#pieces.splice(0, gone);
  }

  #take(characters: number): boolean {
    if (this.#budget < characters) this.#refill();
    if (this.#budget < characters) return false;
    this.#budget -= characters;
    return true;
  }

  #refill(): void {
    const now = this.#now();
    this.#budget = Math.min(OUTPUT_BURST, this.#budget + ((now - this.#filledAt) * OUTPUT_PER_SECOND) / 1_000);
    this.#filledAt = now;
  }
}
