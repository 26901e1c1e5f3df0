/** The last lines that a program printed, and the line that names its error: why it ended, for whoever deployed it. */

const MAX_LINES = 5;
/** Characters. */
const MAX_LINE = 300;

/**
 * The head of an error: `ModuleNotFoundError: …` of Python, `Error [ERR_MODULE_NOT_FOUND]: …` of Node, `panic: …` of Go, `thread 'main'
 * panicked at …` of Rust, `Exception in thread …` of Java. Node prints many lines of its stack after it.
 */
const ERROR_LINE =
  /^(?:(?:Uncaught )?[\w$.]*(?:Error|Exception|Interrupt|Exit)(?: \[[A-Z0-9_]+\])?: \S|panic: |fatal(?: error)?: |error: |thread '[^']*' (?:\(\d+\) )?panicked|Exception in thread )/;

export class LastOutput {
  readonly #lines: string[] = [];
  #error = '';

  keep(text: string): void {
    if (text.trim() === '') return;
    const line = text.length > MAX_LINE ? `${text.slice(0, MAX_LINE)}…` : text;
    if (ERROR_LINE.test(line)) this.#error = line;
    this.#lines.push(line);
    if (this.#lines.length > MAX_LINES) this.#lines.shift();
  }

  /** Returns the error's own line, if the last lines lack it, and the last lines, as an addition to a sentence. */
  describe(): string {
    if (this.#lines.length === 0) return '; it printed nothing';
    const error = this.#error === '' || this.#lines.includes(this.#error) ? '' : `: ${this.#error.trim()}`;
    return `${error}; its last output: ${this.#lines.join(' | ')}`;
  }
}
