/** The streams of one worker: read within the share of its account, once it has one. */
import type { ReadingShare } from './reading-shares.ts';

type Source = NodeJS.ReadableStream;

export class WorkerStreams {
  readonly #sources = new Set<Source>();
  #share: ReadingShare | undefined;

  /** `share`: absent for a spare, which runs nothing of a tenant. */
  constructor(share?: ReadingShare) {
    this.#share = share;
  }

  /** From now on the worker's bytes count for an account. */
  within(share: ReadingShare | undefined): void {
    this.#share = share;
    for (const source of this.#sources) share?.add(source);
  }

  /** Its processes are gone: what is left is read, whatever its account holds. */
  finish(): void {
    for (const source of this.#sources) {
      this.#share?.delete(source);
      source.resume();
    }
    this.#share = undefined;
  }

  /** Reads a stream to its end. */
  read(source: Source, onData: (data: Buffer) => void): void {
    this.#sources.add(source);
    source.on('data', (data: Buffer) => {
      if (this.#share === undefined) onData(data);
      else this.#share.handle(() => onData(data));
    });
    this.#share?.add(source);
    source.once('close', () => {
      this.#sources.delete(source);
      this.#share?.delete(source);
    });
  }
}
