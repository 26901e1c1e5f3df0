/** The linter's configuration bites: each bad snippet, put where its rule holds, is refused by that rule. */
import { execFile } from 'node:child_process';
import { copyFile, mkdir, symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';

import test from 'ava';

import { parts, root } from './imports.ts';
import { folderOf } from '../support/folder.ts';

interface Snippet {
  readonly file: string;
  readonly source: string;
  /** The rule that must refuse it; null when it must pass. */
  readonly rule: string | null;
}

const globals = [
  'Date.now()',
  'new Date()',
  'globalThis.Date.now()',
  'performance.now()',
  'process.uptime()',
  'fetch("http://localhost")',
  'setTimeout(f, 1)',
  'setInterval(f, 1)',
  'setImmediate(f)',
  'queueMicrotask(f)',
  'Promise.resolve(1)',
  'crypto.randomUUID()',
  'console.log(1)',
];

const snippets: Snippet[] = [
  ...globals.map((expression) => ({
    file: 'scheduler/core/a.ts',
    source: `export const f = (): void => undefined;\nexport const bad = (): unknown => ${expression};\n`,
    rule: 'eslint(no-restricted-globals)',
  })),
  { file: 'agent/core/a.ts', source: `export const bad = (): number => Math.random();\n`, rule: 'eslint(no-restricted-properties)' },
  {
    file: 'agent/core/a.ts',
    source: `export async function bad(p: PromiseLike<void>): Promise<void> {\n  await p;\n}\n`,
    rule: 'oxc(no-async-await)',
  },
  {
    file: 'scheduler/core/a.ts',
    source: `export const bad = (a: number, b: number, c: number, d: number, e: number): number => a + b + c + d + e;\n`,
    rule: 'eslint(max-params)',
  },
  { file: 'gateway/a.ts', source: `export const bad = process.env['HOME'];\n`, rule: 'node(no-process-env)' },
  { file: 'gateway/a.ts', source: `import { env } from 'node:process';\nexport const bad = env;\n`, rule: 'eslint(no-restricted-imports)' },
  ...[
    `import { renameSync } from 'node:fs';\nexport const bad = renameSync;\n`,
    `import { rename } from 'node:fs/promises';\nexport const bad = rename;\n`,
    `import * as fs from 'node:fs';\nexport const bad = fs.renameSync;\n`,
    `import fs from 'node:fs/promises';\nexport const bad = fs.rename;\n`,
    `import { promises } from 'node:fs';\nexport const bad = promises.rename;\n`,
    `import { rename } from 'fs';\nexport const bad = rename;\n`,
  ].flatMap((source) =>
    ['scheduler', 'agent', 'gateway', 'compiler', 'devserver', 'supervisor', 'terminal', 'client', 'cli', 'lib'].map((part) => ({
      file: `${part}/a.ts`,
      source,
      rule: 'eslint(no-restricted-imports)',
    })),
  ),
  { file: 'gateway/config.ts', source: `export const good = process.env['HOME'];\n`, rule: null },

  {
    file: 'gateway/a.ts',
    source: `export const bad = (value: any): string => String(value);\n`,
    rule: 'typescript(no-explicit-any)',
  },
  {
    file: 'gateway/a.ts',
    source: `declare function send(): Promise<void>;\nexport const bad = (): void => {\n  send();\n};\n`,
    rule: 'typescript(no-floating-promises)',
  },
  { file: 'gateway/a.ts', source: `export const bad = (): void => {\n  throw 'text';\n};\n`, rule: 'typescript(only-throw-error)' },
  {
    file: 'gateway/a.ts',
    source: `export function bad(f: () => void): void {\n  try {\n    f();\n  } catch {}\n}\n`,
    rule: 'eslint(no-empty)',
  },
  {
    file: 'gateway/a.ts',
    source: `export function bad(side: 'left' | 'right'): number {\n  switch (side) {\n    case 'left':\n      return 1;\n  }\n  return 0;\n}\n`,
    rule: 'typescript(switch-exhaustiveness-check)',
  },
];

test('each house rule refuses the snippet that breaks it, and only that', async (t) => {
  const folder = await folderOf(t);
  await symlink(join(root, 'node_modules'), join(folder, 'node_modules'));
  for (const name of ['.oxlintrc.json', 'tsconfig.json', 'package.json', 'lib/errors.ts']) {
    await mkdir(dirname(join(folder, name)), { recursive: true });
    await copyFile(join(root, name), join(folder, name));
  }

  // Each snippet gets a file of its own beside the others, so that one run of the linter covers all.
  const placed = snippets.map((snippet, index) => ({
    ...snippet,
    file: snippet.file.replace(/\/([^/]+)\.ts$/, snippet.file.endsWith('/config.ts') ? '/$1.ts' : `/$1${index}.ts`),
  }));
  for (const { file, source } of placed) {
    await mkdir(dirname(join(folder, file)), { recursive: true });
    await writeFile(join(folder, file), source);
  }
  const report = await oxlint(folder);
  for (const { file, source, rule } of placed) {
    const refusals = report.filter((diagnostic) => diagnostic.filename === file).map((diagnostic) => diagnostic.code);
    if (rule === null) t.deepEqual(refusals, [], source);
    else t.true(refusals.includes(rule), `${file}\n${source}expected ${rule}, got ${refusals.join(', ') || 'nothing'}`);
  }
});

interface Diagnostic {
  readonly code: string;
  readonly filename: string;
}

function oxlint(cwd: string): Promise<readonly Diagnostic[]> {
  return new Promise((resolve, reject) => {
    const bin = join(root, 'node_modules/.bin/oxlint');
    execFile(bin, ['--type-aware', '--format', 'json', ...parts], { cwd, maxBuffer: 1 << 26 }, (error, stdout, stderr) => {
      // Exit code 1 means findings, which is what is asked for here.
      if (error !== null && error.code !== 1) reject(new Error(stderr || stdout.slice(0, 2000), { cause: error }));
      else resolve((JSON.parse(stdout) as { diagnostics: Diagnostic[] }).diagnostics);
    });
  });
}
