/** Splits text from a pipe into lines. */
import { StringDecoder } from 'node:string_decoder';

/** Longer lines are truncated, characters. */
const MAX_LINE = 16_384;

export class LineSplitter {
  readonly #onLine: (line: string) => void;
  readonly #decoder = new StringDecoder('utf8');
  #rest = '';

  constructor(onLine: (line: string) => void) {
    this.#onLine = onLine;
  }

  push(data: Buffer): void {
    const lines = (this.#rest + this.#decoder.write(data)).split('\n');
    this.#rest = lines.pop() ?? '';
    for (const line of lines) this.#onLine(line);
    if (this.#rest.length > MAX_LINE) this.end();
  }

  /** The last line may lack its line end. */
  end(): void {
    if (this.#rest !== '') this.#onLine(this.#rest);
    this.#rest = '';
  }
}
