/**
 * Order inside the parts: a folder is used by those above it and does not use them. A pair of folders that import each other needs
 * its reason in the list below, which may only get shorter.
 */
import { dirname } from 'node:path/posix';

import test from 'ava';

import { importsOf, sourceFiles, type Import } from './imports.ts';

/** Pairs of folders that import each other, types included: `a ↔ b`, each with its reason. There is none. */
const PAIRS: readonly string[] = [];

/** Folders with sources of ours; of generated code and of the SDK only users are of interest. */
function isCounted(file: string): boolean {
  return /\.m?ts$|\.mjs$/.test(file) && file.includes('/') && !/^(?:proto|sdk)\//.test(file);
}

/** Pairs of folders of which each imports a file of the other, in any way. */
function pairsOf(imports: readonly Import[]): string[] {
  const edges = new Set<string>();
  for (const { from, target } of imports) {
    const [a, b] = [dirname(from), dirname(target)];
    if (a !== b && isCounted(from) && isCounted(target)) edges.add(`${a} ↔ ${b}`);
  }
  return [...edges]
    .filter((edge) => {
      const [a = '', b = ''] = edge.split(' ↔ ');
      return a < b && edges.has(`${b} ↔ ${a}`);
    })
    .sort();
}

test('no two folders import each other but those of the list', (t) => {
  t.deepEqual(pairsOf(sourceFiles().flatMap((file) => importsOf(file))), [...PAIRS].sort());
});

test('a core owns its ports: it imports no other folder of its part', (t) => {
  const cores = sourceFiles().filter((file) => /^(?:scheduler|agent|supervisor)\/core\//.test(file));
  t.true(cores.length > 50);
  const outside = cores
    .flatMap((file) => importsOf(file))
    .filter(({ from, target }) => !target.startsWith(`${from.split('/')[0] ?? ''}/core/`) && !/^(?:lib|proto)\//.test(target));
  t.deepEqual(
    outside.map(({ from, target }) => `${from} imports ${target}`),
    [],
  );
});

test('a pair is seen in types, in what is loaded later, and between a folder and one inside it', (t) => {
  const pairs = (...files: readonly (readonly [string, string])[]): string[] =>
    pairsOf(files.flatMap(([file, source]) => importsOf(file, source)));
  t.deepEqual(
    pairs(
      ['agent/engine/a.ts', `import type { B } from '../session/b.ts';`],
      ['agent/session/b.ts', `const c = await import('../engine/c.ts');`],
      ['agent/session/d.ts', `import { e } from './inner/e.ts';`],
      ['agent/session/inner/e.ts', `export * from '../f.ts';`],
      ['agent/session/f.ts', `import { readFile } from 'node:fs'; import { g } from '../../lib/g.ts';`],
    ),
    ['agent/engine ↔ agent/session', 'agent/session ↔ agent/session/inner'],
  );
});
