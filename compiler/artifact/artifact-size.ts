/**
 * Refuses what becomes too large for an artifact before it is packed, which would take minutes. The size after
 * compression is estimated from samples; the exact limit applies while packing.
 */
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';

import { ARTIFACT_LIMITS } from '../../lib/artifact-limits.ts';
import type { ArchiveEntry } from './archive.ts';
import { ToolError } from '../../terminal/tool-error.ts';
import { sizeText } from '../../terminal/size-text.ts';

const compress = promisify(gzip);

const SAMPLE_BYTES = 64 * 1024;
const SAMPLES = 4;
/** An estimate beyond the limit by less may be wrong. */
const MARGIN = 1.15;
/** Number of the largest folders, files and packages that an error names. */
const NAMED = 5;

export interface Sized {
  readonly name: string;
  /** Bytes, unpacked. */
  readonly size: number;
}

export interface SizeCheck {
  /** Folder of the entries. */
  readonly root: string;
  readonly entries: readonly ArchiveEntry[];
  /** Installed packages that are packed already. */
  readonly packages: readonly Sized[];
  /** Bytes of those in the archive. */
  readonly packedBytes: number;
  /** Bytes. */
  readonly limit: number;
}

/** @throws CapstanError INVALID_ARCHIVE with the largest folders. */
export async function checkSize({ root, entries, packages, packedBytes, limit }: SizeCheck): Promise<void> {
  const contents = [...packages, ...foldersOf(entries)];
  const unpacked = contents.reduce((sum, { size }) => sum + size, 0);
  if (unpacked > ARTIFACT_LIMITS.unpackedBytes)
    throw refused(`unpacks to ${sizeText(unpacked)}, more than the ${sizeText(ARTIFACT_LIMITS.unpackedBytes)} that hosts accept`, contents);
  const own = entries.reduce((sum, { stat }) => sum + stat.size, 0);
  if (packedBytes + own <= limit) return;
  let estimate = packedBytes;
  for (const entry of entries) estimate += await compressedBytes(root, entry);
  if (estimate > limit * MARGIN) throw tooLarge(limit, contents, estimate);
}

/** `estimate`: bytes, of what was not packed; undefined for what was. */
export function tooLarge(limit: number, contents: readonly Sized[], estimate?: number): ToolError {
  const about = estimate === undefined ? '' : ` (about ${sizeText(estimate)} compressed)`;
  return refused(`is larger than ${sizeText(limit)}${about}`, contents);
}

function refused(fault: string, contents: readonly Sized[]): ToolError {
  const largest = contents.toSorted((a, b) => b.size - a.size || (a.name < b.name ? -1 : 1)).slice(0, NAMED);
  return new ToolError(
    'INVALID_ARCHIVE',
    `the artifact ${fault}; its largest parts: ${largest.map(({ name, size }) => `${name} (${sizeText(size)})`).join(', ')}`,
    'Exclude files with .toolignore, and packages that the hosts have with --exclude. `capstan build --list` shows what a build contains.',
  );
}

/** Sizes of the top folders, with a slash at the end, and of the files beside them. */
export function foldersOf(entries: readonly ArchiveEntry[]): Sized[] {
  const sizes = new Map<string, number>();
  for (const { name, stat } of entries) {
    const [top = name, ...rest] = name.split('/');
    const key = rest.length === 0 ? top : `${top}/`;
    sizes.set(key, (sizes.get(key) ?? 0) + stat.size);
  }
  return [...sizes].map(([name, size]) => ({ name, size }));
}

/** Small files are few bytes, whatever becomes of them. */
async function compressedBytes(root: string, { path, stat }: ArchiveEntry): Promise<number> {
  if (!stat.isFile() || stat.size <= SAMPLE_BYTES) return 0;
  const file = await open(join(root, path));
  try {
    let read = 0;
    let packed = 0;
    for (let sample = 0; sample < SAMPLES; sample += 1) {
      const at = Math.floor(((stat.size - SAMPLE_BYTES) * sample) / (SAMPLES - 1));
      const { buffer, bytesRead } = await file.read(Buffer.allocUnsafe(SAMPLE_BYTES), 0, SAMPLE_BYTES, at);
      read += bytesRead;
      packed += (await compress(buffer.subarray(0, bytesRead))).length;
    }
    return read === 0 ? 0 : stat.size * Math.min(1, packed / read);
  } finally {
    await file.close();
  }
}
