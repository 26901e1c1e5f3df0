/**
 * What an installation of the offline bundle consists of: a list of its files with their SHA-256 sums, in the format of `sha256sum`,
 * and a signature of that list.
 */
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { lstat, readdir, readFile } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { pipeline } from 'node:stream/promises';

import { readPublicKey, verifySignature } from './minisign.ts';

/** Files of the installation's folder that describe it. */
export const SUMS = 'SHA256SUMS';
export const SUMS_SIGNATURE = 'SHA256SUMS.minisig';
export const PUBLIC_KEY = 'capstan-release.pub';
/** Written while the service runs. */
const MADE_LATER = /^node_modules\/capstan\/node_modules\/\.cache\//;

export interface Verified {
  /** Of the signing key. */
  readonly keyId: string;
  readonly comment: string;
  readonly files: number;
  /** Files that are missing, differ from the list, or are not in it; empty when the installation is whole. */
  readonly problems: readonly string[];
}

/**
 * Compares an installation with its signed list.
 * @param trusted text of the public key to trust; without it the key in the folder, which proves only that nothing was changed by accident.
 * @throws Error when the list has no valid signature.
 */
export async function verifyInstallation(folder: string, trusted?: string): Promise<Verified> {
  const sums = await readFile(join(folder, SUMS));
  const key = readPublicKey(trusted ?? (await readFile(join(folder, PUBLIC_KEY), 'utf8')));
  const comment = verifySignature(sums, await readFile(join(folder, SUMS_SIGNATURE), 'utf8'), key);
  const listed = new Map(linesOf(sums.toString()).map((line) => [line.slice(66), line.slice(0, 64)]));
  const problems: string[] = [];
  for (const [file, sum] of listed) {
    const found = await sumOf(join(folder, file)).catch((error: NodeJS.ErrnoException) => error.code ?? String(error));
    if (found !== sum) problems.push(found === 'ENOENT' ? `${file} is missing` : `${file} differs`);
    // What it points to is not protected as the installation is.
    else if ((await lstat(join(folder, file))).isSymbolicLink()) problems.push(`${file} is a link`);
  }
  const described = new Set([SUMS, SUMS_SIGNATURE, PUBLIC_KEY]);
  for (const file of await filesOf(folder))
    if (!listed.has(file) && !described.has(file) && !MADE_LATER.test(file)) problems.push(`${file} is not part of the release`);
  return { keyId: key.id, comment, files: listed.size, problems };
}

/** The list of a folder's files, for {@link SUMS}. */
export async function sumsOf(folder: string): Promise<string> {
  const lines: string[] = [];
  for (const file of await filesOf(folder)) lines.push(`${await sumOf(join(folder, file))}  ${file}\n`);
  return lines.join('');
}

async function filesOf(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => !entry.isDirectory())
    .map((entry) => relative(folder, join(entry.parentPath, entry.name)))
    .toSorted();
}

async function sumOf(path: string): Promise<string> {
  const hash = createHash('sha256');
  await pipeline(createReadStream(path), hash);
  return hash.digest('hex');
}

function linesOf(text: string): string[] {
  return text.split('\n').filter((line) => line !== '');
}
