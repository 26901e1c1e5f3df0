/** What the first page loads: the entry with its static imports and style sheets, compressed. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';

const LIMIT_BYTES = 250_000;

/** `dist`: the folder of a build, with its manifest. */
export function initialLoad(dist) {
  const manifest = JSON.parse(readFileSync(join(dist, 'manifest.json'), 'utf8'));
  const files = new Set(['index.html']);
  const add = (key) => {
    const chunk = manifest[key];
    if (chunk === undefined) throw new Error(`the build's manifest has no chunk ${key}`);
    if (files.has(chunk.file)) return;
    files.add(chunk.file);
    for (const file of chunk.css ?? []) files.add(file);
    for (const each of chunk.imports ?? []) add(each);
  };
  const entries = Object.keys(manifest).filter((key) => manifest[key].isEntry === true);
  if (entries.length === 0) throw new Error('the build has no entry');
  entries.forEach(add);
  const bytes = [...files].reduce((sum, file) => sum + gzipSync(readFileSync(join(dist, file))).length, 0);
  return { bytes, limit: LIMIT_BYTES };
}
