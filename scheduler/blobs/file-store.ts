/**
 * Stores blobs as files of one folder: `build/<xx>/<digest>`, `body/<xx>/<id>`, and `incoming/` for incomplete blobs. A
 * blob gets its name by a rename after its bytes were checked and synced. Every named blob is therefore complete, and
 * the files in `incoming` at a start are deleted.
 */
import { createHash, randomBytes } from 'node:crypto';
import { createReadStream, type Stats } from 'node:fs';
import { open, opendir, readdir, rename, stat, unlink, utimes, type FileHandle } from 'node:fs/promises';
import { dirname, join } from 'node:path';

import { CapstanError } from '../../lib/errors.ts';
import { isErrno } from '../../lib/to-error.ts';
import { syncPath } from '../../lib/sync-path.ts';
import { makeFolder } from '../files/durable.ts';
import { blobNotFound, blobPath, buildId, checkDigest, maxBytes, newBodyId, type BlobKind } from './ids.ts';

/** Bytes of a piece when a blob is read: one frame of BlobService. */
const PIECE_BYTES = 256 * 1024;

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
  /** Monotonic times at which this process put blobs. They keep a blob young whatever the wall clock does. */
  readonly #putAt = new Map<string, number>();
  /** Removals in progress. A put of the same build waits for the removal and then writes the build again. */
  readonly #removing = new Map<string, Promise<boolean>>();

  private constructor(root: string) {
    this.#root = root;
  }

  /** Opens the store in a folder, creates the folder if missing, and removes incomplete blobs of an earlier process. */
  static async open(root: string): Promise<FileBlobStore> {
    const store = new FileBlobStore(root);
    for (const folder of ['', 'build', 'body', 'incoming']) await makeFolder(join(root, folder), 0o700);
    await syncPath(root);
    const incoming = join(root, 'incoming');
    for (const name of await readdir(incoming)) await unlink(join(incoming, name));
    return store;
  }

  /**
   * Stores a blob; durable when it resolves. Fails with INVALID_ARGUMENT if size or digest do not match the bytes,
   * PAYLOAD_TOO_LARGE above the limit of the kind, UNAVAILABLE if the disk is full. A failure leaves nothing behind.
   */
  async put(header: BlobHeader, source: AsyncIterable<Uint8Array>): Promise<StoredBlob> {
    const id = this.#admit(header);
    const path = join(this.#root, blobPath(id));
    if (header.kind === 'build' && header.unproven !== true && (await this.#renew(id, path, header.size)))
      return { id, size: header.size, existed: true };

    const temporary = join(this.#root, 'incoming', randomBytes(16).toString('hex'));
    try {
      const digest = await receive(temporary, header.size, source);
      if (header.digest !== undefined && digest !== header.digest) {
        throw new CapstanError('INVALID_ARGUMENT', 'digest does not match the bytes sent', { field: 'digest' });
      }
      await this.#folder(dirname(path));
      await this.#pin(id);
      await rename(temporary, path);
      await syncPath(dirname(path));
    } catch (error) {
      await unlink(temporary).catch((problem: unknown) => {
        if (!isErrno(problem, 'ENOENT')) throw problem;
      });
      throw asRefusal(error);
    }
    return { id, size: header.size, existed: false };
  }

  /** Moves the file of a complete, checked and synced build into its place. */
  async adopt({ size, digest }: { readonly size: number; readonly digest: string }, file: string): Promise<StoredBlob> {
    const id = buildId(digest);
    const path = join(this.#root, blobPath(id));
    const existed = await this.#renew(id, path, size);
    if (existed) await unlink(file);
    else {
      await this.#folder(dirname(path));
      await rename(file, path);
      await syncPath(dirname(path));
    }
    return { id, size, existed };
  }

  /** Opens a blob for reading. Fails with NOT_FOUND if it is deleted. */
  async get(id: string): Promise<ReadableBlob> {
    let file: FileHandle;
    try {
      file = await open(join(this.#root, blobPath(id)), 'r');
    } catch (error) {
      if (isErrno(error, 'ENOENT')) throw blobNotFound(id);
      throw error;
    }
    const { size } = await file.stat();
    const stream = createReadStream('', { fd: file, highWaterMark: PIECE_BYTES });
    return { size, pieces: stream as AsyncIterable<Buffer>, close: () => void stream.destroy() };
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
    await this.#pin(id);
    const path = join(this.#root, blobPath(id));
    const size = await this.size(id);
    if (size === null) {
      // Forgets missing names: callers may query any number of them.
      this.#putAt.delete(id);
      return null;
    }
    const now = new Date();
    await utimes(path, now, now);
    return size;
  }

  /** Removes a blob. Returns false if it did not exist. */
  delete(id: string): Promise<boolean> {
    const path = join(this.#root, blobPath(id));
    const removal = unlink(path)
      .then(() => true)
      .catch((error: unknown) => {
        if (isErrno(error, 'ENOENT')) return false;
        throw error;
      })
      .finally(() => {
        this.#removing.delete(id);
        this.#putAt.delete(id);
      });
    this.#removing.set(id, removal);
    return removal;
  }

  /**
   * Lists blobs that were put (or put again) at least `ageMs` ago, in no order. Files that are not blobs are left out.
   */
  async *olderThan(ageMs: number): AsyncGenerator<string> {
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
    return written !== null && Date.now() - written >= ageMs && !this.wasPutWithin(id, ageMs);
  }

  /** Whether this process put the blob less than `ageMs` ago. */
  wasPutWithin(id: string, ageMs: number): boolean {
    const at = this.#putAt.get(id);
    if (at === undefined) return false;
    if (performance.now() - at < ageMs) return true;
    this.#putAt.delete(id);
    return false;
  }

  /** Checks a header against the limits and returns the blob's name. */
  #admit(header: BlobHeader): string {
    const bound = maxBytes(header.kind);
    if (!Number.isInteger(header.size) || header.size < 1)
      throw new CapstanError('INVALID_ARGUMENT', 'size must be at least 1', { field: 'size' });
    if (header.size > bound)
      throw new CapstanError('PAYLOAD_TOO_LARGE', `size must be at most ${bound} bytes for a ${header.kind}`, { field: 'size' });
    if (header.digest !== undefined) checkDigest(header.digest);
    if (header.kind === 'body') return newBodyId();
    if (header.digest === undefined) throw new CapstanError('INVALID_ARGUMENT', 'digest is required for a build', { field: 'digest' });
    return buildId(header.digest);
  }

  /** An existing build counts as put now: the sweep must give the new deployment time to name it. */
  async #renew(id: string, path: string, size: number): Promise<boolean> {
    await this.#pin(id);
    try {
      const found = await stat(path);
      if (found.size !== size)
        throw new CapstanError('INVALID_ARGUMENT', `size must be ${found.size}, the size of the build with this digest`, { field: 'size' });
      const now = new Date();
      await utimes(path, now, now);
      // The put that created it may have renamed it a moment ago without having synced the name yet.
      await syncPath(dirname(path));
      return true;
    } catch (error) {
      if (isErrno(error, 'ENOENT')) return false;
      throw error;
    }
  }

  /** From here on no sweep removes the blob. Resolves when a removal that had already begun has ended. */
  async #pin(id: string): Promise<void> {
    this.#putAt.set(id, performance.now());
    await this.#removing.get(id);
    // The removal deleted the time together with the blob.
    this.#putAt.set(id, performance.now());
  }

  /** Creates a fan-out folder durably, once. */
  async #folder(folder: string): Promise<void> {
    if (this.#folders.has(folder)) return;
    await makeFolder(folder, 0o700);
    await syncPath(dirname(folder));
    this.#folders.add(folder);
  }
}

/** Writes the bytes to a new file and syncs it. Returns their SHA-256 in hex. */
async function receive(path: string, size: number, source: AsyncIterable<Uint8Array>): Promise<string> {
  const hash = createHash('sha256');
  const file = await open(path, 'wx', 0o600);
  try {
    let received = 0;
    for await (const piece of source) {
      received += piece.length;
      if (received > size) throw new CapstanError('INVALID_ARGUMENT', `size is ${size}, but more bytes were sent`, { field: 'size' });
      hash.update(piece);
      await writeWhole(file, piece);
    }
    if (received < size)
      throw new CapstanError('INVALID_ARGUMENT', `size is ${size}, but only ${received} bytes were sent`, { field: 'size' });
    await file.sync();
  } finally {
    await file.close();
  }
  return hash.digest('hex');
}

/** Writes a whole piece. One write may write only a part, for example at the end of the disk. */
export async function writeWhole(file: FileHandle, piece: Uint8Array): Promise<void> {
  let written = 0;
  while (written < piece.length) written += (await file.write(piece, written)).bytesWritten;
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
