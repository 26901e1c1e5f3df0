/** The output of a worker's processes on their pipes: whole lines, limited before they are split. */
import { StringDecoder } from 'node:string_decoder';

import { MAX_LINE } from './lines.ts';
import { OutputLimiter, type OutputStream } from './output-limiter.ts';

interface Source {
  readonly decoder: StringDecoder;
  /** The unfinished line. */
  rest: string;
}

export class WorkerOutput {
  readonly #limiter: OutputLimiter;
  readonly #sources: Readonly<Record<OutputStream, Source>> = { stdout: newSource(), stderr: newSource() };

  constructor(onLine: (stream: OutputStream, text: string) => void) {
    this.#limiter = new OutputLimiter((stream, _jobId, text) => {
      for (const line of text.slice(0, -1).split('\n')) onLine(stream, line);
    });
  }

  push(stream: OutputStream, data: Buffer): void {
    const source = this.#sources[stream];
    const text = source.rest + source.decoder.write(data);
    const end = text.lastIndexOf('\n') + 1;
    if (end > 0) this.#limiter.add(stream, '', text.slice(0, end));
    source.rest = text.slice(end);
    if (source.rest.length > MAX_LINE) this.#endLine(stream);
  }

  /** The stream has ended; the last line may lack its line end. */
  end(stream: OutputStream): void {
    this.#endLine(stream);
    this.#limiter.flush();
  }

  #endLine(stream: OutputStream): void {
    const source = this.#sources[stream];
    if (source.rest !== '') this.#limiter.add(stream, '', `${source.rest}\n`);
    source.rest = '';
  }
}

function newSource(): Source {
  return { decoder: new StringDecoder('utf8'), rest: '' };
}
