/**
 * Folders of the tool's cache that are made from inputs: installed packages. The name of a folder covers all its
 * inputs, it appears complete by one rename, and it is never changed afterwards. Of several processes that need the
 * same folder, one makes it and the others wait for it.
 */
import { createHash } from 'node:crypto';
import { mkdir, mkdtemp, readdir, readFile, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';

import { z } from 'zod';

import { moveUnsynced } from '../../lib/durable.ts';
import { acquireLock } from '../../lib/lock.mjs';

/** Age at which leftovers of a killed build are deleted, ms; no installation takes as long. */
const ABANDONED_MS = 24 * 3_600_000;
const LOOK_EVERY_MS = 100;
const FACTS = 'facts.json';
const UNFINISHED = '.new-';
const NAME = /^[0-9a-f]{32}$/;

const factsSchema = z.object({ bytes: z.number(), notes: z.unknown() });

export interface CacheLimits {
  readonly folders: number;
  /** As reported by those who made them. */
  readonly bytes: number;
}

export interface CachedFolder<Notes> {
  readonly folder: string;
  readonly notes: Notes;
  /** False when it was there already. */
  readonly isNew: boolean;
}

export interface CacheSpec<Notes> {
  /** Folder of all folders of this kind. */
  readonly root: string;
  /** All inputs that determine the content; JSON. */
  readonly key: unknown;
  readonly refresh: boolean;
  readonly notes: z.ZodType<Notes>;
  readonly limits: CacheLimits;
  /** Receives the process that makes the same folder at this moment. */
  readonly waiting: (process: number) => void;
  /** Fills an empty folder. `bytes` is what it takes. */
  readonly make: (folder: string) => Promise<{ readonly bytes: number; readonly notes: Notes }>;
}

/** Returns the folder of a key, and makes it if it is not there. The least recently used are deleted beyond the limits. */
export async function cachedFolder<Notes>(order: CacheSpec<Notes>): Promise<CachedFolder<Notes>> {
  const { root, key, refresh, notes, limits } = order;
  const name = createHash('sha256').update(JSON.stringify(key)).digest('hex').slice(0, 32);
  const folder = join(root, name);
  const known = refresh ? null : await readFacts(folder, notes);
  if (known !== null) return { folder, notes: known.notes, isNew: false };
  await mkdir(root, { recursive: true });
  const since = Date.now();
  return withLock(join(root, `.${name}.lock`), order.waiting, async () => {
    // The process that this one waited for made it.
    const meanwhile = await readFacts(folder, notes);
    if (meanwhile !== null && (!refresh || (await stat(folder)).birthtimeMs > since))
      return { folder, notes: meanwhile.notes, isNew: false };
    const made = await mkdtemp(join(root, UNFINISHED));
    try {
      const facts = await order.make(made);
      await writeFile(join(made, FACTS), JSON.stringify(facts));
      // What a refresh replaces may be in use: it moves away by a rename, so that no other process reads half of it.
      if (meanwhile !== null) await moveUnsynced(folder, `${made}-replaced`);
      await moveUnsynced(made, folder);
      await rm(`${made}-replaced`, { recursive: true, force: true });
      await sweep(root, name, limits);
      return { folder, notes: facts.notes, isNew: true };
    } finally {
      await rm(made, { recursive: true, force: true });
    }
  });
}

/** Runs `work` while no other process holds the lock. */
export async function withLock<T>(path: string, waiting: (process: number) => void, work: () => Promise<T>): Promise<T> {
  for (let shown = false; ; shown = true) {
    const lock = acquireLock(path);
    if ('release' in lock) {
      try {
        return await work();
      } finally {
        lock.release();
      }
    }
    if (!shown) waiting(lock.heldBy);
    await pause(LOOK_EVERY_MS);
  }
}

async function readFacts<Notes>(folder: string, notes: z.ZodType<Notes>): Promise<{ readonly notes: Notes } | null> {
  let text: string;
  try {
    text = await readFile(join(folder, FACTS), 'utf8');
    const now = new Date();
    await utimes(folder, now, now);
  } catch {
    return null; // not made yet, or deleted at this moment
  }
  return { notes: notes.parse(factsSchema.parse(JSON.parse(text)).notes) };
}

async function sweep(root: string, own: string, limits: CacheLimits): Promise<void> {
  const kept: { readonly name: string; readonly used: number; readonly bytes: number }[] = [];
  const old: string[] = [];
  for (const name of await readdir(root)) {
    // Another process may delete its own at this moment.
    const found = await stat(join(root, name)).catch(() => null);
    if (found?.isDirectory() !== true) continue;
    if (name.startsWith(UNFINISHED)) {
      if (Date.now() - found.mtimeMs > ABANDONED_MS) old.push(name);
    } else if (NAME.test(name)) kept.push({ name, used: name === own ? Infinity : found.mtimeMs, bytes: await bytesOf(join(root, name)) });
  }
  let bytes = 0;
  kept
    .sort((a, b) => b.used - a.used)
    .forEach((each, index) => {
      bytes += each.bytes;
      if (each.name !== own && (index >= limits.folders || bytes > limits.bytes)) old.push(each.name);
    });
  await Promise.all(old.map((name) => rm(join(root, name), { recursive: true, force: true })));
}

async function bytesOf(folder: string): Promise<number> {
  try {
    return factsSchema.parse(JSON.parse(await readFile(join(folder, FACTS), 'utf8'))).bytes;
  } catch {
    return Infinity; // not readable: among the first to go
  }
}
