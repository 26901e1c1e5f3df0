/**
 * The artifact (SPEC.md, Build artifact): a folder as tar and gzip. The same files give the same
 * bytes: entries in order of path, no times, no owners, two modes, so that its digest names it.
 */
import { createHash } from 'node:crypto';
import { createWriteStream } from 'node:fs';
import { mkdir, rename, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable, Transform } from 'node:stream';
import { pipeline } from 'node:stream/promises';

import { Pack } from 'tar';

import { CapstanError } from '../../proto/errors.ts';
import { listFiles, type FileEntry } from './files.ts';
import { MANIFEST_NAME } from './manifest.ts';

/** SPEC.md, Limits: bytes. */
export const ARTIFACT_LIMIT = 500_000_000;
/** Where the tool keeps what it makes, inside the application's folder. */
export const TOOL_FOLDER = '.tool';
const STAGED = `${TOOL_FOLDER}/.build/${MANIFEST_NAME}`;

export interface Artifact {
  readonly path: string;
  /** SHA-256 of its bytes, hex. */
  readonly digest: string;
  /** Bytes. */
  readonly size: number;
  readonly files: number;
  readonly leftOut: readonly string[];
}

/**
 * Packs the folder with the manifest to `.tool/artifact.tar.gz`. `limit` is in bytes.
 * @throws CapstanError INVALID_ARCHIVE when it grows beyond the limit or holds what an artifact may not.
 */
export async function packArtifact(folder: string, manifest: string, limit: number = ARTIFACT_LIMIT): Promise<Artifact> {
  const { entries, leftOut } = await listFiles(folder);
  const staging = join(folder, TOOL_FOLDER, '.build');
  await mkdir(staging, { recursive: true });
  try {
    await writeFile(join(folder, STAGED), manifest);
    const staged = { path: STAGED, stat: await stat(join(folder, STAGED)) };
    const all = [...entries, staged].sort((a, b) => (nameInside(a.path) < nameInside(b.path) ? -1 : 1));
    const unfinished = join(staging, 'artifact.tar.gz');
    const written = await writeArchive(folder, all, unfinished, limit);
    const path = join(folder, TOOL_FOLDER, 'artifact.tar.gz');
    await rename(unfinished, path);
    return { path, ...written, files: all.length, leftOut };
  } finally {
    await rm(staging, { recursive: true, force: true });
  }
}

async function writeArchive(
  folder: string,
  entries: readonly FileEntry[],
  path: string,
  limit: number,
): Promise<{ digest: string; size: number }> {
  const hash = createHash('sha256');
  let size = 0;
  const measure = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      size += chunk.length;
      hash.update(chunk);
      if (size > limit)
        done(new CapstanError('INVALID_ARCHIVE', `the artifact is larger than ${limit} bytes; leave files out with .toolignore`));
      else done(null, chunk);
    },
  });
  await pipeline(Readable.from(pack(folder, entries)), measure, createWriteStream(path));
  return { digest: hash.digest('hex'), size };
}

/** `Pack` itself, not `create`: that one takes a name with a leading `@` for an archive to include. */
function pack(folder: string, entries: readonly FileEntry[]): AsyncIterable<Buffer> {
  const options: ConstructorParameters<typeof Pack>[0] = {
    cwd: folder,
    portable: true,
    mtime: new Date(0),
    gzip: { level: 6 },
    strict: true,
    // Known beforehand, so that what depends on the disk (modes, hard links) does not get in.
    statCache: new Map(entries.map(({ path, stat }) => [join(folder, path), normalise(stat)])),
    onWriteEntry: (entry) => {
      entry.path = nameInside(entry.path);
    },
  };
  const archive = new Pack(options);
  for (const { path } of entries) archive.add(path);
  archive.end();
  return archive;
}

function nameInside(path: string): string {
  return path === STAGED ? MANIFEST_NAME : path;
}

function normalise(stat: FileEntry['stat']): FileEntry['stat'] {
  const permissions = stat.isSymbolicLink() ? 0o777 : (stat.mode & 0o100) === 0 ? 0o644 : 0o755;
  stat.mode = (stat.mode & ~0o7777) | permissions;
  stat.nlink = 1;
  return stat;
}
