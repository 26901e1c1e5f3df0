/** The output of a worker's processes on their pipes: lines, limited before they are split. */
import { StringDecoder } from 'node:string_decoder';

import { LineAssembler } from './line-assembler.ts';
import { OutputLimiter, type OutputStream } from './output-limiter.ts';

export class WorkerOutput {
  readonly #limiter: OutputLimiter;
  readonly #assembler: LineAssembler;
  readonly #decoders = { stdout: new StringDecoder('utf8'), stderr: new StringDecoder('utf8') };

  constructor(onLine: (stream: OutputStream, text: string) => void) {
    this.#limiter = new OutputLimiter((stream, _jobId, text) => {
      for (const line of text.slice(0, -1).split('\n')) onLine(stream, line);
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
