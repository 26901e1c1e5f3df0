/** Installs npm packages for Linux x86_64 on any machine: those of `package.json` and of the declarations. */
import { mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';

import { z } from 'zod';

import { CapstanError } from '../../lib/errors.ts';
import { ToolError } from '../terminal/tool-error.ts';
import type { Activity } from '../terminal/activity.ts';
import { layerOf, type KeptLayer } from './layers.ts';
import { digestOf, faultOf, runInstaller } from './run-installer.ts';

const SDK = '@capstan/sdk';
const packageSchema = z.looseObject({ dependencies: z.record(z.string(), z.string()).optional() });
const notesSchema = z.null();

export interface NodeOrder {
  readonly folder: string;
  /** As declared: `name@range`, or a path in the folder. */
  readonly declared: readonly string[];
  readonly exclude: readonly string[];
  readonly cacheDir: string;
  readonly refresh: boolean;
  readonly activity: Activity;
}

/**
 * Returns null when there is nothing to install. @throws CapstanError INVALID_MANIFEST with npm's message, CONFIG
 * without npm.
 */
export async function installNode(order: NodeOrder): Promise<KeptLayer<null> | null> {
  const { folder, exclude, cacheDir, refresh, activity } = order;
  const leave = new Set([SDK, ...exclude]);
  const listed = Object.entries(await dependenciesOf(folder)).filter(([name]) => !leave.has(name));
  const dependencies = Object.fromEntries(listed.map(([name, range]) => [name, absolute(folder, range)]));
  const declared = order.declared.filter((each) => !leave.has(nameOf(each))).map((each) => absolute(folder, each));
  if (listed.length === 0 && declared.length === 0) return null;
  const lock = await readFile(join(folder, 'package-lock.json'), 'utf8').catch(() => null);
  const files = [...Object.values(dependencies), ...declared].map((each) => each.replace(/^file:/, ''));
  const locals = await Promise.all(files.map(digestOf));
  return layerOf({
    cacheDir,
    refresh,
    key: { kind: 'node', dependencies, declared, lock, locals },
    notes: notesSchema,
    activity,
    install: async (target) => {
      activity.begin('installing npm packages');
      await install(target, dependencies, declared, lock);
      return null;
    },
  });
}

async function install(
  target: string,
  dependencies: Readonly<Record<string, string>>,
  declared: readonly string[],
  lock: string | null,
): Promise<void> {
  // Beside the target, so that leftovers of a killed build are deleted with its other leftovers.
  const folder = await mkdtemp(join(dirname(target), 'npm-'));
  try {
    await writeFile(join(folder, 'package.json'), JSON.stringify({ name: 'application', private: true, dependencies }));
    if (lock !== null) await writeFile(join(folder, 'package-lock.json'), lock);
    const platform = ['--os=linux', '--cpu=x64', '--libc=glibc'];
    const quiet = ['--no-audit', '--no-fund', '--loglevel=error', '--omit=dev', '--ignore-scripts', '--install-links'];
    const ended = await runInstaller('npm', ['install', ...quiet, ...platform, ...declared], { cwd: folder });
    if (!ended.ok)
      throw new ToolError(
        'INVALID_MANIFEST',
        `installing npm packages failed:\n  ${faultOf(ended)}`,
        'Correct the dependencies; npm’s own settings (registry, proxy) apply.',
      );
    // This file records where on this machine each package came from.
    await rm(join(folder, 'node_modules/.package-lock.json'), { force: true });
    await rename(join(folder, 'node_modules'), join(target, 'node_modules'));
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

export async function dependenciesOf(folder: string): Promise<Readonly<Record<string, string>>> {
  let text: string;
  try {
    text = await readFile(join(folder, 'package.json'), 'utf8');
  } catch {
    return {}; // the file is optional
  }
  try {
    return packageSchema.parse(JSON.parse(text)).dependencies ?? {};
  } catch (cause) {
    throw new CapstanError('INVALID_MANIFEST', 'package.json must be JSON, with an object of strings as dependencies', { cause });
  }
}

/** Makes relative paths absolute. */
function absolute(folder: string, spec: string): string {
  const path = /^file:(.+)$/.exec(spec)?.[1] ?? (/^\.{1,2}\//.test(spec) ? spec : undefined);
  return path === undefined ? spec : `file:${resolve(folder, path)}`;
}

/** `@scope/name@^1` → `@scope/name`. */
export function nameOf(spec: string): string {
  return /^(@?[^@]+)/.exec(spec)?.[1] ?? spec;
}
