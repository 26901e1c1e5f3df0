/** What an artifact holds, read from its bytes: the files of the application by digest, the packages by version. */
import { createHash } from 'node:crypto';
import { Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGunzip } from 'node:zlib';

import { Parser, type ReadEntry } from 'tar';

import { ARTIFACT_LIMITS } from './artifact-limits.ts';
import { CapstanError } from './errors.ts';
import { isErrno, messageOf } from './to-error.ts';

export interface FileFacts {
  /** SHA-256 of its bytes or of its link, hex. */
  readonly digest: string;
  /** Bytes; 0 of a link. */
  readonly size: number;
}

export interface ArchiveContents {
  readonly files: Readonly<Record<string, FileFacts>>;
  /** Name → version; empty where a package names none. */
  readonly packages: Readonly<Record<string, string>>;
}

/** A `package.json` or the name of a folder tells the version of a package. */
const NODE_PACKAGE = /^node_modules\/((?:@[^/]+\/)?[^/]+)\/(.*)$/;
const PYTHON_PACKAGE = /^python_packages\/([^/]+)(?:\/|$)/;
const DIST_INFO = /^(.+?)-([^-]+)\.dist-info$/;
/** A longer package.json is not read. */
const LONGEST_JSON = 1_000_000;
const MAX_VERSION = 100;
/** First byte of a gzip file: the parser would unpack it once more, past the limits. */
const GZIP_START = 0x1f;
/** Of a header in the archive, and of the padding of a file. */
const HEADER_BYTES = 2_048;
/** Sum of the lengths of all paths. */
const MAX_PATH_BYTES = 32_000_000;
/** The SDK is generated code of the build, not a package that somebody chose. */
const OWN_PACKAGE = /^@capstan\//;

/** @throws CapstanError INVALID_ARCHIVE for bytes that are no artifact, or exceed what one may be. */
export async function archiveContents(source: AsyncIterable<Buffer>): Promise<ArchiveContents> {
  const found = new Found();
  const reading: Promise<void>[] = [];
  const parser = new Parser({ strict: true, zstd: false, onReadEntry: (entry) => void reading.push(found.read(entry)) });
  // The parser is an emitter of its own kind: a stream writes to it, and waits while an entry is being read.
  const sink = new Writable({
    write(chunk: Buffer, _encoding, done) {
      const fault = found.count(chunk);
      if (fault !== null) done(fault);
      else if (parser.write(chunk)) done();
      else parser.once('drain', () => done());
    },
    final(done) {
      parser.once('end', () => done());
      parser.end();
    },
  });
  parser.on('error', (error: Error) => sink.destroy(invalid(error.message, error)));
  await pipeline(source, createGunzip(), sink).catch((error: unknown) => {
    throw isErrno(error, 'Z_DATA_ERROR', 'Z_BUF_ERROR') ? invalid(messageOf(error), error) : error;
  });
  await Promise.all(reading);
  return { files: sorted(found.files), packages: sorted(found.packages) };
}

/** What has been read. Whoever made the archive chose all names. */
class Found {
  readonly files = new Map<string, FileFacts>();
  readonly packages = new Map<string, string>();
  #bytes = 0;
  #entries = 0;
  #pathBytes = 0;
  #fault: CapstanError | null = null;

  /** Counts unpacked bytes; returns the error of an archive that exceeds a limit. */
  count(chunk: Buffer): CapstanError | null {
    if (this.#bytes === 0 && chunk[0] === GZIP_START) this.#fault ??= invalid('is compressed twice');
    this.#bytes += chunk.length;
    if (this.#bytes > ARTIFACT_LIMITS.unpackedBytes + ARTIFACT_LIMITS.entries * HEADER_BYTES)
      this.#fault ??= invalid(`has more than ${ARTIFACT_LIMITS.unpackedBytes} bytes unpacked`);
    return this.#fault;
  }

  async read(entry: ReadEntry): Promise<void> {
    const { path } = entry;
    this.#entries += 1;
    this.#pathBytes += path.length;
    if (this.#entries > ARTIFACT_LIMITS.entries) this.#fault ??= invalid(`has more than ${ARTIFACT_LIMITS.entries} entries`);
    if (path.length > ARTIFACT_LIMITS.pathBytes || this.#pathBytes > MAX_PATH_BYTES) this.#fault ??= invalid('has paths that are too long');
    const [, nodeName, inner] = NODE_PACKAGE.exec(path) ?? [];
    const [, pythonName] = PYTHON_PACKAGE.exec(path) ?? [];
    if (this.#fault !== null) {
      entry.resume();
      return;
    }
    if (pythonName !== undefined) {
      const [, name = '', version = ''] = DIST_INFO.exec(pythonName) ?? [];
      if (name !== '') this.packages.set(name, version.slice(0, MAX_VERSION));
      entry.resume();
      return;
    }
    if (nodeName !== undefined && !OWN_PACKAGE.test(nodeName)) {
      if (!this.packages.has(nodeName)) this.packages.set(nodeName, '');
      if (inner === 'package.json' && (entry.size ?? 0) <= LONGEST_JSON)
        this.packages.set(nodeName, versionIn(await bytesOf(entry)).slice(0, MAX_VERSION));
      else entry.resume();
      return;
    }
    const hash = createHash('sha256');
    if (entry.type === 'SymbolicLink') hash.update(`link to ${entry.linkpath ?? ''}`);
    for await (const chunk of entry) hash.update(chunk);
    this.files.set(path, { digest: hash.digest('hex'), size: entry.size ?? 0 });
  }
}

function invalid(why: string, cause?: unknown): CapstanError {
  return new CapstanError('INVALID_ARCHIVE', `the artifact cannot be read: ${why}`, { cause });
}

async function bytesOf(entry: ReadEntry): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of entry) chunks.push(chunk);
  return Buffer.concat(chunks);
}

function versionIn(bytes: Buffer): string {
  try {
    const { version } = JSON.parse(bytes.toString('utf8')) as { version?: unknown };
    return typeof version === 'string' ? version : '';
  } catch {
    return ''; // its package manager accepted it: that it has no version is all there is to say
  }
}

function sorted<T>(values: ReadonlyMap<string, T>): Record<string, T> {
  return Object.fromEntries([...values].sort(([a], [b]) => (a < b ? -1 : 1)));
}
