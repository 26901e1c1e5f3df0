/**
 * Whether an unpacked build is what was unpacked. Workers run as the agent's user, so nothing but a
 * look at the build tells that one of them changed it. The look is cheap as long as nothing was
 * touched: names, sizes, modes and times. Where those differ (a link more to a file is enough), the
 * contents decide. What Python compiles beside its modules is left out: it comes with their use.
 */
import { createHash, type Hash } from 'node:crypto';
import { createReadStream, lstatSync, readFileSync, readlinkSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';

const COMPILED = '__pycache__';
/** Entries looked at, and bytes read, before others get their turn: a promise for each would cost ten times as much as the look. */
const ENTRIES_A_TURN = 200;
const BYTES_A_TURN = 4 * 1024 * 1024;

/** Both of an unpacked build, as hexadecimal digests. */
export interface Fingerprint {
  /** Of what the file system says of each entry. */
  readonly facts: string;
  /** Of each entry's name, kind, mode and content. */
  readonly contents: string;
}

/** Reads the whole build. */
export async function fingerprintOf(folder: string): Promise<Fingerprint> {
  // Facts first: a change in between differs from them the next time.
  const facts = await factsOf(folder);
  return { facts, contents: await contentsOf(folder) };
}

/** The build's fingerprint if it is unchanged, with the facts of now; undefined when it is another build. */
export async function verified(folder: string, known: Fingerprint): Promise<Fingerprint | undefined> {
  const facts = await factsOf(folder);
  if (facts === known.facts) return known;
  const contents = await contentsOf(folder);
  return contents === known.contents ? { facts, contents } : undefined;
}

interface Entry {
  /** Below the build. */
  readonly path: string;
  readonly kind: 'folder' | 'file' | 'link' | 'other';
}

async function factsOf(folder: string): Promise<string> {
  const hash = createHash('sha256');
  const entries = await entriesOf(folder);
  for (const [index, { path, kind }] of entries.entries()) {
    if (index % ENTRIES_A_TURN === 0) await nextTurn();
    const fact = lstatSync(join(folder, path), { bigint: true });
    // A folder's own times change with what Python compiles in it; its names are all here.
    const more = kind === 'folder' ? [] : [fact.ino, fact.size, fact.mtimeNs, fact.ctimeNs];
    hash.update(JSON.stringify([path, kind, String(fact.mode), ...more.map(String)]));
  }
  return hash.digest('hex');
}

async function contentsOf(folder: string): Promise<string> {
  const hash = createHash('sha256');
  let bytes = 0;
  for (const [index, { path, kind }] of (await entriesOf(folder)).entries()) {
    if (index % ENTRIES_A_TURN === 0 || bytes > BYTES_A_TURN) {
      bytes = 0;
      await nextTurn();
    }
    const full = join(folder, path);
    const { mode, size } = lstatSync(full);
    hash.update(JSON.stringify([path, kind, mode, kind === 'file' ? size : 0, kind === 'link' ? readlinkSync(full) : '']));
    if (kind !== 'file') continue;
    bytes += size;
    if (size > BYTES_A_TURN) await addFile(hash, full);
    else hash.update(readFileSync(full));
  }
  return hash.digest('hex');
}

function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

async function addFile(hash: Hash, path: string): Promise<void> {
  await pipeline(createReadStream(path), async (source) => {
    for await (const bytes of source) hash.update(bytes as Buffer);
  });
}

/** All entries in one order, without what Python compiled. */
async function entriesOf(folder: string): Promise<Entry[]> {
  const found: Entry[] = [];
  const open = [''];
  for (let below = open.pop(); below !== undefined; below = open.pop()) {
    for (const entry of await readdir(join(folder, below), { withFileTypes: true })) {
      if (entry.name === COMPILED) continue;
      const path = join(below, entry.name);
      const kind = entry.isDirectory() ? 'folder' : entry.isFile() ? 'file' : entry.isSymbolicLink() ? 'link' : 'other';
      found.push({ path, kind });
      if (kind === 'folder') open.push(path);
    }
  }
  return found.sort((a, b) => (a.path < b.path ? -1 : 1));
}
