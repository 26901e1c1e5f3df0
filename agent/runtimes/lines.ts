/** Splits text from a pipe into lines. */
import { StringDecoder } from 'node:string_decoder';

/** Longer lines are cut into several, characters. */
export const MAX_LINE = 16_384;

export class LineSplitter {
  readonly #onLine: (line: string) => void;
  readonly #decoder = new StringDecoder('utf8');
  #rest = '';
  #isStopped = false;

  constructor(onLine: (line: string) => void) {
    this.#onLine = onLine;
  }

  /** Drops what follows, also the rest of the data that is being split. */
  stop(): void {
    this.#isStopped = true;
    this.#rest = '';
  }

  push(data: Buffer): void {
    if (this.#isStopped) return;
    const text = this.#rest + this.#decoder.write(data);
    let from = 0;
    for (let end = text.indexOf('\n'); end !== -1; end = text.indexOf('\n', from)) {
      this.#onLine(text.slice(from, end));
      if (this.#isStopped) return;
      from = end + 1;
    }
    this.#rest = text.slice(from);
    if (this.#rest.length > MAX_LINE) this.end();
  }

  /** The last line may lack its line end. */
  end(): void {
    if (this.#rest !== '') this.#onLine(this.#rest);
    this.#rest = '';
  }
}
