/** Reads what builds hold, one at a time: a build is up to half a gigabyte, and the processor serves callers, too. */
import type { Metadata } from '@grpc/grpc-js';
import { LRUCache } from 'lru-cache';

import type { ArchiveContents } from '../../lib/archive-contents.ts';
import { CapstanError } from '../../lib/errors.ts';
import type { BuildUploads } from './builds.ts';
import type { OpenBlob } from './open-blob.ts';

/** Characters of names that are kept. */
const MAX_KEPT = 64_000_000;
/** Of a name: its digest and size. */
const OVERHEAD = 200;
const MAX_WAITING = 16;

export class BuildContents {
  readonly #known = new LRUCache<string, ArchiveContents>({ maxSize: MAX_KEPT, sizeCalculation: sizeOf });
  readonly #reading = new Map<string, Promise<ArchiveContents>>();
  #last: Promise<unknown> = Promise.resolve();

  /** @throws CapstanError NOT_FOUND where the caller's account does not own the build, INVALID_ARCHIVE, RATE_LIMITED. */
  async of(digest: string, builds: BuildUploads, metadata: Metadata): Promise<ArchiveContents> {
    // The store knows who may read it.
    const blob = await builds.open(digest, metadata);
    const known = this.#known.get(digest) ?? this.#reading.get(digest);
    if (known !== undefined) {
      blob.close();
      return known;
    }
    if (this.#reading.size >= MAX_WAITING) {
      blob.close();
      throw new CapstanError('RATE_LIMITED', 'the gateway already compares many builds', { retryAfterMs: 5_000 });
    }
    const reading = this.#last.then(() => this.#read(digest, blob)).finally(() => this.#reading.delete(digest));
    this.#reading.set(digest, reading);
    this.#last = reading.catch(() => undefined);
    return reading;
  }

  async #read(digest: string, { frames }: OpenBlob): Promise<ArchiveContents> {
    const { archiveContents } = await import('../../lib/archive-contents.ts');
    const contents = await archiveContents(frames);
    this.#known.set(digest, contents);
    return contents;
  }
}

function sizeOf({ files, packages }: ArchiveContents): number {
  return [...Object.keys(files), ...Object.keys(packages)].reduce((sum, name) => sum + OVERHEAD + name.length, OVERHEAD);
}
