/** A file holds one responsibility: past this many lines it holds two. */
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

import test from 'ava';

const root = join(import.meta.dirname, '../..');
const MAX_LINES = 450;
/** Generated code, what comes with packages, and texts of SQL that were released. */
const NOT_OURS = /(^|\/)(gen|node_modules|dist|\.tool)\/|\/migrations\/functions\//;

/** Files that are still to be split, at the lines that they may have until then. The list only shrinks. */
const LARGE: Readonly<Record<string, number>> = {
  'agent/engine/engine.ts': 485,
  'agent/runtimes/foreign/foreign-worker.ts': 461,
  'compiler/discovery/node.ts': 452,
  'compiler/discovery/python/discover.py': 495,
  'compiler/signatures/python/read_schema.py': 494,
  'scheduler/engine/engine.ts': 473,
  'scheduler/store/postgres/client.ts': 550,
  'test/agent/core-attempts.test.ts': 490,
  'test/conformance/runtime/python.test.ts': 459,
  'test/gateway/bad-requests.test.ts': 479,
  'test/gateway/fake-scheduler.ts': 500,
  'test/gateway/websockets.test.ts': 500,
  'test/integration/control.test.ts': 513,
  'test/integration/graphql.test.ts': 530,
  'test/integration/scheduler.test.ts': 570,
  'test/integration/webhooks.test.ts': 474,
  'test/simulator/scenario.ts': 587,
};

const files = globSync('{agent,bench,cli,client,compiler,console,deploy,devserver,examples,gateway,lib,release,scheduler,sdk}/**/*', {
  cwd: root,
})
  .concat(globSync(['{supervisor,terminal,test,tools}/**/*', 'proto/*', '.ci/*'], { cwd: root }))
  .filter((file) => /\.(ts|tsx|mjs|js|py)$/.test(file) && !NOT_OURS.test(file));

test(`no file of code has more than ${MAX_LINES} lines`, (t) => {
  const linesOf = (file: string): number => readFileSync(join(root, file), 'utf8').trimEnd().split('\n').length;
  t.true(files.length > 1_000, `${files.length} files were found`);
  const lines = new Map(files.map((file) => [file, linesOf(file)]));
  const tooLong = [...lines].filter(([file, count]) => count > (LARGE[file] ?? MAX_LINES)).map(([file, count]) => `${file}: ${count}`);
  t.deepEqual(tooLong, []);
  const split = Object.keys(LARGE).filter((file) => (lines.get(file) ?? 0) <= MAX_LINES);
  if (split.length > 0) t.log(`to be taken from LARGE: ${split.join(', ')}`);
});
