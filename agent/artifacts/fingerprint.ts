/**
 * Detects changes to an unpacked build. Workers run as the agent's user and can modify it. The check is cheap while
 * nothing was touched: it compares names, sizes, modes and times. Where those differ (one more hard link is enough), it
 * compares contents. Files that Python compiles beside its modules are ignored: they appear with normal use.
 */
import { createHash, type Hash } from 'node:crypto';
import { createReadStream, lstatSync, readFileSync, readlinkSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';

const COMPILED = '__pycache__';
/**
 * Entries checked and bytes read before other work gets a turn. Awaiting a promise for each entry would cost ten times
 * as much as the check.
 */
const ENTRIES_A_TURN = 200;
const BYTES_A_TURN = 4 * 1024 * 1024;

/** Two hexadecimal digests of an unpacked build. */
export interface Fingerprint {
  /** Digest of the file system metadata of each entry. */
  readonly facts: string;
  /** Digest of each entry's name, kind, mode and content. */
  readonly contents: string;
}

/** Computes the fingerprint; reads the whole build. */
export async function fingerprintOf(folder: string): Promise<Fingerprint> {
  // Metadata first: a change in between then differs at the next check.
  const facts = await factsOf(folder);
  return { facts, contents: await contentsOf(folder) };
}

/**
 * Returns the build's fingerprint with the current metadata if the contents are unchanged; undefined otherwise. In doubt it
 * reads the contents although nothing was touched: a disk may change bytes by itself.
 */
export async function verified(folder: string, known: Fingerprint, isDoubted = false): Promise<Fingerprint | undefined> {
  const facts = await factsOf(folder);
  if (facts === known.facts && !isDoubted) return known;
  const contents = await contentsOf(folder);
  return contents === known.contents ? { facts, contents } : undefined;
}

interface Entry {
  /** Path relative to the build. */
  readonly path: string;
  readonly kind: 'folder' | 'file' | 'link' | 'other';
}

async function factsOf(folder: string): Promise<string> {
  const hash = createHash('sha256');
  const entries = await entriesOf(folder);
  for (const [index, { path, kind }] of entries.entries()) {
    if (index % ENTRIES_A_TURN === 0) await nextTurn();
    const fact = lstatSync(join(folder, path), { bigint: true });
    // A folder's times change when Python compiles into it; the names in it are all checked anyway.
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

/** Lists all entries in a fixed order, without files compiled by Python. */
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
