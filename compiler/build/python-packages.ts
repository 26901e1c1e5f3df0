/**
 * Installs Python packages for Linux x86_64 on any machine, or for this machine. All are resolved first; those that the
 * hosts lack are then installed, without packages that only the others need.
 */
import { glob, mkdir, mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

import { z } from 'zod';

import { ARTIFACT_LIMITS } from '../../lib/artifact-limits.ts';
import { CapstanError } from '../../lib/errors.ts';
import { tooLarge } from '../artifact/artifact-size.ts';
import type { Activity } from '../../terminal/activity.ts';
import type { Terminal } from '../../terminal/terminal.ts';
import { PYTHON_PACKAGES } from '../artifact/generated.ts';
import { layerOf, type KeptLayer } from './layers.ts';
import { pipInstaller } from './pip-installer.ts';
import { pipSettings } from './pip-settings.ts';
import type { InstallSpec, PythonInstaller, PythonWanted, Resolution, ResolvedPackage } from './python-installer.ts';
import { reachable } from './python-names.ts';
import { pinsOf, type Pins, type PythonProject } from './python-project.ts';
import { relocateScripts, removeTraces } from './python-scripts.ts';
import { digestOf, runInstaller } from '../programs/run-installer.ts';
import { boundUvCache } from './uv-cache.ts';
import { uvInstaller } from './uv-installer.ts';
import { findUv } from './uv-program.ts';

/** Changes when the same inputs give other files. */
const FORMAT = 4;
/** Downloads that are larger by less may fit. */
const WHEEL_MARGIN = 1.1;
/** Names that a progress line shows. */
const SHOWN = 3;

export const notesSchema = z.object({
  /** `requirements.txt`: the installed packages, pinned. */
  pinned: z.array(z.string()),
  /** Resolved packages → the packages they need, by normalised names. */
  needs: z.record(z.string(), z.array(z.string())),
  /** True when compiled modules require this Python version: their file names contain it (PEP 3149). */
  isCompiled: z.boolean(),
  warnings: z.array(z.string()),
});
export type PythonNotes = z.output<typeof notesSchema>;

export interface PythonSpec {
  readonly folder: string;
  readonly project: PythonProject;
  /** As written, in order. */
  readonly requirements: readonly string[];
  /** Normalised names. */
  readonly leaveOut: ReadonlySet<string>;
  /** `3.11`. */
  readonly version: string;
  /** Version of the local Python: only if the two are equal can this machine build a package without a wheel. */
  readonly ownVersion: string | null;
  /** For this machine's Python instead of Linux x86_64. */
  readonly isForHere: boolean;
  readonly cacheDir: string;
  readonly refresh: boolean;
  readonly activity: Activity;
  readonly terminal: Terminal;
}

/** @throws CapstanError INVALID_MANIFEST with the installer's message, CONFIG without uv and pip. */
export async function installPython(order: PythonSpec): Promise<KeptLayer<PythonNotes>> {
  return layerOf({
    cacheDir: order.cacheDir,
    refresh: order.refresh,
    key: await keyOf(order),
    notes: notesSchema,
    activity: order.activity,
    install: async (target) => installInto(order, join(target, PYTHON_PACKAGES)),
  });
}

/** Everything that determines what is installed. */
export async function keyOf(order: PythonSpec): Promise<unknown> {
  const { folder, project, requirements, leaveOut, version, isForHere } = order;
  const locals = await Promise.all([...requirements, ...project.constraints].map(async (each) => localDigest(each)));
  return {
    kind: 'python',
    format: FORMAT,
    requirements,
    constraints: project.constraints,
    indexes: project.indexes,
    hashes: [...project.hashes],
    lock: project.lock === null ? null : [project.lock.name, project.lock.digest],
    locals: locals.map((digest) => (digest === null ? null : [folder, digest])),
    leaveOut: [...leaveOut].sort(),
    version,
    platform: isForHere ? [process.platform, process.arch] : 'linux x86_64',
  };
}

/** The digest of a path or of `name @ file:///path`; null for other requirements. */
async function localDigest(requirement: string): Promise<string | null> {
  const url = /@ (file:\/\/[^\s;]+)/.exec(requirement)?.[1];
  if (url !== undefined) return digestOf(fileURLToPath(url));
  return requirement.startsWith('/') ? digestOf(requirement) : null;
}

/** Installs into a folder, which is made. */
export async function installInto(order: PythonSpec, target: string): Promise<PythonNotes> {
  const { folder, project, requirements, version, ownVersion, isForHere } = order;
  await mkdir(target, { recursive: true });
  const scratch = await mkdtemp(join(tmpdir(), 'capstan-packages-'));
  try {
    const pins = await pinsOf(project, folder);
    const wanted: PythonWanted = {
      ...{ folder, requirements, version, isForHere, scratch },
      constraints: pins.constraints,
      indexes: project.indexes,
      mayBuild: isForHere || (process.platform === 'linux' && process.arch === 'x64' && version === ownVersion),
    };
    return await withFallback(order, async (installer) => installWith(installer, { order, wanted, pins, target }));
  } finally {
    await rm(scratch, { recursive: true, force: true });
  }
}

/** Uses pip where uv is not available, or reaches no index: pip knows more ways of proxies and credentials. */
async function withFallback<T>(
  { cacheDir, folder, activity, terminal }: PythonSpec,
  work: (installer: PythonInstaller) => Promise<T>,
): Promise<T> {
  const uv = await findUv({
    cacheDir,
    obtaining: () => activity.begin('downloading uv, which installs Python packages'),
    waiting: (process) => activity.begin(`waiting for process ${process}, which downloads uv`),
  });
  let why: string;
  if ('why' in uv) why = `uv is not available (${uv.why})`;
  else {
    const [python, settings] = await Promise.all([pythonPath(folder), pipSettings(folder)]);
    const own = uv.isOurs ? join(cacheDir, 'uv') : undefined;
    try {
      const done = await work(uvInstaller({ path: uv.path, cacheDir: own, python, settings }));
      if (own !== undefined) await boundUvCache(own);
      return done;
    } catch (error) {
      if (!(error instanceof CapstanError) || error.code !== 'UNAVAILABLE') throw error;
      why = `uv cannot reach a package index (${error.message.split('\n')[0] ?? ''})`;
    }
  }
  activity.end();
  terminal.warn(`${why}; installing with pip, which takes longer`);
  return work(pipInstaller);
}

interface Installation {
  readonly order: PythonSpec;
  readonly wanted: PythonWanted;
  readonly pins: Pins;
  readonly target: string;
}

async function installWith(installer: PythonInstaller, { order, wanted, pins, target }: Installation): Promise<PythonNotes> {
  const { activity, leaveOut } = order;
  activity.begin(`resolving Python packages with ${installer.name}`);
  const resolution = await installer.resolve(wanted);
  const kept = reachable(resolution.roots, resolution.needs, leaveOut);
  const packages = resolution.packages.filter(({ name }) => kept.has(name));
  if (!wanted.isForHere) refuseTooLarge(packages);
  activity.begin(`installing ${packages.length} Python packages with ${installer.name}`);
  if (packages.length > 0)
    await installer.install(wanted, {
      ...{ packages, target, hashes: pins.hashes, isBuilt: resolution.isBuilt },
      downloading: downloadsOf(packages, activity),
    });
  await relocateScripts(target);
  await removeTraces(target);
  return {
    pinned: await installedIn(target),
    needs: needsOf(resolution),
    isCompiled: await isCompiled(target),
    warnings: [...pins.warnings],
  };
}

/** Wheels are as small as the archive makes their files, within a few per cent. */
function refuseTooLarge(packages: readonly ResolvedPackage[]): void {
  const sized = packages.map(({ name, bytes }) => ({ name, size: bytes ?? 0 }));
  const bytes = sized.reduce((sum, { size }) => sum + size, 0);
  if (bytes > ARTIFACT_LIMITS.bytes * WHEEL_MARGIN) throw tooLarge(ARTIFACT_LIMITS.bytes, sized, bytes);
}

/** Counts the bytes of the downloads that are complete; packages that the installer has cached are not downloaded. */
function downloadsOf(packages: readonly ResolvedPackage[], activity: Activity): InstallSpec['downloading'] {
  const sizes = new Map(packages.map(({ name, bytes }) => [name, bytes ?? 0]));
  const open = new Set<string>();
  let done = 0;
  let total = 0;
  return (name, isComplete) => {
    if (total === 0) activity.begin('downloading Python packages');
    if (isComplete) {
      open.delete(name);
      done += sizes.get(name) ?? 0;
    } else {
      open.add(name);
      total += sizes.get(name) ?? 0;
    }
    activity.at(done, total, [...open].slice(0, SHOWN).join(', '));
  };
}

function needsOf({ needs }: Resolution): Record<string, string[]> {
  return Object.fromEntries([...needs].map(([name, others]) => [name, [...others]]));
}

/** `numpy==2.1.0` of each package, by its own metadata. */
async function installedIn(target: string): Promise<string[]> {
  const found: string[] = [];
  for (const name of await readdir(target)) {
    if (!name.endsWith('.dist-info')) continue;
    const text = await readFile(join(target, name, 'METADATA'), 'utf8').catch(() => ''); // damaged: the folder's name says enough
    const own = /^Name: *(\S+)/im.exec(text)?.[1] ?? name.split('-')[0] ?? name;
    const version = /^Version: *(\S+)/im.exec(text)?.[1] ?? name.replace(/\.dist-info$/, '').split('-')[1] ?? '0';
    found.push(`${own}==${version}`);
  }
  return found.sort();
}

async function isCompiled(target: string): Promise<boolean> {
  for await (const _module of glob('**/*.cpython-*.so', { cwd: target })) return true;
  return false;
}

/** The path of this machine's Python; uv would otherwise choose another, such as that of a virtual environment. */
export async function pythonPath(folder: string): Promise<string> {
  const { stdout } = await runInstaller('python3', ['-c', 'import sys; print(sys.executable)'], { cwd: folder });
  return stdout.trim() || 'python3';
}
