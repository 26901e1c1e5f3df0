/**
 * Writes the artifact as a tar in several gzip members: the application's files, then layers of installed packages,
 * each packed once and cached, then the tar's end. Any gzip reader joins the members. The same input gives the same
 * bytes: entries ordered by path, no times, no owners, two modes.
 */
import { createHash } from 'node:crypto';
import { createReadStream, createWriteStream, type Stats } from 'node:fs';
import { join } from 'node:path';
import { Readable, Transform } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGzip, gzipSync } from 'node:zlib';

import { Pack } from 'tar';

/** Two blocks of zeros end a tar. */
const END_BYTES = 1024;
const GZIP = { level: 6 };

export interface ArchiveEntry {
  /** Path on disk, relative to the root. */
  readonly path: string;
  /** Path in the archive. */
  readonly name: string;
  readonly stat: Stats;
}

export interface Written {
  /** SHA-256 of its bytes, hex. */
  readonly digest: string;
  /** Bytes. */
  readonly size: number;
}

/** The archive exceeds the limit of an artifact. */
export class TooLarge extends Error {}

/**
 * Writes entries of `root` as one member without the tar's end, as input of `writeArchive`. `progress` receives the
 * bytes of the files, and how many of them are packed.
 */
export async function writeMember(
  root: string,
  entries: readonly ArchiveEntry[],
  path: string,
  progress?: (done: number, total: number) => void,
): Promise<void> {
  const total = entries.reduce((sum, { stat }) => sum + stat.size, 0);
  let done = 0;
  const measure = new Transform({
    transform(chunk: Buffer, _encoding, next) {
      done = Math.min(total, done + chunk.length);
      progress?.(done, total);
      next(null, chunk);
    },
  });
  await pipeline(Readable.from(packed(root, entries)), withoutEnd(), measure, createGzip(GZIP), createWriteStream(path));
}

/** Joins members to an archive. @throws TooLarge as soon as it exceeds `limit` bytes. */
export async function writeArchive(members: readonly string[], path: string, limit: number): Promise<Written> {
  const hash = createHash('sha256');
  let size = 0;
  const measure = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      size += chunk.length;
      hash.update(chunk);
      if (size > limit) done(new TooLarge());
      else done(null, chunk);
    },
  });
  await pipeline(Readable.from(joined(members)), measure, createWriteStream(path));
  return { digest: hash.digest('hex'), size };
}

async function* joined(members: readonly string[]): AsyncGenerator<Buffer> {
  for (const member of members) yield* createReadStream(member) as AsyncIterable<Buffer>;
  yield gzipSync(Buffer.alloc(END_BYTES), GZIP);
}

/** `Pack` itself, not `create`, which takes a name with a leading `@` for an archive to include. */
function packed(root: string, entries: readonly ArchiveEntry[]): AsyncIterable<Buffer> {
  const sorted = [...entries].sort((a, b) => (a.name < b.name ? -1 : 1));
  const names = new Map(sorted.map(({ path, name }) => [path, name]));
  const archive = new Pack({
    cwd: root,
    portable: true,
    mtime: new Date(0),
    strict: true,
    // Set explicitly, so that the disk's modes and hard links have no effect.
    statCache: new Map(sorted.map(({ path, stat }) => [join(root, path), normalise(stat)])),
    onWriteEntry: (entry) => {
      entry.path = names.get(entry.path) ?? entry.path;
    },
  });
  for (const { path } of sorted) archive.add(path);
  archive.end();
  return archive;
}

/** Holds back the last bytes until they are known to be the tar's end. */
function withoutEnd(): Transform {
  let held = Buffer.alloc(0);
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      const all = Buffer.concat([held, chunk]);
      const cut = Math.max(0, all.length - END_BYTES);
      held = all.subarray(cut);
      done(null, all.subarray(0, cut));
    },
  });
}

function normalise(stat: Stats): Stats {
  const permissions = stat.isSymbolicLink() ? 0o777 : (stat.mode & 0o100) === 0 ? 0o644 : 0o755;
  stat.mode = (stat.mode & ~0o7777) | permissions;
  stat.nlink = 1;
  return stat;
}
