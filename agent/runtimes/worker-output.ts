/** The output of a worker's processes on their pipes, split into lines and limited. */
import { LineSplitter } from './lines.ts';
import { OutputLimiter, type OutputStream } from './output-limiter.ts';

export class WorkerOutput {
  readonly #limiter: OutputLimiter;
  readonly #lines: Readonly<Record<OutputStream, LineSplitter>>;

  constructor(onLine: (stream: OutputStream, text: string) => void) {
    this.#limiter = new OutputLimiter((stream, _jobId, text) => {
      for (const line of text.slice(0, -1).split('\n')) onLine(stream, line);
    });
    const splitter = (stream: OutputStream): LineSplitter => new LineSplitter((line) => this.#limiter.add(stream, '', `${line}\n`));
    this.#lines = { stdout: splitter('stdout'), stderr: splitter('stderr') };
  }

  push(stream: OutputStream, data: Buffer): void {
    this.#lines[stream].push(data);
  }

  /** The stream has ended; the last line may lack its line end. */
  end(stream: OutputStream): void {
    this.#lines[stream].end();
    this.#limiter.flush();
  }
}
