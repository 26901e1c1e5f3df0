/**
 * Caches installed packages as layers. The key of a layer covers all its inputs, so a rebuild after a code change
 * reuses it.
 */
import { createHash } from 'node:crypto';
import { lstat, mkdir, mkdtemp, readdir, readFile, rename, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { z } from 'zod';

import type { Layer } from '../deploy/artifact.ts';
import { writeMember, type ArchiveEntry } from './archive.ts';

/** The least recently used layers are deleted first. */
const KEPT = 20;
/** Age at which leftovers of a killed build are deleted, ms; no installation takes as long. */
const ABANDONED_MS = 24 * 3_600_000;
const FACTS = 'layer.json';
const MEMBER = 'layer.tar.gz';

const factsSchema = z.object({
  files: z.number(),
  packages: z.record(z.string(), z.number()),
  /** The installer's result. */
  notes: z.unknown(),
});

export interface KeptLayer<Notes> {
  readonly layer: Layer;
  readonly notes: Notes;
  /** False when the layer was cached. */
  readonly isNew: boolean;
}

export interface LayerOrder<Notes> {
  readonly cacheDir: string;
  /** All inputs that determine what is installed. */
  readonly key: unknown;
  readonly refresh: boolean;
  readonly notes: z.ZodType<Notes>;
  /** Installs into an empty folder, in the layout of the artifact. */
  readonly install: (folder: string) => Promise<Notes>;
}

export async function layerOf<Notes>({ cacheDir, key, refresh, notes, install }: LayerOrder<Notes>): Promise<KeptLayer<Notes>> {
  const name = createHash('sha256').update(JSON.stringify(key)).digest('hex').slice(0, 32);
  const root = join(cacheDir, 'layers');
  const place = join(root, name);
  if (refresh) await rm(place, { recursive: true, force: true });
  const known = await readLayer(place, notes);
  if (known !== null) return { ...known, isNew: false };
  await mkdir(root, { recursive: true });
  const made = await mkdtemp(join(root, '.new-'));
  try {
    const folder = join(made, 'files');
    await mkdir(folder);
    const told = await install(folder);
    const entries = await entriesOf(folder);
    await writeMember(folder, entries, join(made, MEMBER));
    const facts = { files: entries.length, packages: sizesOf(entries), notes: told };
    await writeFile(join(made, FACTS), JSON.stringify(facts));
    await rm(folder, { recursive: true, force: true });
    // Another build may have created the same layer meanwhile; the two are equal.
    await rm(place, { recursive: true, force: true });
    await rename(made, place);
  } finally {
    await rm(made, { recursive: true, force: true });
  }
  await sweep(root);
  const layer = await readLayer(place, notes);
  if (layer === null) throw new Error(`cannot read the layer ${place}`);
  return { ...layer, isNew: true };
}

async function readLayer<Notes>(place: string, notes: z.ZodType<Notes>): Promise<{ layer: Layer; notes: Notes } | null> {
  let text: string;
  try {
    text = await readFile(join(place, FACTS), 'utf8');
  } catch {
    return null; // not created yet
  }
  const facts = factsSchema.parse(JSON.parse(text));
  const now = new Date();
  await utimes(place, now, now);
  const { files, packages } = facts;
  return { layer: { member: join(place, MEMBER), files, packages }, notes: notes.parse(facts.notes) };
}

async function sweep(root: string): Promise<void> {
  const ages: { readonly name: string; readonly used: number }[] = [];
  for (const name of await readdir(root)) {
    // Another build may delete its own layer at this moment.
    const found = await stat(join(root, name)).catch(() => null);
    if (found !== null) ages.push({ name, used: found.mtimeMs });
  }
  const isUnfinished = ({ name }: { readonly name: string }): boolean => name.startsWith('.');
  const old = [
    ...ages.filter((each) => isUnfinished(each) && Date.now() - each.used > ABANDONED_MS),
    ...ages
      .filter((each) => !isUnfinished(each))
      .sort((a, b) => b.used - a.used)
      .slice(KEPT),
  ];
  await Promise.all(old.map(({ name }) => rm(join(root, name), { recursive: true, force: true })));
}

async function entriesOf(folder: string): Promise<ArchiveEntry[]> {
  const entries: ArchiveEntry[] = [];
  for (const entry of await readdir(folder, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name).slice(folder.length + 1);
    if (entry.isFile() || entry.isSymbolicLink()) entries.push({ path, name: path, stat: await lstat(join(folder, path)) });
  }
  return entries;
}

/** Grouped by the folder directly in `python_packages` or `node_modules`, a scoped one with its package. */
function sizesOf(entries: readonly ArchiveEntry[]): Record<string, number> {
  const sizes: Record<string, number> = {};
  for (const { name, stat } of entries) {
    const [, top = name, inner] = name.split('/');
    const key = top.startsWith('@') && inner !== undefined ? `${top}/${inner}` : top;
    sizes[key] = (sizes[key] ?? 0) + stat.size;
  }
  return sizes;
}
