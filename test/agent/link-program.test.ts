/** Programs of ours as one script: what it does is unchanged, and what cannot be linked is refused. */
import { execFile } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

import test from 'ava';

import { linkProgram } from '../../agent/runtimes/link-program.ts';
import { folderOf } from '../support/folder.ts';

test('modules run in the order of their imports, each once, with what they export', async (t) => {
  const folder = await folderOf(t, {
    'main.js': `/** Comments go. */
import { join as joined } from 'node:path';
import { first, second as other } from './a.js'; // this one, too
import { total } from './deep/b.js';
import './c.js';
const local = \`two // \${joined('a', 'b')}

lines…\`;
console.log(local, first(), other, new total.Sum().value, /[/*]/.test('/*'));
`,
    'a.js': `import { total } from './deep/b.js';
export async function* unused() {}
export const first = () => total.name, third = 1;
const second = 'second';
export { second };
`,
    'deep/b.js': `console.log('b');
class Sum { value = 7 }
export const total = { name: 'total', Sum };
`,
    'c.js': `console.log('c');\n`,
  });
  const script = await linkProgram(join(folder, 'main.js'));
  t.notRegex(script, /Comments|this one|import |export |[^\x20-\x7e\n]/);
  await writeFile(join(folder, 'all.cjs'), script);
  const { stdout } = await promisify(execFile)(process.execPath, [join(folder, 'all.cjs')]);
  t.is(stdout, 'b\nc\ntwo // a/b\n\nlines… total second 7 true\n');
});

for (const [what, source] of [
  ['a default import', `import a from './a.js';`],
  ['a namespace', `import * as a from './a.js';`],
  ['a package', `import { parse } from 'acorn';`],
  ['a default export', 'export default 1;'],
  ['exports of another module', `export { a } from './a.js';`],
  ['a variable that may change', 'export let a = 1;'],
  ['a pattern', 'export const { a } = {};'],
  ['a module that imports itself', `import { a } from './main.js';`],
  ['await outside of functions', 'await 1;'],
  ['its own address', 'console.log(import.meta.url);'],
] as const)
  test(`${what} is refused`, async (t) => {
    const folder = await folderOf(t, { 'main.js': source, 'a.js': 'export const a = 1;' });
    await t.throwsAsync(linkProgram(join(folder, 'main.js')));
  });
