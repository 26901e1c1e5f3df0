/** Members of an npm or pnpm workspace in an artifact, by the real npm: never the packages of a registry with their names. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';

import test from 'ava';
import { extract } from 'tar';

import { withMembers } from '../../compiler/build/npm-workspace.ts';
import { folderOf } from '../support/folder.ts';
import { withoutNpm } from './fakes/package-world.ts';
import { run } from './fakes/run.ts';

const bin = join(import.meta.dirname, '../../cli/main.ts');
const manifest = (name: string, dependencies: Readonly<Record<string, string>>, more = {}): string =>
  JSON.stringify({ name, version: '9.9.9', main: 'index.js', dependencies, ...more });
const ONE = `import { endpoint } from '@capstan/sdk';
export const one = endpoint({ name: 'one' }, () => 1);
`;

(withoutNpm === null ? test : test.skip)('members come from the workspace, with what they need of it', async (t) => {
  const folder = await folderOf(t, {
    'one.ts': ONE,
    'package.json': manifest('app', { 'left-pad': '*' }, { workspaces: ['members/*'] }),
    'members/left/package.json': manifest('left-pad', { isarray: '^1.0.0' }),
    'members/left/index.js': '',
    'members/array/package.json': manifest('isarray', {}),
    'members/array/index.js': '',
    '.toolignore': 'members/\n',
  });
  // A registry that answers nothing: only what is local can be installed.
  const env = { CAPSTAN_CACHE_DIR: join(folder, '.tool/cache'), npm_config_registry: 'http://127.0.0.1:9/', npm_config_fetch_retries: '0' };
  const running = run([bin, 'build'], { cwd: folder, env });
  t.is(await running.ended, 0, running.stderr());
  const place = await folderOf(t);
  await extract({ file: join(folder, '.tool/artifact.tar.gz'), cwd: place });
  for (const name of ['left-pad', 'isarray'])
    t.regex(await readFile(join(place, 'node_modules', name, 'package.json'), 'utf8'), /"version":\s*"9\.9\.9"/, name);
});

test('pnpm’s workspaces are read; a member that is missing is refused', async (t) => {
  const root = await folderOf(t, {
    'pnpm-workspace.yaml': "# ours\npackages:\n  - 'packages/*' # all\n  - apps/*\n  - '!packages/old'\n\ncatalog:\n  - x\n",
    'apps/api/package.json': manifest('api', {}),
    'packages/six/package.json': manifest('@own/six', { deep: 'workspace:^' }),
    'packages/deep/package.json': manifest('deep', {}),
    'packages/old/package.json': manifest('old', {}),
  });
  const folder = join(root, 'apps/api');
  t.deepEqual(await withMembers(folder, { '@own/six': 'workspace:*', zod: '^4', old: 'npm:other@1' }), {
    '@own/six': `file:${root}/packages/six`,
    deep: `file:${root}/packages/deep`,
    zod: '^4',
    old: 'npm:other@1',
  });
  await t.throwsAsync(withMembers(folder, { old: 'workspace:*' }), {
    code: 'INVALID_MANIFEST',
    message: 'package.json: dependencies.old: workspace:*, and no member of the workspace has this name',
  });
});
