/** The streams of one worker: read within the share of its account, once it has one. */
import { Socket } from 'node:net';

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

  /**
   * Reads a stream to its end. `onData` keeps no reference to the bytes: those of a socket are gone when it has returned. What it
   * keeps of an incomplete frame is `kept`, bytes.
   */
  read(source: Source, onData: (data: Buffer) => void, kept = (): number => 0): void {
    this.#sources.add(source);
    source.on('data', (data: Buffer) => {
      if (this.#share === undefined) onData(data);
      else {
        this.#share.handle(() => onData(data));
        this.#share.keep(source, kept());
      }
      if (source instanceof Socket) free(data);
    });
    this.#share?.add(source);
    source.once('close', () => {
      this.#sources.delete(source);
      this.#share?.delete(source);
    });
  }
}

/**
 * Returns the memory of a read at once. A socket reads into buffers of 64 KiB, of which a flood leaves a thousand a second; left to
 * the collector they made the agent grow by tens of MiB.
 */
function free({ buffer, byteLength }: Buffer): void {
  // A piece of a longer buffer has neighbours in it.
  if (buffer instanceof ArrayBuffer && buffer.byteLength === byteLength) buffer.transfer(0);
}
