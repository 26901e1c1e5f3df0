/** Says which packages a build leaves out because the base image has them, with what they would add. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { z } from 'zod';

import { CapstanError } from '../../lib/errors.ts';
import { sizeText } from '../../terminal/size-text.ts';
import { cachedFolder } from './cached-folders.ts';
import type { PackageIndexes } from './python-installer.ts';
import { normalised, requirementName } from './python-names.ts';
import { pipSettings } from './pip-settings.ts';
import { pythonPath } from './python-packages.ts';
import { uvInstaller } from './uv-installer.ts';
import { findUv } from './uv-program.ts';

const LIMITS = { folders: 100, bytes: Infinity };
/** Time until sizes that could not be read are requested again, ms. */
const AGAIN_AFTER_MS = 24 * 3_600_000;

const notesSchema = z.object({
  at: z.number(),
  /** Bytes of the downloads, by normalised names; null when they could not be read. */
  sizes: z.record(z.string(), z.number()).nullable(),
});

export interface LeftOut {
  readonly folder: string;
  /** Of the base image, normalised. */
  readonly names: readonly string[];
  /** Those of the project; they decide the version. */
  readonly requirements: readonly string[];
  readonly indexes: PackageIndexes;
  /** `3.11`. */
  readonly version: string;
  readonly cacheDir: string;
}

/** `not bundled, as hosts have them: numpy (16.9 MB), torch; …`, without sizes that nobody knows. */
export async function leftOutText(leftOut: LeftOut): Promise<string> {
  const sizes = await sizesOf(leftOut);
  const named = leftOut.names.map((name) => {
    const bytes = sizes[normalised(name)];
    return bytes === undefined ? name : `${name} (${sizeText(bytes)})`;
  });
  return `not bundled, because the base image has ${named.length === 1 ? 'it' : 'them'}: ${named.join(', ')}; --bundle-base-packages bundles ${named.length === 1 ? 'it' : 'them'}`;
}

async function sizesOf(leftOut: LeftOut): Promise<Readonly<Record<string, number>>> {
  const { names, requirements, version, cacheDir, indexes } = leftOut;
  const wanted = names.map((name) => requirements.find((each) => requirementName(each) === name) ?? name).sort();
  const order = {
    root: join(cacheDir, 'sizes'),
    key: { wanted, indexes, version },
    refresh: false,
    notes: notesSchema,
    limits: LIMITS,
    waiting: () => undefined,
    make: async () => ({ bytes: 0, notes: { at: Date.now(), sizes: await readSizes(leftOut, wanted) } }),
  };
  const { notes } = await cachedFolder(order);
  if (notes.sizes !== null || Date.now() - notes.at < AGAIN_AFTER_MS) return notes.sizes ?? {};
  return (await cachedFolder({ ...order, refresh: true })).notes.sizes ?? {};
}

/** Null without uv and without an index: a build that installs nothing needs neither. */
async function readSizes(
  { folder, version, indexes, cacheDir }: LeftOut,
  requirements: readonly string[],
): Promise<Record<string, number> | null> {
  const uv = await findUv({ cacheDir, obtaining: null, waiting: () => undefined });
  if ('why' in uv) return null;
  const scratch = await mkdtemp(join(tmpdir(), 'capstan-sizes-'));
  try {
    const [python, settings] = await Promise.all([pythonPath(folder), pipSettings(folder)]);
    const installer = uvInstaller({ path: uv.path, cacheDir: uv.isOurs ? join(cacheDir, 'uv') : undefined, python, settings });
    const { packages } = await installer.resolve({
      ...{ folder, requirements, version, indexes, scratch },
      constraints: [],
      isForHere: false,
      mayBuild: false,
      alone: true,
    });
    return Object.fromEntries(packages.flatMap(({ name, bytes }) => (bytes === null ? [] : [[name, bytes]])));
  } catch (error) {
    // The version that is wanted may be one that only the hosts have.
    if (error instanceof CapstanError && (error.code === 'UNAVAILABLE' || error.code === 'INVALID_MANIFEST')) return null;
    throw error;
  } finally {
    await rm(scratch, { recursive: true, force: true });
  }
}
