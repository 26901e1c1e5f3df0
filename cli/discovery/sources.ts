/**
 * Selects the files of an application that may declare endpoints: those that ignore files do not exclude and that name
 * the SDK.
 */
import { readFile } from 'node:fs/promises';
import { extname, join } from 'node:path';

import { listFiles } from '../deploy/files.ts';
import { decodeSource, encodingOf } from '../text-file.ts';
import type { FileError, Language } from './declared.ts';
import { errorOf } from './file-error.ts';

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

/**
 * Returns the files by language, ordered by path. @throws CapstanError INVALID_ARCHIVE for a link that leads out of the
 * folder.
 */
export async function sourcesOf(folder: string): Promise<Sources> {
  const found: Record<Language, Source[]> = { python: [], node: [] };
  const errors: FileError[] = [];
  const { entries } = await listFiles(folder, { skip: (name, path) => name === 'node_modules' || path === 'python_packages' });
  for (const { path, stat } of entries) {
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
