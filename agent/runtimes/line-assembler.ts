/**
 * Makes lines of the text that a worker prints. A line without its end is not held back: after a moment what there is
 * of it becomes a line, and what follows becomes the next one. Of states that overwrite each other by carriage returns,
 * as those of progress bars do, the last one remains.
 *
 *     nothing ──text──▶ pending ──line end──▶ nothing        the line
 *                          │
 *                          └──PENDING_MS──▶ shown            its text so far
 *     shown ──line end──▶ nothing                            no line: it was shown
 *     shown ──text──▶ pending                                the rest will be a line of its own
 */
import type { OutputStream } from './output-limiter.ts';

/** Receives whole lines, each with its line end. */
export type OnLines = (stream: OutputStream, jobId: string, text: string) => void;

/** How long a line may lack its end before it is shown, ms; and one whose state changes by carriage returns. */
export const PENDING_MS = 500;
export const STATE_MS = 1_000;
/** Longer lines are cut into several, characters. */
const MAX_LINE = 16_384;
/** Unfinished lines at once: a worker may print for many jobs that have ended. */
const MAX_PENDING = 200;
const RETURN = '\r';

interface Pending {
  readonly stream: OutputStream;
  readonly jobId: string;
  /** After the last line end, and after what was shown. */
  rest: string;
  /** The beginning of this line was shown. */
  isShown: boolean;
  timer: NodeJS.Timeout | undefined;
}

export class LineAssembler {
  readonly #onLines: OnLines;
  /** Unfinished lines, by stream and job. */
  readonly #pending = new Map<string, Pending>();

  constructor(onLines: OnLines) {
    this.#onLines = onLines;
  }

  push(stream: OutputStream, jobId: string, text: string): void {
    if (text === '') return;
    const key = `${stream} ${jobId}`;
    const line = this.#pending.get(key);
    const end = text.lastIndexOf('\n') + 1;
    if (line !== undefined) this.#extend(key, line, text, end);
    else {
      if (end > 0) this.#onLines(stream, jobId, lastStates(text.slice(0, end)));
      if (end < text.length) this.#begin(key, { stream, jobId, rest: text.slice(end), isShown: false, timer: undefined });
    }
  }

  /** Ends the unfinished lines of a job; of all jobs without one. */
  end(jobId?: string): void {
    for (const [key, line] of this.#pending) {
      if (jobId !== undefined && line.jobId !== jobId) continue;
      this.#pending.delete(key);
      this.#show(line);
    }
  }

  #begin(key: string, line: Pending): void {
    if (this.#pending.size >= MAX_PENDING) this.end();
    this.#pending.set(key, line);
    this.#await(line);
  }

  #extend(key: string, line: Pending, text: string, end: number): void {
    if (end > 0) {
      const first = text.indexOf('\n') + 1;
      const whole = line.rest + text.slice(0, first - 1);
      // The end of a line that was shown, or its CR LF, is no line of its own.
      const own = line.isShown && (whole === '' || whole === RETURN) ? '' : `${lastState(whole)}\n`;
      const lines = own + lastStates(text.slice(first, end));
      clearTimeout(line.timer);
      line.timer = undefined;
      line.rest = '';
      line.isShown = false;
      if (lines !== '') this.#onLines(line.stream, line.jobId, lines);
    }
    const more = text.slice(end);
    // Looking through the whole line for each of its characters would take quadratic time.
    line.rest = more.includes(RETURN) ? withoutFormerStates(line.rest + more) : line.rest + more;
    if (line.rest === '' && !line.isShown) this.#pending.delete(key);
    else this.#await(line);
  }

  #await(line: Pending): void {
    if (line.rest.length > MAX_LINE) this.#show(line);
    else if (line.rest !== '')
      line.timer ??= setTimeout(() => this.#show(line), line.rest.includes(RETURN) ? STATE_MS : PENDING_MS).unref();
  }

  #show(line: Pending): void {
    clearTimeout(line.timer);
    line.timer = undefined;
    const text = lastState(line.rest);
    line.rest = '';
    line.isShown = true;
    if (text !== '') this.#onLines(line.stream, line.jobId, `${text}\n`);
  }
}

function lastStates(lines: string): string {
  return lines.includes(RETURN) ? lines.split('\n').map(lastState).join('\n') : lines;
}

/** What a terminal would show of a line: the text after its last carriage return. */
function lastState(line: string): string {
  const end = line.endsWith(RETURN) ? line.length - 1 : line.length;
  return end === 0 ? '' : line.slice(line.lastIndexOf(RETURN, end - 1) + 1, end);
}

/** Drops states that the unfinished line has overwritten. */
function withoutFormerStates(rest: string): string {
  const end = rest.endsWith(RETURN) ? rest.length - 1 : rest.length;
  const at = end === 0 ? -1 : rest.lastIndexOf(RETURN, end - 1);
  return at <= 0 ? rest : rest.slice(at);
}
