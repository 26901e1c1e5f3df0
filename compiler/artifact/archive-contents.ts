/** What an artifact holds, read from its bytes: the files of the application by digest, the packages by version. */
import { createHash } from 'node:crypto';
import { Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGunzip } from 'node:zlib';

import { Parser, type ReadEntry } from 'tar';

export interface ArchiveContents {
  /** Path → SHA-256 of its bytes or of its link, hex. */
  readonly files: Readonly<Record<string, string>>;
  /** Name → version; empty where a package names none. */
  readonly packages: Readonly<Record<string, string>>;
}

/** A `package.json` or the name of a folder tells the version of a package. */
const NODE_PACKAGE = /^node_modules\/((?:@[^/]+\/)?[^/]+)\/(.*)$/;
const PYTHON_PACKAGE = /^python_packages\/([^/]+)(?:\/|$)/;
const DIST_INFO = /^(.+?)-([^-]+)\.dist-info$/;
/** A longer package.json is not read. */
const LONGEST_JSON = 1_000_000;
/** The SDK is generated code of the build, not a package that somebody chose. */
const OWN_PACKAGE = /^@capstan\//;

export async function archiveContents(source: AsyncIterable<Buffer>): Promise<ArchiveContents> {
  const files: Record<string, string> = {};
  const packages: Record<string, string> = {};
  const reading: Promise<void>[] = [];
  const parser = new Parser({
    strict: true,
    onReadEntry: (entry) => void reading.push(readEntry(entry, files, packages)),
  });
  // The parser is an emitter of its own kind: a stream writes to it, and waits while an entry is being read.
  const sink = new Writable({
    write(chunk: Buffer, _encoding, done) {
      if (parser.write(chunk)) done();
      else parser.once('drain', () => done());
    },
    final(done) {
      parser.once('end', () => done());
      parser.end();
    },
  });
  parser.on('error', (error: Error) => sink.destroy(error));
  await pipeline(source, createGunzip(), sink);
  await Promise.all(reading);
  return { files: sorted(files), packages: sorted(packages) };
}

async function readEntry(entry: ReadEntry, files: Record<string, string>, packages: Record<string, string>): Promise<void> {
  const { path } = entry;
  const [, nodeName, inner] = NODE_PACKAGE.exec(path) ?? [];
  const [, pythonName] = PYTHON_PACKAGE.exec(path) ?? [];
  if (pythonName !== undefined) {
    const [, name = '', version = ''] = DIST_INFO.exec(pythonName) ?? [];
    if (name !== '') packages[name] = version;
    entry.resume();
    return;
  }
  if (nodeName !== undefined && !OWN_PACKAGE.test(nodeName)) {
    packages[nodeName] ??= '';
    if (inner === 'package.json' && (entry.size ?? 0) <= LONGEST_JSON) packages[nodeName] = versionIn(await bytesOf(entry));
    else entry.resume();
    return;
  }
  const hash = createHash('sha256');
  if (entry.type === 'SymbolicLink') hash.update(`link to ${entry.linkpath ?? ''}`);
  for await (const chunk of entry) hash.update(chunk);
  files[path] = hash.digest('hex');
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

function sorted(values: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(values).sort(([a], [b]) => (a < b ? -1 : 1)));
}
