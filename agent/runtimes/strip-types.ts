/**
 * Converts the TypeScript below a folder to JavaScript in place: `node strip-types.ts FOLDER`. Uses Node's own type
 * stripping, since these sources have no syntax that needs more; lines and columns stay the same, so traces match the
 * sources. File extensions in imports are rewritten.
 */
import { readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { stripTypeScriptTypes } from 'node:module';
import { join } from 'node:path';

/** A quoted relative path to a source: an import, or a program to run. */
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
