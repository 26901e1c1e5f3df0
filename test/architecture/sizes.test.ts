/** A file holds one responsibility: past this many lines it holds two. */
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

import test from 'ava';

const root = join(import.meta.dirname, '../..');
const MAX_LINES = 450;
/** Generated code, what comes with packages, and texts of SQL that were released. */
const NOT_OURS = /(^|\/)(gen|node_modules|dist|\.tool)\/|\/migrations\/functions\//;

/** Files that are still to be split. The list only shrinks. */
const MAX_LARGE = 600;
const LARGE = ['agent/engine/engine.ts', 'agent/runtimes/foreign/foreign-worker.ts', 'scheduler/store/postgres/client.ts'];

const files = globSync('{agent,bench,cli,client,compiler,console,deploy,devserver,examples,gateway,lib,release,scheduler,sdk}/**/*', {
  cwd: root,
})
  .concat(globSync(['{supervisor,terminal,test,tools}/**/*', 'proto/*', '.ci/*'], { cwd: root }))
  .filter((file) => /\.(ts|tsx|mjs|js|py)$/.test(file) && !NOT_OURS.test(file));

test(`no file of code has more than ${MAX_LINES} lines`, (t) => {
  const linesOf = (file: string): number => readFileSync(join(root, file), 'utf8').trimEnd().split('\n').length;
  t.true(files.length > 1_000, `${files.length} files were found`);
  const lines = new Map(files.map((file) => [file, linesOf(file)]));
  const tooLong = [...lines]
    .filter(([file, count]) => count > (LARGE.includes(file) ? MAX_LARGE : MAX_LINES))
    .map(([file, count]) => `${file}: ${count}`);
  t.deepEqual(tooLong, []);
  const split = LARGE.filter((file) => (lines.get(file) ?? 0) <= MAX_LINES);
  if (split.length > 0) t.log(`to be taken from LARGE: ${split.join(', ')}`);
});
