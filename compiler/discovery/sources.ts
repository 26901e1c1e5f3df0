/**
 * Selects the files of an application that may declare endpoints: those that ignore files do not exclude and that name
 * the SDK.
 */
import { readdir, readFile } from 'node:fs/promises';
import { extname, join } from 'node:path';

import { listFiles } from '../artifact/files.ts';
import { decodeSource, encodingOf } from '../../terminal/text-file.ts';
import type { FileError, Language } from './declared.ts';
import { errorOf } from './file-error.ts';
import { outputFolderOf } from './tsconfig.ts';

const languages: Readonly<Record<string, Language>> = {
  '.py': 'python',
  '.ts': 'node',
  '.mts': 'node',
  '.cts': 'node',
  '.js': 'node',
  '.mjs': 'node',
  '.cjs': 'node',
};
const mentions: Readonly<Record<Language, RegExp>> = {
  python: /^\s*(import|from)\s+capstan\b|\bimport\s.*\bcapstan\b/m,
  node: /@capstan\/sdk/,
};
/** Files that people write are smaller; bundles and data are not. */
const LONGEST = 2_000_000;

export interface Source {
  /** Relative to the folder, with forward slashes. */
  readonly path: string;
  readonly source: string;
}

export interface Sources extends Readonly<Record<Language, readonly Source[]>> {
  /** Files whose encoding their language does not read. */
  readonly errors: readonly FileError[];
}

/** Folders that the TypeScript compiler writes into, with a slash at the end: `outDir` of the project's own configurations. */
async function compilerOutputs(folder: string): Promise<readonly string[]> {
  const names = (await readdir(folder)).filter((name) => /^tsconfig(\..+)?\.json$/.test(name));
  const found = await Promise.all(names.map(async (name) => outputFolderOf(folder, name)));
  return found.flatMap((each) => (each === undefined ? [] : [`${each}/`]));
}

/** Whether the compiler made a file, of sources that declare the same endpoints. */
function isCompiled(path: string, outputs: readonly string[], all: ReadonlySet<string>): boolean {
  const [, stem, kind = ''] = /^(.*)\.([cm]?)js$/.exec(path) ?? [];
  if (stem === undefined) return false;
  return all.has(`${stem}.${kind}ts`) || outputs.some((each) => path.startsWith(each));
}

/**
 * Returns the files by language, ordered by path. @throws CapstanError INVALID_ARCHIVE for a link that leads out of the
 * folder.
 */
export async function sourcesOf(folder: string): Promise<Sources> {
  const found: Record<Language, Source[]> = { python: [], node: [] };
  const errors: FileError[] = [];
  const { entries } = await listFiles(folder, { skip: (name, path) => name === 'node_modules' || path === 'python_packages' });
  const outputs = await compilerOutputs(folder);
  const paths = new Set(entries.map(({ path }) => path));
  for (const { path, stat } of entries) {
    if (isCompiled(path, outputs, paths)) continue;
    const language = languages[extname(path)];
    if (language === undefined || !stat.isFile() || stat.size > LONGEST || /\.d\.[cm]?ts$/.test(path)) continue;
    const bytes = await readFile(join(folder, path));
    if (!mentions[language].test(new TextDecoder(encodingOf(bytes)).decode(bytes))) continue;
    try {
      found[language].push({ path, source: decodeSource(bytes, path) });
    } catch (thrown) {
      errors.push(errorOf(path, thrown));
    }
  }
  return { ...found, errors };
}
