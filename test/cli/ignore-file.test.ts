/** `.gitignore` selects the files that git selects, with the case of their letters: the same folders are listed by both. */
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';

import test from 'ava';

import { listFiles } from '../../compiler/artifact/files.ts';
import { folderOf } from '../support/folder.ts';

const hasGit = spawnSync('git', ['--version']).status === 0;
const withGit = hasGit ? test : test.skip;
const why = hasGit ? '' : ' (git is not installed)';

async function listed(folder: string): Promise<string[]> {
  return (await listFiles(folder)).entries.map(({ path }) => path).sort();
}

test('letter case counts: models/ does not exclude Models/', async (t) => {
  const folder = await folderOf(t, {
    '.gitignore': 'models/\n*.log\n',
    '.toolignore': 'docs\n',
    'Models/net.py': '',
    'models/weights.bin': '',
    'a.LOG': '',
    'a.log': '',
    'Docs/page.md': '',
    'docs/page.md': '',
  });
  t.deepEqual(await listed(folder), ['.gitignore', '.toolignore', 'Docs/page.md', 'Models/net.py', 'a.LOG']);
});

const NAMES = [
  'a',
  'A',
  'models',
  'Models',
  'x.log',
  'X.LOG',
  'b.d',
  'B.d',
  'keep',
  'sp ace',
  'a\\b',
  '#h',
  '!bang',
  'tr ',
  'a-b',
  '[c]',
  '*',
];
const RULES = [
  ...[
    'b.d',
    '*.d',
    'x.log',
    '*',
    'a',
    'A',
    'models/',
    'Models/',
    '*.LOG',
    'B.d/',
    'keep',
    '/a',
    '/models',
    '**/a',
    'a/**',
    'models/*',
    '/*',
  ],
  ...['a/keep', '[a-c]', '[A]', '?', 'sp ace', 'a\\\\b', '\\#h', '\\!bang', '#h', 'tr\\ ', 'tr ', 'keep/', '**/keep/**', 'models/**/keep'],
  ...[
    '[!a]',
    '*.[lL]og',
    'x.lo*',
    '**',
    '*/',
    'a*/',
    '/**/x.log',
    'a/',
    'x.log/',
    '[[:upper:]]*',
    '[a-',
    '\\*',
    '[]a]',
    '[^A]*',
    '***',
    'a**',
  ],
  ...[
    '**a',
    'a\\',
    '\\[c\\]',
    '[a\\-z]-b',
    'a[-]b',
    '[z-a]',
    '/',
    '//',
    'a//',
    'm*d*s',
    '[[:nope:]]',
    'a\t',
    '**/',
    '/**',
    'keep/**/x.log',
  ],
];

/** A generator of whole numbers below `n`. */
function seeded(seed: number): (n: number) => number {
  let state = seed;
  return (n) => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) & 0x7fff_ffff;
    return (state >> 8) % n;
  };
}

for (const seed of [1, 2]) {
  withGit(`git lists the same files as the tool, seed ${seed}${why}`, async (t) => {
    const random = seeded(seed);
    const pick = (list: readonly string[]): string => list[random(list.length)] ?? '';
    const rules = (): string =>
      Array.from({ length: 1 + random(4) }, () => `${random(3) === 0 ? '!' : ''}${pick(RULES)}${random(5) === 0 ? '\r' : ''}\n`).join('');
    for (let round = 0; round < 12; round += 1) {
      const folder = await folderOf(t);
      execFileSync('git', ['init', '-q', folder]);
      const put = async (path: string, text: string): Promise<void> => {
        try {
          await mkdir(dirname(join(folder, path)), { recursive: true });
          await writeFile(join(folder, path), text);
        } catch {
          // A file is there already where a folder would be, or the reverse.
        }
      };
      for (let count = 0; count < 25; count += 1) await put(Array.from({ length: 1 + random(3) }, () => pick(NAMES)).join('/'), 'x');
      const files: Record<string, string> = { '.gitignore': rules() };
      for (const name of ['a', 'models', 'Models', 'b.d']) if (random(2) === 0) files[`${name}/.gitignore`] = rules();
      for (const [path, text] of Object.entries(files)) await put(path, text);
      const ofGit = execFileSync('git', ['-C', folder, '-c', 'core.ignorecase=false', 'ls-files', '-o', '--exclude-standard', '-z'], {
        encoding: 'utf8',
        env: { PATH: process.env['PATH'], GIT_CONFIG_GLOBAL: '/dev/null', GIT_CONFIG_NOSYSTEM: '1' },
      });
      t.deepEqual(await listed(folder), ofGit.split('\0').filter(Boolean).sort(), JSON.stringify(files));
      await rm(folder, { recursive: true, force: true });
    }
  });
}
