/**
 * Caches installed packages as layers. The key of a layer covers all its inputs, so a rebuild after a code change
 * reuses it.
 */
import { lstat, mkdir, readdir, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';

import { z } from 'zod';

import type { Layer } from '../artifact/artifact.ts';
import type { Activity } from '../../terminal/activity.ts';
import { ARTIFACT_LIMITS } from '../../lib/artifact-limits.ts';
import { checkSize } from '../artifact/artifact-size.ts';
import { writeMember, type ArchiveEntry } from '../artifact/archive.ts';
import { cachedFolder } from './cached-folders.ts';

const LIMITS = { folders: 20, bytes: 10_000_000_000 };
const MEMBER = 'layer.tar.gz';

export interface KeptLayer<Notes> {
  readonly layer: Layer;
  readonly notes: Notes;
  /** False when the layer was cached. */
  readonly isNew: boolean;
}

export interface LayerSpec<Notes> {
  readonly cacheDir: string;
  /** All inputs that determine what is installed. */
  readonly key: unknown;
  readonly refresh: boolean;
  readonly notes: z.ZodType<Notes>;
  /** Installs into an empty folder, in the layout of the artifact. */
  readonly install: (folder: string) => Promise<Notes>;
  readonly activity: Activity;
}

export async function layerOf<Notes>(order: LayerSpec<Notes>): Promise<KeptLayer<Notes>> {
  const { activity } = order;
  const schema = z.object({
    files: z.number(),
    packages: z.record(z.string(), z.number()),
    programs: z.array(z.string()).optional(),
    installed: z.unknown(),
  });
  const { folder, notes, isNew } = await cachedFolder({
    root: join(order.cacheDir, 'layers'),
    key: order.key,
    refresh: order.refresh,
    notes: schema,
    limits: LIMITS,
    waiting: (process) => activity.begin(`waiting for process ${process}, which installs the same packages`),
    make: async (made) => {
      const files = join(made, 'files');
      await mkdir(files);
      const installed = await order.install(files);
      const entries = await entriesOf(files);
      const packages = sizesOf(entries);
      await checkSize({ root: files, entries, packages: [], packedBytes: 0, limit: ARTIFACT_LIMITS.bytes });
      activity.begin('packing packages');
      await writeMember(files, entries, join(made, MEMBER), (done, total) => activity.at(done, total));
      await rm(files, { recursive: true, force: true });
      const { size } = await stat(join(made, MEMBER));
      return { bytes: size, notes: { files: entries.length, packages, programs: programsOf(entries), installed } };
    },
  });
  const { files, packages, programs, installed } = notes;
  return { layer: { member: join(folder, MEMBER), files, packages, programs }, notes: order.notes.parse(installed), isNew };
}

async function entriesOf(folder: string): Promise<ArchiveEntry[]> {
  const entries: ArchiveEntry[] = [];
  for (const entry of await readdir(folder, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name).slice(folder.length + 1);
    if (entry.isFile() || entry.isSymbolicLink()) entries.push({ path, name: path, stat: await lstat(join(folder, path)) });
  }
  return entries;
}

/** What `python_packages/bin` and `node_modules/.bin` hold. */
function programsOf(entries: readonly ArchiveEntry[]): string[] {
  return entries.flatMap(({ name }) => /^(?:python_packages\/bin|node_modules\/\.bin)\/([^/]+)$/.exec(name)?.[1] ?? []);
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
