/**
 * Unpacks a build's archive into a folder. No path or link may leave the folder, devices are refused, entries and bytes
 * are limited. An archive that violates a rule is refused as a whole; the error names the entry.
 */
import { realpath, readlink } from 'node:fs/promises';
import { join, posix, sep } from 'node:path';
import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';

import { extract, type ReadEntry } from 'tar';

import { ARTIFACT_LIMITS } from '../../lib/artifact-limits.ts';
import { CapstanError } from '../../lib/errors.ts';
import { messageOf } from '../../lib/to-error.ts';

export interface UnpackLimits {
  readonly entries: number;
  /** Sum of the file sizes, bytes. */
  readonly bytes: number;
}

export const UNPACK_LIMITS: UnpackLimits = { entries: ARTIFACT_LIMITS.entries, bytes: ARTIFACT_LIMITS.unpackedBytes };

/** Limit of Linux file systems. */
const MAX_NAME_BYTES = 255;
/** Below the agent's own folder. */
const MAX_PATH_BYTES = ARTIFACT_LIMITS.pathBytes;
/** System errors caused by the archive: an invalid name, or a file where a folder must be. */
const FAULTS_OF_ARCHIVES: ReadonlySet<string> = new Set(['ENAMETOOLONG', 'ENOTDIR', 'EISDIR', 'EEXIST', 'ELOOP', 'EILSEQ', 'EINVAL']);

export interface Unpacked {
  readonly entries: number;
  readonly bytes: number;
}

/** Unpacks `source` (a tar, compressed or not) into `folder`, which exists and is empty. Throws INVALID_ARCHIVE. */
export async function unpack(source: Readable, folder: string, limits: UnpackLimits = UNPACK_LIMITS): Promise<Unpacked> {
  const check = new EntryCheck(limits, () => source.destroy(new Error('refused')));
  const sink = extract({
    cwd: folder,
    strict: true,
    preserveOwner: false,
    noMtime: true,
    filter: (path, entry) => check.accept(path, entry as ReadEntry),
  });
  try {
    await pipeline(source, sink);
  } catch (error) {
    // A library error is about the bytes of the archive; a violated rule is more specific.
    check.throwIfBroken();
    if (isSystemError(error) && !FAULTS_OF_ARCHIVES.has(error.code ?? '')) throw error;
    throw invalid(`the build's archive is damaged: ${messageOf(error)}`);
  }
  check.throwIfBroken();
  await checkLinks(folder, check.links);
  return { entries: check.entries, bytes: check.bytes };
}

/** Validates each entry before it is written; after the first violation nothing more is written. */
class EntryCheck {
  readonly #limits: UnpackLimits;
  readonly #files = new Set<string>();
  #broken: string | undefined;
  readonly links: string[] = [];
  entries = 0;
  bytes = 0;

  readonly #onBroken: () => void;

  constructor(limits: UnpackLimits, onBroken: () => void) {
    this.#limits = limits;
    this.#onBroken = onBroken;
  }

  accept(path: string, entry: ReadEntry): boolean {
    if (this.#broken !== undefined) return false;
    this.#broken = this.#fault(path, entry);
    if (this.#broken !== undefined) {
      this.#onBroken();
      return false;
    }
    // Removes set-user-id and similar bits; everyone may read the file and nobody may write it: workers share it.
    const runnable = ((entry.mode ?? 0) & 0o100) !== 0 || entry.type === 'Directory';
    entry.mode = entry.type === 'Directory' ? 0o755 : runnable ? 0o555 : 0o444;
    return true;
  }

  throwIfBroken(): void {
    if (this.#broken !== undefined) throw invalid(this.#broken);
  }

  #fault(path: string, entry: ReadEntry): string | undefined {
    this.entries += 1;
    this.bytes += entry.size;
    if (this.entries > this.#limits.entries) return `the build has more than ${this.#limits.entries} entries`;
    if (this.bytes > this.#limits.bytes) return `the build unpacks to more than ${this.#limits.bytes} bytes`;
    if (path.startsWith('/') || path.includes('\\') || path.includes('\0')) return `entry ${quote(path)} does not have a relative path`;
    const long = tooLong(path) ?? tooLong(entry.linkpath ?? '');
    if (long !== undefined) return `entry ${quote(path)} ${long}`;
    const name = posix.normalize(path);
    if (isOutside(name)) return `entry ${quote(path)} is outside the build`;
    switch (entry.type) {
      case 'File':
      case 'OldFile':
      case 'ContiguousFile':
        this.#files.add(name);
        return undefined;
      case 'Directory':
        return undefined;
      case 'SymbolicLink': {
        const target = entry.linkpath ?? '';
        if (target === '' || target.startsWith('/') || isOutside(posix.join(posix.dirname(name), target))) {
          return `entry ${quote(path)} is a link to a path outside the build`;
        }
        this.links.push(name);
        return undefined;
      }
      case 'Link': {
        // A hard link may refer only to an earlier file: no link in between can then lead outside.
        const target = posix.normalize(entry.linkpath ?? '');
        if (!this.#files.has(target)) return `entry ${quote(path)} is a link to a file that is not in the build`;
        this.#files.add(name);
        return undefined;
      }
      default:
        return `entry ${quote(path)} is a ${entry.type}, not a file, folder or link`;
    }
  }
}

/** Chained links may lead outside although each alone does not: every link is resolved to its target. */
async function checkLinks(folder: string, links: readonly string[]): Promise<void> {
  const root = await realpath(folder);
  for (const link of links) {
    const path = join(root, link);
    let real: string;
    try {
      real = await realpath(path);
    } catch (error) {
      if (isSystemError(error) && (error.code === 'ENOENT' || error.code === 'ELOOP' || error.code === 'ENOTDIR')) {
        const target = await readlink(path).catch(() => '');
        throw invalid(`entry ${quote(link)} is a broken link (${quote(target)})`);
      }
      throw error;
    }
    if (real !== root && !real.startsWith(root + sep)) throw invalid(`entry ${quote(link)} is a link to a path outside the build`);
  }
}

function tooLong(path: string): string | undefined {
  if (Buffer.byteLength(path) > MAX_PATH_BYTES) return `has a path longer than ${MAX_PATH_BYTES} bytes`;
  if (path.split('/').some((name) => Buffer.byteLength(name) > MAX_NAME_BYTES)) return `has a name longer than ${MAX_NAME_BYTES} bytes`;
  return undefined;
}

function isOutside(path: string): boolean {
  return path === '..' || path.startsWith('../');
}

function quote(name: string): string {
  return JSON.stringify(name.length > 200 ? `${name.slice(0, 200)}…` : name);
}

function invalid(message: string): CapstanError {
  return new CapstanError('INVALID_ARCHIVE', message);
}

function isSystemError(error: unknown): error is NodeJS.ErrnoException {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' && 'syscall' in error;
}
