/**
 * Turns the TypeScript below a folder into JavaScript, in its place: `node strip-types.ts FOLDER`.
 * Only what Node itself would do to these sources, which have no syntax that needs more; lines and
 * columns stay, so traces fit the sources. Imports name files with their ending, and are told the new one.
 */
import { readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { stripTypeScriptTypes } from 'node:module';
import { join } from 'node:path';

/** A relative path to a source in quotes: an import, or a program to run. */
const SOURCE_PATH = /(['"])(\.\.?\/[^'"\n]*)\.ts\1/g;

const [folder] = process.argv.slice(2);
if (folder === undefined) throw new Error('the folder is missing');
for (const entry of await readdir(folder, { recursive: true, withFileTypes: true })) {
  if (!entry.isFile() || !entry.name.endsWith('.ts')) continue;
  const path = join(entry.parentPath, entry.name);
  const script = stripTypeScriptTypes(await readFile(path, 'utf8')).replaceAll(SOURCE_PATH, '$1$2.js$1');
  await writeFile(path.replace(/\.ts$/, '.js'), script);
  await rm(path);
}
