/** The output of a worker's processes on their pipes: lines, limited before they are split. */
import { StringDecoder } from 'node:string_decoder';

import { LineAssembler } from './line-assembler.ts';
import type { OutputBudget } from './output-budget.ts';
import { OUTPUT_BURST, OUTPUT_PER_SECOND, OutputLimiter, type OutputStream } from './output-limiter.ts';

export class WorkerOutput {
  readonly #limiter: OutputLimiter;
  readonly #assembler: LineAssembler;
  readonly #decoders = { stdout: new StringDecoder('utf8'), stderr: new StringDecoder('utf8') };

  /** `onLines` receives whole lines, each with its line end. `shared`: what several workers may print together. */
  constructor(onLines: (stream: OutputStream, text: string) => void, shared?: OutputBudget) {
    this.#limiter = new OutputLimiter((stream, _jobId, text) => onLines(stream, text), undefined, {
      burst: OUTPUT_BURST,
      perSecond: OUTPUT_PER_SECOND,
      ...(shared === undefined ? {} : { shared }),
    });
    this.#assembler = new LineAssembler((stream, jobId, lines) => this.#limiter.add(stream, jobId, lines));
  }

  push(stream: OutputStream, data: Buffer): void {
    this.#assembler.push(stream, '', this.#decoders[stream].write(data));
  }

  /** The stream has ended; the last line may lack its line end. */
  end(stream: OutputStream): void {
    this.#assembler.push(stream, '', this.#decoders[stream].end());
    this.#assembler.end();
    this.#limiter.flush();
  }
}

/** The lines of a text in which each has its line end. */
export function linesOf(text: string): string[] {
  return text.slice(0, -1).split('\n');
}
