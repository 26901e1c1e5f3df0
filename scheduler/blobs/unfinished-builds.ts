/**
 * Builds that are being sent in several parts: one file for each sender and digest, to which parts are added at
 * its end. What a broken connection brought stays, so that the sender goes on from there, also at a scheduler that
 * started again meanwhile. The digest is checked once all is there; before that nobody sees the bytes, so they
 * need not be synced: a machine that stops in between costs no more than another try.
 *
 * Of two connections that add to one file the newer one wins: the older one is what a sender that came back has
 * left, and nothing says that it ever ends.
 */
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { open, readdir, stat, unlink } from 'node:fs/promises';
import { basename, join } from 'node:path';

import { CapstanError } from '../../lib/errors.ts';
import { isErrno } from '../../lib/to-error.ts';
import { makeFolder } from '../files/durable.ts';
import { asRefusal, writeWhole, type StoredBlob } from './file-store.ts';
import { checkDigest, MAX_BUILD_BYTES } from './ids.ts';

const READ_BYTES = 1024 * 1024;

export interface UnfinishedBuild {
  /** Whose upload it is: nobody can spoil that of another account. */
  readonly owner: string;
  /** SHA-256 of the whole, hex. */
  readonly digest: string;
  /** Bytes of the whole. */
  readonly size: number;
}

interface Writer {
  /** Settles when the write under way is done. */
  writing: Promise<void>;
}

/** Where a part of a build begins, and how many bytes the whole has. */
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

  /** Opens the folder, which is made when it is missing. */
  static async open(root: string): Promise<UnfinishedBuilds> {
    await makeFolder(root, 0o700);
    const builds = new UnfinishedBuilds(root);
    for (const name of await readdir(root)) builds.#note(name, await sizeOf(join(root, name)));
    return builds;
  }

  /** Bytes of the sender's unfinished builds, by digest. */
  heldBy(owner: string): ReadonlyMap<string, number> {
    return this.#held.get(senderName(owner)) ?? new Map();
  }

  /** Bytes that have come so far. */
  async received(owner: string, digest: string): Promise<number> {
    return sizeOf(this.#path(owner, digest));
  }

  /**
   * Adds a part and gives the bytes that are there then, also when the source breaks off: they stay.
   * @throws CapstanError CONFLICT when the part does not begin where the bytes end, INVALID_ARGUMENT when it goes
   * beyond the size, UNAVAILABLE when the disk is full or a newer connection took over.
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
      throw asRefusal(error);
    } finally {
      if (this.#writers.get(path) === writer) this.#writers.delete(path);
    }
  }

  /**
   * Hands over the file of a build that has come whole, checked and synced; who takes it moves it away. A sender that
   * lost its connection meanwhile and asks again gets the same answer.
   * @throws CapstanError INVALID_ARGUMENT when the bytes are not those of the digest; they are dropped then.
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

  /** Removes what got no byte for `ageMs`; how many. */
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
      throw new CapstanError('CONFLICT', `offset: the next part must begin at byte ${there}, not ${offset}`, { field: 'offset' });
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

  /** Counts a file of this name; null when it is not there any more. */
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
