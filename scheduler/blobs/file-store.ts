/**
 * Stores blobs as files of one folder: `build/<xx>/<digest>`, `body/<xx>/<id>`, and `incoming/` for incomplete blobs. A
 * blob gets its name by a rename after its bytes were checked and synced. Every named blob is therefore complete. A body is
 * checked against the digest in its name before its first byte is returned. Files in
 * `incoming` that nobody writes any more are deleted: at a start, or by their age where several schedulers share the folder.
 */
import { createHash, randomBytes } from 'node:crypto';
import { createReadStream, type Stats } from 'node:fs';
import { open, opendir, readdir, stat, unlink, utimes, type FileHandle } from 'node:fs/promises';
import { dirname, join } from 'node:path';

import { createSynced, makeFolder, renameDurably, syncPath } from '../../lib/durable.ts';
import { CapstanError } from '../../lib/errors.ts';
import { isErrno } from '../../lib/to-error.ts';
import { digestOfBody } from './body-id.ts';
import { blobNotFound, blobPath, bodyDamaged, buildId, checkDigest, maxBytes, newBodyId, type BlobKind } from './ids.ts';
import { PutTimes } from './put-times.ts';

/** Bytes of a piece when a blob is read: one frame of BlobService. */
const PIECE_BYTES = 256 * 1024;
/** How long a reading of the file system's clock holds, ms: the clock may be set. */
const CLOCK_MS = 5_000;

export interface BlobHeader {
  readonly kind: BlobKind;
  /** Expected bytes. */
  readonly size: number;
  /** SHA-256 in hex. Required for a build; checked whenever present. */
  readonly digest?: string | undefined;
  /**
   * Reads and checks the bytes even if a build with this digest exists: the sender has yet to prove that it has them.
   */
  readonly unproven?: boolean | undefined;
}

export interface StoredBlob {
  readonly id: string;
  readonly size: number;
  /** A build with this digest existed already; its bytes were not read. */
  readonly existed: boolean;
}

/** A blob in a file that is not part of the store yet. */
export interface StagedBlob {
  readonly id: string;
  readonly size: number;
  /** SHA-256 in hex. */
  readonly digest: string;
  readonly file: string;
}

/** An open blob. It stays readable to its end even if it is deleted in the meantime. */
export interface ReadableBlob {
  readonly size: number;
  /** The bytes, in pieces of at most 256 KiB; must be consumed or closed. */
  readonly pieces: AsyncIterable<Buffer>;
  close(): void;
}

export class FileBlobStore {
  readonly #root: string;
  readonly #folders = new Set<string>();
  readonly #times = new PutTimes();
  /** The clock of the folder's file system less this process's monotonic one, ms. */
  #clockOffset = Date.now() - performance.now();
  #clockReadAt = 0;

  private constructor(root: string) {
    this.#root = root;
  }

  /**
   * Opens the store in a folder and creates the folder if missing. Incomplete blobs of an earlier process are removed,
   * unless the folder is shared: they may be another process's, which is writing them.
   */
  static async open(root: string, { isShared = false }: { readonly isShared?: boolean } = {}): Promise<FileBlobStore> {
    const store = new FileBlobStore(root);
    for (const folder of ['', 'build', 'body', 'incoming']) await makeFolder(join(root, folder), 0o700);
    const incoming = join(root, 'incoming');
    if (!isShared) for (const name of await readdir(incoming)) await unlink(join(incoming, name));
    await store.#readClock();
    return store;
  }

  /**
   * Stores a blob; durable when it resolves. Fails with INVALID_ARGUMENT if size or digest do not match the bytes,
   * PAYLOAD_TOO_LARGE above the limit of the kind, UNAVAILABLE if the disk is full. A failure leaves nothing behind.
   */
  async put(header: BlobHeader, source: AsyncIterable<Uint8Array>): Promise<StoredBlob> {
    const build = this.#admit(header);
    if (build !== null && header.unproven !== true && (await this.#renew(build, join(this.#root, blobPath(build)), header.size)))
      return { id: build, size: header.size, existed: true };

    const { id, file } = await this.stage(header, source);
    try {
      await this.#place(id, file);
    } catch (error) {
      await unlinkIfThere(file);
      throw asRefusal(error);
    }
    return { id, size: header.size, existed: false };
  }

  /** Receives a blob into a file that the caller sends elsewhere and removes. Fails as {@link put} does. */
  async stage(header: BlobHeader, source: AsyncIterable<Uint8Array>): Promise<StagedBlob> {
    const build = this.#admit(header);
    const received = await this.#receive(header, source);
    return { id: build ?? newBodyId(received.digest), size: header.size, ...received };
  }

  /** Moves the file of a complete, checked and synced build into its place, also in that of a damaged one. */
  async adopt({ size, digest }: { readonly size: number; readonly digest: string }, file: string): Promise<StoredBlob> {
    const id = buildId(digest);
    await this.#place(id, await this.#onSameDisk(file));
    return { id, size, existed: false };
  }

  /** Opens a blob for reading. Fails with NOT_FOUND if it is deleted, with PAYLOAD_DAMAGED if it is a body of other bytes. */
  async get(id: string): Promise<ReadableBlob> {
    let file: FileHandle;
    try {
      file = await open(join(this.#root, blobPath(id)), 'r');
    } catch (error) {
      if (isErrno(error, 'ENOENT')) throw blobNotFound(id);
      throw error;
    }
    return opened(id, file);
  }

  /**
   * Reads a body of this name that is kept elsewhere, and returns it once its digest is known to be right; null if it is
   * wrong. The bytes are on this disk meanwhile, in a file without a name.
   */
  async checked(id: string, blob: ReadableBlob): Promise<ReadableBlob | null> {
    const path = this.#temporary();
    const file = await open(path, 'wx+', 0o600);
    await unlink(path);
    try {
      for await (const piece of blob.pieces) await writeWhole(file, piece);
    } catch (error) {
      await file.close();
      throw asRefusal(error);
    } finally {
      blob.close();
    }
    return opened(id, file).catch((error: unknown) => {
      if (error instanceof CapstanError && error.code === 'PAYLOAD_DAMAGED') return null;
      throw error;
    });
  }

  /** Returns the length of a blob in bytes; null if it does not exist. */
  async size(id: string): Promise<number | null> {
    try {
      return (await stat(join(this.#root, blobPath(id)))).size;
    } catch (error) {
      if (isErrno(error, 'ENOENT')) return null;
      throw error;
    }
  }

  /**
   * Returns the length of a blob in bytes; null if it does not exist. The blob counts as put now, because the caller is
   * about to name it.
   */
  async hold(id: string): Promise<number | null> {
    await this.#times.pin(id);
    const path = join(this.#root, blobPath(id));
    const size = await this.size(id);
    if (size === null) {
      // Forgets missing names: callers may query any number of them.
      this.#times.forget(id);
      return null;
    }
    await this.#makeYoung(path);
    return size;
  }

  /** Removes a blob. Returns false if it did not exist. */
  delete(id: string): Promise<boolean> {
    const path = join(this.#root, blobPath(id));
    return this.#times.remove(id, () => unlinkIfThere(path));
  }

  /**
   * Lists blobs that were put (or put again) at least `ageMs` ago, in no order. Files that are not blobs are left out.
   */
  async *olderThan(ageMs: number): AsyncGenerator<string> {
    await this.#readClock();
    for (const kind of ['build', 'body'] as const) {
      for (const fan of await readdir(join(this.#root, kind))) {
        for await (const entry of await opendir(join(this.#root, kind, fan))) {
          const id = `${kind}/${entry.name}`;
          if (await this.isOlderThan(id, ageMs)) yield id;
        }
      }
    }
  }

  /** Whether the blob exists and was put at least `ageMs` ago, by the file's time and by this process's memory. */
  async isOlderThan(id: string, ageMs: number): Promise<boolean> {
    const written = await modifiedAt(join(this.#root, blobPath(id)));
    return written !== null && this.#now() - written >= ageMs && !this.wasPutWithin(id, ageMs);
  }

  /** Whether this process put the blob less than `ageMs` ago. */
  wasPutWithin(id: string, ageMs: number): boolean {
    return this.#times.isWithin(id, ageMs);
  }

  /** Removes incomplete blobs that got no byte for `ageMs`. Returns their number. */
  async sweepIncoming(ageMs: number): Promise<number> {
    await this.#readClock();
    let removed = 0;
    for (const name of await readdir(join(this.#root, 'incoming'))) {
      const path = join(this.#root, 'incoming', name);
      const written = await modifiedAt(path);
      if (written !== null && this.#now() - written >= ageMs && (await unlinkIfThere(path))) removed += 1;
    }
    return removed;
  }

  /** Checks a header against the limits. Returns the name of a build; null for a body, whose bytes name it. */
  #admit(header: BlobHeader): string | null {
    const bound = maxBytes(header.kind);
    if (!Number.isInteger(header.size) || header.size < 1)
      throw new CapstanError('INVALID_ARGUMENT', 'size must be at least 1', { field: 'size' });
    if (header.size > bound)
      throw new CapstanError('PAYLOAD_TOO_LARGE', `size must be at most ${bound} bytes for a ${header.kind}`, { field: 'size' });
    if (header.digest !== undefined) checkDigest(header.digest);
    if (header.kind === 'body') return null;
    if (header.digest === undefined) throw new CapstanError('INVALID_ARGUMENT', 'digest is required for a build', { field: 'digest' });
    return buildId(header.digest);
  }

  /** An existing build counts as put now: the sweep must give the new deployment time to name it. */
  async #renew(id: string, path: string, size: number): Promise<boolean> {
    await this.#times.pin(id);
    try {
      const found = await stat(path);
      if (found.size !== size)
        throw new CapstanError('INVALID_ARGUMENT', `size must be ${found.size}, the size of the build with this digest`, { field: 'size' });
      await this.#makeYoung(path);
      // The put that created it may have renamed it a moment ago without having synced the name yet.
      await syncPath(dirname(path));
      return true;
    } catch (error) {
      if (isErrno(error, 'ENOENT')) return false;
      throw error;
    }
  }

  /** Writes, checks and syncs a blob's bytes. Fails as {@link put} does, and leaves nothing then. */
  async #receive(header: BlobHeader, source: AsyncIterable<Uint8Array>): Promise<{ readonly file: string; readonly digest: string }> {
    const file = this.#temporary();
    try {
      const digest = await receive(file, header.size, source);
      if (header.digest !== undefined && digest !== header.digest)
        throw new CapstanError('INVALID_ARGUMENT', 'digest does not match the bytes sent', { field: 'digest' });
      return { file, digest };
    } catch (error) {
      await unlinkIfThere(file);
      throw asRefusal(error);
    }
  }

  /** Gives a complete, synced file of `incoming` the blob's name. */
  async #place(id: string, file: string): Promise<void> {
    const path = join(this.#root, blobPath(id));
    await this.#folder(dirname(path));
    await this.#times.pin(id);
    await renameDurably(file, path);
  }

  /** Returns the file itself if it can be renamed into the folder; otherwise a copy in `incoming`, and removes the file. */
  async #onSameDisk(file: string): Promise<string> {
    const [its, ours] = await Promise.all([stat(file), stat(this.#root)]);
    if (its.dev === ours.dev) return file;
    const copy = this.#temporary();
    try {
      await receive(copy, its.size, createReadStream(file, { highWaterMark: PIECE_BYTES }));
    } catch (error) {
      await unlinkIfThere(copy);
      throw asRefusal(error);
    }
    await unlink(file);
    return copy;
  }

  #temporary(): string {
    return join(this.#root, 'incoming', randomBytes(16).toString('hex'));
  }

  /** The blob's age begins anew for the sweeps of all processes. */
  async #makeYoung(path: string): Promise<void> {
    if (performance.now() - this.#clockReadAt > CLOCK_MS) await this.#readClock();
    const now = new Date(this.#now());
    await utimes(path, now, now);
  }

  /** Wall clock of the file system, ms since 1970. */
  #now(): number {
    return performance.now() + this.#clockOffset;
  }

  /** A shared folder has the clock of its server, and the clocks of several hosts may differ. */
  async #readClock(): Promise<void> {
    const probe = this.#temporary();
    const file = await open(probe, 'wx', 0o600);
    try {
      const { mtimeMs } = await file.stat();
      this.#clockReadAt = performance.now();
      this.#clockOffset = mtimeMs - this.#clockReadAt;
    } finally {
      await file.close();
      await unlinkIfThere(probe);
    }
  }

  /** Creates a fan-out folder durably, once. */
  async #folder(folder: string): Promise<void> {
    if (this.#folders.has(folder)) return;
    await makeFolder(folder, 0o700);
    this.#folders.add(folder);
  }
}

/** Opens a blob in a file from its beginning; a body only if its bytes are right. Closes the file on a failure. */
async function opened(id: string, file: FileHandle): Promise<ReadableBlob> {
  const digest = digestOfBody(id);
  try {
    if (digest !== null && (await digestOf(file)) !== digest) throw bodyDamaged(id);
  } catch (error) {
    await file.close();
    throw error;
  }
  const { size } = await file.stat();
  const stream = createReadStream('', { fd: file, start: 0, highWaterMark: PIECE_BYTES });
  return { size, pieces: stream as AsyncIterable<Buffer>, close: () => void stream.destroy() };
}

/** SHA-256 of a whole file in hex. */
async function digestOf(file: FileHandle): Promise<string> {
  const hash = createHash('sha256');
  const piece = Buffer.allocUnsafe(PIECE_BYTES);
  for (let at = 0; ;) {
    const { bytesRead } = await file.read(piece, 0, piece.length, at);
    if (bytesRead === 0) return hash.digest('hex');
    hash.update(piece.subarray(0, bytesRead));
    at += bytesRead;
  }
}

/** Writes the bytes to a new file and syncs it. Returns their SHA-256 in hex. */
async function receive(path: string, size: number, source: AsyncIterable<Uint8Array>): Promise<string> {
  return createSynced(path, async (file) => {
    const hash = createHash('sha256');
    let received = 0;
    for await (const piece of source) {
      received += piece.length;
      if (received > size) throw new CapstanError('INVALID_ARGUMENT', `size is ${size}, but more bytes were sent`, { field: 'size' });
      hash.update(piece);
      await writeWhole(file, piece);
    }
    if (received < size)
      throw new CapstanError('INVALID_ARGUMENT', `size is ${size}, but only ${received} bytes were sent`, { field: 'size' });
    return hash.digest('hex');
  });
}

/** Writes a whole piece. One write may write only a part, for example at the end of the disk. */
export async function writeWhole(file: FileHandle, piece: Uint8Array): Promise<void> {
  let written = 0;
  while (written < piece.length) written += (await file.write(piece, written)).bytesWritten;
}

/** Returns whether the file existed. */
async function unlinkIfThere(path: string): Promise<boolean> {
  try {
    await unlink(path);
    return true;
  } catch (error) {
    if (isErrno(error, 'ENOENT')) return false;
    throw error;
  }
}

async function modifiedAt(path: string): Promise<number | null> {
  let found: Stats;
  try {
    found = await stat(path);
  } catch (error) {
    if (isErrno(error, 'ENOENT')) return null;
    throw error;
  }
  return found.mtimeMs;
}

/** A full disk becomes UNAVAILABLE, because it is temporary. Other errors are returned unchanged. */
export function asRefusal(error: unknown): unknown {
  if (isErrno(error, 'ENOSPC', 'EDQUOT')) return new CapstanError('UNAVAILABLE', 'the disk of the blob store is full', { cause: error });
  return error;
}
