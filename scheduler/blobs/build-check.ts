/**
 * Checks builds against the digest in their name: before they are used again for another deployment, and while a node reads
 * them. A damaged build counts as missing, so that the next deployment uploads it again and replaces it.
 */
import { createHash, type Hash } from 'node:crypto';

import { CapstanError } from '../../lib/errors.ts';
import type { BlobStore } from './blob-store.ts';
import type { ReadableBlob } from './file-store.ts';
import { buildId } from './ids.ts';

/** A caller may give up on a check that takes longer, and asks again: an intact build stays so for a while, ms. */
const LONG_CHECK_MS = 5_000;
const KEPT_MS = 60_000;

export class BuildCheck {
  readonly #store: BlobStore;
  readonly #onDamage: (error: CapstanError) => void;
  /** Checks that are under way, or took long, by digest. */
  readonly #checks = new Map<string, Promise<boolean>>();
  /** One at a time: they read whole builds. */
  #queue: Promise<unknown> = Promise.resolve();

  constructor(store: BlobStore, onDamage: (error: CapstanError) => void) {
    this.#store = store;
    this.#onDamage = onDamage;
  }

  /** Returns the length of an intact build, bytes, which counts as put now; null if it is missing or damaged. */
  async hold(digest: string): Promise<number | null> {
    const size = await this.#store.hold(buildId(digest));
    return size !== null && (await this.#isIntact(digest)) ? size : null;
  }

  /** Opens a build. Its reader fails with BUILD_DAMAGED at the end of other bytes. */
  async get(digest: string): Promise<ReadableBlob> {
    return checkedBuild(digest, await this.#store.get(buildId(digest)), this.#onDamage);
  }

  #isIntact(digest: string): Promise<boolean> {
    const known = this.#checks.get(digest);
    if (known !== undefined) return known;
    const check = this.#queue.then(() => this.#read(digest));
    this.#queue = check.catch(() => undefined);
    const begun = performance.now();
    this.#checks.set(digest, check);
    const forget = (): unknown => this.#checks.delete(digest);
    check.then((isOk) => {
      if (isOk && performance.now() - begun >= LONG_CHECK_MS) setTimeout(forget, KEPT_MS).unref();
      else forget();
    }, forget);
    return check;
  }

  async #read(digest: string): Promise<boolean> {
    try {
      return await isIntact(await this.get(digest));
    } catch (error) {
      if (error instanceof CapstanError && error.code === 'NOT_FOUND') return false;
      throw error;
    }
  }
}

/** Reads a build that {@link checkedBuild} has opened. Returns false for one that is damaged. */
async function isIntact(blob: ReadableBlob): Promise<boolean> {
  try {
    for await (const _ of blob.pieces);
    return true;
  } catch (error) {
    if (error instanceof CapstanError && error.code === 'BUILD_DAMAGED') return false;
    throw error;
  } finally {
    blob.close();
  }
}

/** Returns whether the bytes of an open build are those of its digest. Reads and closes it. */
export function isIntactBuild(digest: string, blob: ReadableBlob): Promise<boolean> {
  return isIntact(checkedBuild(digest, blob, () => undefined));
}

function checkedBuild(digest: string, blob: ReadableBlob, onDamage: (error: CapstanError) => void): ReadableBlob {
  return { size: blob.size, pieces: checkedPieces(digest, blob, onDamage), close: () => blob.close() };
}

async function* checkedPieces(
  digest: string,
  { size, pieces }: ReadableBlob,
  onDamage: (error: CapstanError) => void,
): AsyncGenerator<Buffer> {
  const hash = createHash('sha256');
  let received = 0;
  try {
    for await (const piece of pieces) {
      hash.update(piece);
      received += piece.length;
      yield piece;
    }
  } catch (error) {
    // The storage compares digests itself, of what it sent.
    if (received !== size || isRight(hash, digest)) throw error;
  }
  if (isRight(hash, digest)) return;
  const error = new CapstanError('BUILD_DAMAGED', `build ${digest} is damaged in the artifact store: its bytes do not match this digest`);
  onDamage(error);
  throw error;
}

function isRight(hash: Hash, digest: string): boolean {
  return hash.copy().digest('hex') === digest;
}
