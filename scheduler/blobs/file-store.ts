/**
 * Stores blobs as files of one folder: `build/<xx>/<digest>`, `body/<xx>/<id>`, and `incoming/` for incomplete blobs. A
 * blob gets its name by a rename after its bytes were checked and synced. Every named blob is therefore complete. A body is
 * checked against the digest in its name before its first byte is returned. Files in
 * `incoming` that nobody writes any more are deleted: at a start, or by their age where several schedulers share the folder.
 */
import { randomBytes } from 'node:crypto';
import { createReadStream, type Stats } from 'node:fs';
import { open, opendir, readdir, stat, unlink, utimes, type FileHandle } from 'node:fs/promises';
import { dirname, join } from 'node:path';

import { makeFolder, renameDurably, syncPath } from '../../lib/durable.ts';
import { CapstanError } from '../../lib/errors.ts';
import { isErrno } from '../../lib/to-error.ts';
import type { PayloadKeys } from '../secrets/payload-keys.ts';
import { HEAD_BYTES, openedPieces, PayloadCipher, type Opening } from '../store/payload-cipher.ts';
import { digestOf, PIECE_BYTES, receive, writeWhole, type Stored } from './blob-file.ts';
import { digestOfBody, isEncryptedBody } from '../../lib/body-id.ts';
import { blobNotFound, blobPath, bodyDamaged, buildId, checkDigest, lengthOf, maxBytes, newBodyId, type BlobKind } from './ids.ts';
import { PutTimes } from './put-times.ts';

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
  /** Length of the file. */
  readonly storedSize: number;
  /** SHA-256 of the file, hex. */
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

export interface FileStoreOptions {
  readonly isShared?: boolean;
  /** Encrypt and decrypt bodies. */
  readonly payloads?: PayloadKeys;
}

export class FileBlobStore {
  readonly #root: string;
  readonly #folders = new Set<string>();
  readonly #times = new PutTimes();
  /** The clock of the folder's file system less this process's monotonic one, ms. */
  #clockOffset = Date.now() - performance.now();
  #clockReadAt = 0;

  #cipher: PayloadCipher | null;

  private constructor(root: string, payloads: PayloadKeys | null) {
    this.#root = root;
    this.#cipher = payloads === null ? null : new PayloadCipher(payloads.set);
    payloads?.onChange((keys) => (this.#cipher = new PayloadCipher(keys)));
  }

  /**
   * Opens the store in a folder and creates the folder if missing. Incomplete blobs of an earlier process are removed,
   * unless the folder is shared: they may be another process's, which is writing them. Without keys no body is encrypted.
   */
  static async open(root: string, { isShared = false, payloads }: FileStoreOptions = {}): Promise<FileBlobStore> {
    const store = new FileBlobStore(root, payloads ?? null);
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
    const { file, stored, isEncrypted } = await this.#receive(header, source);
    return { id: build ?? newBodyId(stored.digest, isEncrypted), storedSize: stored.size, digest: stored.digest, file };
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
    return this.#opened(id, file);
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
    if (!(await isRight(id, file))) {
      await file.close();
      return null;
    }
    return this.#read(id, file);
  }

  /** Returns the length of a blob in bytes; null if it does not exist. */
  async size(id: string): Promise<number | null> {
    try {
      return lengthOf(id, (await stat(join(this.#root, blobPath(id)))).size);
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
  async #receive(header: BlobHeader, source: AsyncIterable<Uint8Array>): Promise<Received> {
    const file = this.#temporary();
    const sealing = header.kind === 'body' && this.#cipher?.encrypts === true ? this.#cipher.seal() : null;
    try {
      const { digest, stored } = await receive(file, header.size, source, sealing);
      if (header.digest !== undefined && digest !== header.digest)
        throw new CapstanError('INVALID_ARGUMENT', 'digest does not match the bytes sent', { field: 'digest' });
      return { file, stored, isEncrypted: sealing !== null };
    } catch (error) {
      await unlinkIfThere(file);
      throw asRefusal(error);
    }
  }

  /** Opens a blob in a file; a body only if its bytes are right. Closes the file on a failure. */
  async #opened(id: string, file: FileHandle): Promise<ReadableBlob> {
    if (await isRight(id, file)) return this.#read(id, file);
    await file.close();
    throw bodyDamaged(id);
  }

  /** Reads a blob in a file from its beginning. Closes the file on a failure. */
  async #read(id: string, file: FileHandle): Promise<ReadableBlob> {
    const isEncrypted = isEncryptedBody(id);
    try {
      const opening = isEncrypted ? await this.#opening(id, file) : null;
      const { size } = await file.stat();
      const stream = createReadStream('', { fd: file, start: isEncrypted ? HEAD_BYTES : 0, highWaterMark: PIECE_BYTES });
      const pieces = stream as AsyncIterable<Buffer>;
      return {
        size: lengthOf(id, size),
        pieces: opening === null ? pieces : openedPieces(opening, pieces),
        close: () => void stream.destroy(),
      };
    } catch (error) {
      await file.close();
      throw error;
    }
  }

  async #opening(id: string, file: FileHandle): Promise<Opening> {
    const { buffer } = await file.read(Buffer.alloc(HEAD_BYTES), 0, HEAD_BYTES, 0);
    const opening = this.#cipher?.open(buffer) ?? { damaged: 'it is encrypted, and there is no key' };
    if ('damaged' in opening) throw bodyDamaged(id, opening.damaged);
    return opening;
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
      await receive(copy, its.size, createReadStream(file, { highWaterMark: PIECE_BYTES }), null);
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

interface Received {
  readonly file: string;
  readonly stored: Stored;
  readonly isEncrypted: boolean;
}

/** Whether the bytes of a file are those that the name of a blob says; a name without a digest says nothing. */
async function isRight(id: string, file: FileHandle): Promise<boolean> {
  const digest = digestOfBody(id);
  return digest === null || (await digestOf(file)) === digest;
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
