/** What the blob tests share: a store in a folder of its own, and bytes with their digest. */
import { createHash, randomBytes } from 'node:crypto';
import { globSync } from 'node:fs';
import { utimes } from 'node:fs/promises';
import { join } from 'node:path';

import type { ExecutionContext } from 'ava';

import { FileBlobStore, type ReadableBlob } from '../../../scheduler/blobs/file-store.ts';
import { blobPath } from '../../../scheduler/blobs/ids.ts';
import { folderOf } from '../../support/folder.ts';

export async function openStore(t: ExecutionContext): Promise<{ store: FileBlobStore; root: string }> {
  const root = await folderOf(t);
  return { store: await FileBlobStore.open(root), root };
}

export function someBytes(size: number): { bytes: Buffer; digest: string } {
  const bytes = randomBytes(size);
  return { bytes, digest: sha256(bytes) };
}

function sha256(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex');
}

/** The bytes in pieces, as a sender would bring them. */
export async function* pieces(bytes: Buffer, size = 64 * 1024): AsyncGenerator<Buffer> {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}

export async function readAll(blob: ReadableBlob): Promise<Buffer> {
  const parts: Buffer[] = [];
  for await (const piece of blob.pieces) parts.push(piece);
  return Buffer.concat(parts);
}

/** Every file below the store's folder. */
export function filesIn(root: string): string[] {
  return globSync('**/*', { cwd: root, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(root.length + 1))
    .sort();
}

/** Gives a blob's file the age. */
export async function makeOld(root: string, id: string, ageMs: number): Promise<void> {
  const at = new Date(Date.now() - ageMs);
  await utimes(join(root, blobPath(id)), at, at);
}
