/** Resolves a module's name in the manifest to its file in the folder, by the agent's rules. */
import { readFile, realpath, stat } from 'node:fs/promises';
import { extname, join, relative, resolve, sep } from 'node:path';

import { CapstanError } from '../../lib/errors.ts';
import { decodeSource } from '../../terminal/text-file.ts';

/** Suffixes that may follow the name as written. */
const endings = ['', '.ts', '.mts', '.js', '.mjs', '.cjs', '/index.ts', '/index.mts', '/index.js', '/index.mjs', '/index.cjs'];
const pythonEndings = ['.py', '/__init__.py'];

/** File types that the runtimes load. */
const loadable = new Set(['.ts', '.mts', '.cts', '.js', '.mjs', '.cjs']);
const PYTHON = '.py';

export interface Module {
  /** Path that the agent receives, relative to the folder, with forward slashes. */
  readonly path: string;
  readonly source: string;
}

export function isPython({ path }: Module): boolean {
  return extname(path) === PYTHON;
}

/**
 * Finds and reads a module. `where` is its place in the manifest.
 * @throws CapstanError INVALID_MANIFEST when it does not exist, is outside the folder, or is of an unsupported
 * language.
 */
export async function readModule(folder: string, name: string, where: string): Promise<Module> {
  const root = await realpath(folder);
  const spellings = name.includes('/') ? [name] : [name, name.replaceAll('.', '/')];
  for (const spelling of spellings) {
    for (const ending of [...endings, ...pythonEndings]) {
      const file = resolve(root, `${spelling}${ending}`);
      if (!(await isFile(file))) continue;
      if (!isInside(root, file) || !isInside(root, await realpath(file))) throw invalid(where, `the module ${name} is outside the folder`);
      if (!loadable.has(extname(file)) && extname(file) !== PYTHON)
        throw invalid(where, `the module ${name} must be JavaScript, TypeScript or Python`);
      return { path: relative(root, file).split(sep).join('/'), source: decodeSource(await readFile(file), relative(root, file)) };
    }
  }
  throw invalid(
    where,
    `the module ${name} is not in the folder (checked ${join('.', name)} with the endings .ts .mts .js .mjs .cjs .py, and as a folder with an index file or __init__.py)`,
  );
}

/** Returns the file of a relative import in `from`; null when there is none, which is not an error. */
export async function readImport(folder: string, from: string, specifier: string): Promise<Module | null> {
  const root = await realpath(folder);
  const target = resolve(root, from, '..', specifier);
  for (const candidate of [
    target,
    target.replace(/\.js$/, '.ts'),
    target.replace(/\.mjs$/, '.mts'),
    ...endings.slice(1).map((ending) => target + ending),
  ]) {
    if (!isInside(root, candidate) || !(await isFile(candidate)) || !loadable.has(extname(candidate))) continue;
    return {
      path: relative(root, candidate).split(sep).join('/'),
      source: decodeSource(await readFile(candidate), relative(root, candidate)),
    };
  }
  return null;
}

function isInside(root: string, path: string): boolean {
  return path.startsWith(root + sep);
}

async function isFile(path: string): Promise<boolean> {
  try {
    return (await stat(path)).isFile();
  } catch {
    return false; // absent or not readable: another suffix may match
  }
}

function invalid(where: string, rule: string): CapstanError {
  return new CapstanError('INVALID_MANIFEST', `${where}: ${rule}`, { field: where });
}
