/**
 * Limits the cost of a worker's output. Output shares the channel with results, and each line is work for the agent:
 * 100 MB of it would delay the job's own result, and those of other workers, for many seconds.
 *
 * Text is sent immediately while its budget lasts: a burst, then a rate per second. Beyond the budget only the newest
 * text is kept; it is sent as the budget recovers, or with `flush` at the end of its job. An extra line counts what was
 * dropped.
 *
 * Lines cost as well as characters: an empty line is as much work as a short one.
 */
import { OutputBudget, type OutputRate } from './output-budget.ts';

export type OutputStream = 'stdout' | 'stderr';

export type SendOutput = (stream: OutputStream, jobId: string, text: string) => void;

/** Cost of a line beside its characters. */
export const LINE_COST = 64;
/**
 * The same of the budget of several workers: together they may print the characters of several, and the lines of one. A line is
 * stored by itself, which costs the agent as much as some hundred characters.
 */
const SHARED_LINE_COST = 4 * LINE_COST;
/** Burst, characters and costs of lines. */
export const OUTPUT_BURST = 1024 * 1024;
/** Rate after the burst, the same per second. */
export const OUTPUT_PER_SECOND = 1024 * 1024;
/** Newest text kept beyond the budget, the same. */
export const OUTPUT_KEPT = 256 * 1024;
/** The end of a job's output, the same: kept however much was printed before. */
const TAIL = 16 * 1024;
/** Longest piece that text is collected into, characters. */
const MAX_PIECE = 16 * 1024;
const LOOK_MS = 250;

interface Piece {
  readonly stream: OutputStream;
  readonly jobId: string;
  text: string;
  cost: number;
  /** Of the shared budget. */
  sharedCost: number;
}

export interface OutputLimits extends OutputRate {
  /** Cost of a piece beside its characters and lines; default: 0. */
  readonly perPiece?: number;
  /** A budget beside its own one: what is sent uses both. */
  readonly shared?: OutputBudget;
}

const OWN_LIMITS: OutputLimits = { burst: OUTPUT_BURST, perSecond: OUTPUT_PER_SECOND };

export class OutputLimiter {
  readonly #send: SendOutput;
  readonly #budget: OutputBudget;
  readonly #shared: OutputBudget | undefined;
  readonly #perPiece: number;
  #pieces: Piece[] = [];
  #kept = 0;
  #leftOut = 0;
  #timer: NodeJS.Timeout | undefined;

  /** `now`: monotonic, ms. */
  constructor(send: SendOutput, now: () => number = () => performance.now(), { perPiece = 0, shared, ...rate } = OWN_LIMITS) {
    this.#send = send;
    this.#budget = new OutputBudget(rate, now);
    this.#shared = shared;
    this.#perPiece = perPiece;
  }

  /** Adds whole lines, or a piece of a long one. */
  add(stream: OutputStream, jobId: string, text: string): void {
    const { cost, sharedCost } = this.#costsOf(text);
    if (this.#pieces.length === 0 && this.#take(cost, sharedCost)) {
      this.#send(stream, jobId, text);
      return;
    }
    if (cost > OUTPUT_KEPT) {
      const kept = tailOf(text, OUTPUT_KEPT);
      this.#leftOut += text.length - kept.length;
      this.#keepPiece({ stream, jobId, text: kept, ...this.#costsOf(kept) });
    } else this.#keepPiece({ stream, jobId, text, cost, sharedCost });
    if (this.#kept > 2 * OUTPUT_KEPT) this.#keep(OUTPUT_KEPT);
    this.#timer ??= setTimeout(() => this.#look(), LOOK_MS).unref();
  }

  #costsOf(text: string): { readonly cost: number; readonly sharedCost: number } {
    const lines = linesIn(text);
    const cost = text.length + this.#perPiece;
    return { cost: cost + LINE_COST * lines, sharedCost: cost + SHARED_LINE_COST * lines };
  }

  #keepPiece(piece: Piece): void {
    const { stream, jobId, text, cost, sharedCost } = piece;
    const last = this.#pieces.at(-1);
    if (last?.stream === stream && last.jobId === jobId && last.cost + cost <= MAX_PIECE) {
      last.text += text;
      last.cost += cost;
      last.sharedCost += sharedCost;
    } else this.#pieces.push(piece);
    this.#kept += cost;
  }

  /** Sends the waiting text; of a flood only its end. */
  flush(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#pieces.length === 0) return;
    const left = Math.min(this.#budget.left, this.#shared?.left ?? 0);
    this.#keep(Math.max(TAIL, Math.min(OUTPUT_KEPT, OUTPUT_KEPT + left)));
    this.#use(
      this.#kept,
      this.#pieces.reduce((sum, { sharedCost }) => sum + sharedCost, 0),
    );
    for (const piece of this.#pieces.splice(0)) this.#leave(piece);
    this.#kept = 0;
  }

  #look(): void {
    this.#timer = undefined;
    this.#keep(OUTPUT_KEPT);
    let sent = 0;
    for (const piece of this.#pieces) {
      if (!this.#take(piece.cost, piece.sharedCost)) break;
      this.#leave(piece);
      this.#kept -= piece.cost;
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
  #keep(most: number): void {
    let gone = 0;
    while (this.#kept > most && gone < this.#pieces.length - 1) {
      const { text, cost } = this.#pieces[gone] ?? { text: '', cost: 0 };
      this.#kept -= cost;
      this.#leftOut += text.length;
      gone += 1;
    }
    this.#pieces.splice(0, gone);
  }

  #take(cost: number, sharedCost: number): boolean {
    if (!this.#budget.has(cost) || this.#shared?.has(sharedCost) === false) return false;
    this.#use(cost, sharedCost);
    return true;
  }

  #use(cost: number, sharedCost: number): void {
    this.#budget.use(cost);
    this.#shared?.use(sharedCost);
  }
}

const LINE_END = 10;

function linesIn(text: string): number {
  let lines = 0;
  for (let at = 0; at < text.length; at += 1) if (text.charCodeAt(at) === LINE_END) lines += 1;
  return lines;
}

/** Returns the last lines that cost at most `most`; of one longer line its end. */
function tailOf(text: string, most: number): string {
  let left = most;
  let from = text.length;
  while (from > 0) {
    left -= text.charCodeAt(from - 1) === LINE_END ? LINE_COST + 1 : 1;
    if (left < 0) break;
    from -= 1;
  }
  const line = text.indexOf('\n', from) + 1;
  return text.slice(from > 0 && line > 0 && line < text.length ? line : from);
}
