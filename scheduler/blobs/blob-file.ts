/** Writes blobs into files and computes their digests. */
import { createHash } from 'node:crypto';
import type { FileHandle } from 'node:fs/promises';

import { createSynced } from '../../lib/durable.ts';
import { CapstanError } from '../../lib/errors.ts';
import { ENCRYPTION_OVERHEAD, type Sealing } from '../store/payload-cipher.ts';

/** Bytes of a piece when a blob is read: one frame of BlobService. */
export const PIECE_BYTES = 256 * 1024;

/** Bytes in a file, and their SHA-256 in hex. */
export interface Stored {
  readonly size: number;
  readonly digest: string;
}

/**
 * Writes the bytes, encrypted if `sealing` is given, to a new file and syncs it. Returns their SHA-256 in hex, and what is
 * in the file.
 */
export async function receive(
  path: string,
  size: number,
  source: AsyncIterable<Uint8Array>,
  sealing: Sealing | null,
): Promise<{ readonly digest: string; readonly stored: Stored }> {
  return createSynced(path, async (file) => {
    const hash = createHash('sha256');
    const storedHash = createHash('sha256');
    const store = async (bytes: Uint8Array): Promise<void> => {
      storedHash.update(bytes);
      await writeWhole(file, bytes);
    };
    if (sealing !== null) await store(sealing.head);
    let received = 0;
    for await (const piece of source) {
      received += piece.length;
      if (received > size) throw new CapstanError('INVALID_ARGUMENT', `size is ${size}, but more bytes were sent`, { field: 'size' });
      hash.update(piece);
      if (sealing === null) await writeWhole(file, piece);
      else await store(sealing.update(piece));
    }
    if (received < size)
      throw new CapstanError('INVALID_ARGUMENT', `size is ${size}, but only ${received} bytes were sent`, { field: 'size' });
    const digest = hash.digest('hex');
    if (sealing === null) return { digest, stored: { size, digest } };
    await store(sealing.end());
    return { digest, stored: { size: size + ENCRYPTION_OVERHEAD, digest: storedHash.digest('hex') } };
  });
}

/** Writes a whole piece. One write may write only a part, for example at the end of the disk. */
export async function writeWhole(file: FileHandle, piece: Uint8Array): Promise<void> {
  let written = 0;
  while (written < piece.length) written += (await file.write(piece, written)).bytesWritten;
}

/** SHA-256 of a whole file in hex. */
export async function digestOf(file: FileHandle): Promise<string> {
  const hash = createHash('sha256');
  const piece = Buffer.allocUnsafe(PIECE_BYTES);
  for (let at = 0; ;) {
    const { bytesRead } = await file.read(piece, 0, piece.length, at);
    if (bytesRead === 0) return hash.digest('hex');
    hash.update(piece.subarray(0, bytesRead));
    at += bytesRead;
  }
}
