/**
 * Builds sent in several parts: one file per sender and digest, to which parts are appended. The bytes of a broken
 * connection stay, so that the sender can continue, also after a restart of the scheduler. The digest is checked when
 * all bytes have arrived. Nobody reads the bytes before that, so they are not synced: a crash of the machine costs only
 * another upload.
 *
 * Of two connections that append to one file the newer one wins: the older one is left over from a sender that
 * reconnected, and may never end.
 */
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { open, readdir, stat, unlink } from 'node:fs/promises';
import { basename, join } from 'node:path';

import { makeFolder } from '../../lib/durable.ts';
import { CapstanError } from '../../lib/errors.ts';
import { isErrno } from '../../lib/to-error.ts';
import { writeWhole } from './blob-file.ts';
import { asRefusal, type StoredBlob } from './file-store.ts';
import { checkDigest, MAX_BUILD_BYTES } from './ids.ts';

const READ_BYTES = 1024 * 1024;

export interface UnfinishedBuild {
  /** Owner of the upload. No account can corrupt the upload of another one. */
  readonly owner: string;
  /** SHA-256 of the whole build, hex. */
  readonly digest: string;
  /** Bytes of the whole build. */
  readonly size: number;
}

interface Writer {
  /** Settles when the current write has ended. */
  writing: Promise<void>;
}

/** Offset of a part of a build, and the bytes of the whole build. */
interface Part {
  readonly size: number;
  readonly offset: number;
}

export class UnfinishedBuilds {
  readonly #root: string;
  /** The newest writer of each file. */
  readonly #writers = new Map<string, Writer>();

  /** Bytes of each file, by sender and digest. */
  readonly #held = new Map<string, Map<string, number>>();

  readonly #finishing = new Map<string, Promise<StoredBlob>>();

  private constructor(root: string) {
    this.#root = root;
  }

  /** Opens the folder and creates it if missing. */
  static async open(root: string): Promise<UnfinishedBuilds> {
    await makeFolder(root, 0o700);
    const builds = new UnfinishedBuilds(root);
    for (const name of await readdir(root)) builds.#note(name, await sizeOf(join(root, name)));
    return builds;
  }

  /** Returns the bytes of the sender's unfinished builds, by digest. */
  heldBy(owner: string): ReadonlyMap<string, number> {
    return this.#held.get(senderName(owner)) ?? new Map();
  }

  /** Returns the bytes received so far. */
  async received(owner: string, digest: string): Promise<number> {
    return sizeOf(this.#path(owner, digest));
  }

  /**
   * Appends a part. Returns the bytes stored then, also if the source fails midway: they are kept.
   * @throws CapstanError CONFLICT if the part does not begin where the bytes end, INVALID_ARGUMENT if it goes beyond
   * the size (all bytes are then deleted), UNAVAILABLE if the disk is full or a newer connection took over.
   */
  async append(build: UnfinishedBuild, offset: number, source: AsyncIterable<Uint8Array>): Promise<number> {
    const { owner, digest, size } = build;
    checkSize(size);
    const path = this.#path(owner, digest);
    const writer: Writer = { writing: Promise.resolve() };
    const older = this.#writers.get(path);
    this.#writers.set(path, writer);
    try {
      await older?.writing;
      return await this.#write(path, writer, { size, offset }, source);
    } catch (error) {
      // A sender that contradicts itself does not continue.
      if (error instanceof CapstanError && error.code === 'INVALID_ARGUMENT' && this.#writers.get(path) === writer)
        await this.#remove(path);
      throw asRefusal(error);
    } finally {
      if (this.#writers.get(path) === writer) this.#writers.delete(path);
    }
  }

  /**
   * Passes the file of a complete build, checked and synced, to `take`, which moves it away. A sender that lost its
   * connection in the meantime and tries again gets the same result.
   * @throws CapstanError INVALID_ARGUMENT if the bytes do not match the digest; they are then deleted.
   */
  async finish({ owner, digest }: UnfinishedBuild, take: (file: string) => Promise<StoredBlob>): Promise<StoredBlob> {
    const path = this.#path(owner, digest);
    const underWay = this.#finishing.get(path);
    if (underWay !== undefined) return underWay;
    const finishing = this.#check(path, digest)
      .then(() => take(path))
      .then((stored) => {
        this.#note(basename(path), null);
        return stored;
      })
      .finally(() => this.#finishing.delete(path));
    this.#finishing.set(path, finishing);
    return finishing;
  }

  async #check(path: string, digest: string): Promise<void> {
    const file = await open(path, 'r');
    const hash = createHash('sha256');
    try {
      await file.sync();
      for await (const piece of createReadStream('', { fd: file, autoClose: false, highWaterMark: READ_BYTES }))
        hash.update(piece as Buffer);
    } finally {
      await file.close();
    }
    if (hash.digest('hex') === digest) return;
    await this.#remove(path);
    throw new CapstanError('INVALID_ARGUMENT', 'digest does not match the bytes sent', { field: 'digest' });
  }

  async discard(owner: string, digest: string): Promise<void> {
    await this.#remove(this.#path(owner, digest));
  }

  /** Removes builds that received no byte for `ageMs`. Returns their number. */
  async sweep(ageMs: number): Promise<number> {
    let removed = 0;
    for (const name of await readdir(this.#root)) {
      const path = join(this.#root, name);
      if (this.#writers.has(path)) continue;
      const found = await stat(path).catch(unlessGone);
      if (found === null || Date.now() - found.mtimeMs < ageMs) continue;
      await this.#remove(path);
      removed += 1;
    }
    return removed;
  }

  async #write(path: string, writer: Writer, { size, offset }: Part, source: AsyncIterable<Uint8Array>): Promise<number> {
    const there = await sizeOf(path);
    if (offset !== there)
      throw new CapstanError('CONFLICT', `offset: the next part must start at byte ${there}, not ${offset}`, { field: 'offset' });
    let received = there;
    const file = await open(path, 'a', 0o600);
    try {
      for await (const piece of source) {
        if (received + piece.length > size)
          throw new CapstanError('INVALID_ARGUMENT', `size is ${size}, but more bytes were sent`, { field: 'size' });
        if (this.#writers.get(path) !== writer)
          throw new CapstanError('UNAVAILABLE', 'another connection is continuing this upload', { retryAfterMs: 1_000 });
        writer.writing = writeWhole(file, piece);
        await writer.writing;
        received += piece.length;
      }
    } finally {
      this.#note(basename(path), await file.stat().then(({ size: bytes }) => bytes));
      await file.close();
    }
    return received;
  }

  async #remove(path: string): Promise<void> {
    await unlinkIfThere(path);
    this.#note(basename(path), null);
  }

  /** Records the bytes of a file; null if the file is gone. */
  #note(name: string, bytes: number | null): void {
    const [digest = '', sender = ''] = name.split('-');
    const held = this.#held.get(sender) ?? new Map<string, number>();
    if (bytes === null) held.delete(digest);
    else held.set(digest, bytes);
    if (held.size === 0) this.#held.delete(sender);
    else this.#held.set(sender, held);
  }

  #path(owner: string, digest: string): string {
    return join(this.#root, `${checkDigest(digest)}-${senderName(owner)}`);
  }
}

function senderName(owner: string): string {
  return createHash('sha256').update(owner).digest('hex').slice(0, 16);
}

function checkSize(size: number): void {
  if (!Number.isInteger(size) || size < 1) throw new CapstanError('INVALID_ARGUMENT', 'size must be at least 1', { field: 'size' });
  if (size > MAX_BUILD_BYTES)
    throw new CapstanError('PAYLOAD_TOO_LARGE', `size must be at most ${MAX_BUILD_BYTES} bytes for a build`, { field: 'size' });
}

async function sizeOf(path: string): Promise<number> {
  return (await stat(path).catch(unlessGone))?.size ?? 0;
}

async function unlinkIfThere(path: string): Promise<void> {
  await unlink(path).catch(unlessGone);
}

function unlessGone(error: unknown): null {
  if (isErrno(error, 'ENOENT')) return null;
  throw error;
}
