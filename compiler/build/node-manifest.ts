/** `package.json` and `package-lock.json` of a project, as the installation of its packages needs them. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';

import { z } from 'zod';

import { CapstanError } from '../../lib/errors.ts';
import { ToolError } from '../../terminal/tool-error.ts';
import { decodeUtf8 } from '../../terminal/text-file.ts';

const names = z.record(z.string(), z.string()).optional();
const manifestSchema = z.looseObject({
  dependencies: names,
  optionalDependencies: names,
  devDependencies: names,
  overrides: z.record(z.string(), z.unknown()).optional(),
  workspaces: z.unknown().optional(),
});
export type NodeManifest = z.output<typeof manifestSchema>;

/** Undefined when the file is missing. @throws CapstanError INVALID_MANIFEST for a damaged one. */
export async function readNodeManifest(folder: string): Promise<NodeManifest | undefined> {
  let bytes: Buffer;
  try {
    bytes = await readFile(join(folder, 'package.json'));
  } catch {
    return undefined; // the file is optional
  }
  const text = decodeUtf8(bytes, 'package.json', 'Node');
  try {
    return manifestSchema.parse(JSON.parse(text));
  } catch (cause) {
    throw new CapstanError('INVALID_MANIFEST', 'package.json must be JSON, with an object of strings as dependencies', { cause });
  }
}

/** Returns the manifest without scripts, which do not run, and without some packages; `undefined` of none stays absent. */
export function manifestWithout(manifest: NodeManifest, leave: ReadonlySet<string>): NodeManifest {
  const { scripts: _scripts, ...kept } = manifest;
  return {
    ...kept,
    ...dropped('dependencies', manifest.dependencies, leave),
    ...dropped('optionalDependencies', manifest.optionalDependencies, leave),
    ...dropped('devDependencies', manifest.devDependencies, leave),
  };
}

function dropped(key: string, entries: Readonly<Record<string, unknown>> | undefined, leave: ReadonlySet<string>): object {
  return entries === undefined ? {} : { [key]: Object.fromEntries(Object.entries(entries).filter(([name]) => !leave.has(name))) };
}

const entrySchema = z.looseObject({
  link: z.boolean().optional(),
  dependencies: names,
  optionalDependencies: names,
  devDependencies: names,
});
const lockSchema = z.looseObject({
  packages: z.record(z.string(), entrySchema).optional(),
  dependencies: z.record(z.string(), z.unknown()).optional(),
});
export type NpmLock = z.output<typeof lockSchema>;

/** @throws CapstanError INVALID_MANIFEST for a damaged file. */
export function readNpmLock(name: string, text: string): NpmLock {
  try {
    return lockSchema.parse(JSON.parse(text));
  } catch (cause) {
    throw new ToolError('INVALID_MANIFEST', `${name} is not a valid lock file of npm`, 'Regenerate it: npm install --package-lock-only', {
      cause,
    });
  }
}

/** Whether it names folders of this machine: members of a workspace, or paths. */
export function hasLinks({ packages = {} }: NpmLock): boolean {
  return Object.values(packages).some(({ link }) => link === true);
}

/** Returns the lock for a manifest without some packages; what only these need is left for npm to remove. */
export function lockWithout(lock: NpmLock, leave: ReadonlySet<string>): NpmLock {
  const { packages, dependencies } = lock;
  const kept = Object.entries(packages ?? {}).flatMap(([path, entry]) => {
    if (path === '') return [[path, manifestWithout(entry, leave)] as const];
    return leave.has(path.replace(/^node_modules\//, '')) ? [] : [[path, entry] as const];
  });
  return {
    ...lock,
    ...(packages === undefined ? {} : { packages: Object.fromEntries(kept) as typeof packages }),
    ...dropped('dependencies', dependencies, leave),
  };
}
