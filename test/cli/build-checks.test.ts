/** What a build refuses, warns of and leaves behind, without any package to install. */
import { access, mkdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import test, { type ExecutionContext } from 'ava';
import { list } from 'tar';

import { run } from './fakes/run.ts';
import { folderOf } from '../support/folder.ts';

const bin = join(import.meta.dirname, '../../cli/main.ts');

const declaring = (settings: string): string => `import { endpoint } from '@capstan/sdk';

export const one = endpoint({ name: 'one', ${settings} }, (value: number) => value);
`;
const manifest = (settings: object): string =>
  JSON.stringify({ resources: { one: { functions: [{ name: 'one', module: 'one.ts' }], ...settings } } });

async function build(t: ExecutionContext, folder: string, ...args: string[]): Promise<{ code: unknown; stderr: string; names: string[] }> {
  const running = run([bin, 'build', ...args], { cwd: folder, env: { CAPSTAN_CACHE_DIR: join(folder, '.tool/cache') } });
  const code = await running.ended;
  const names: string[] = [];
  if (code === 0) await list({ file: join(folder, '.tool/artifact.tar.gz'), onReadEntry: (entry) => void names.push(entry.path) });
  return { code, stderr: running.stderr(), names };
}

const isThere = (path: string): Promise<boolean> =>
  access(path).then(
    () => true,
    () => false,
  );

test('GPUs that Capstan does not know are warned of, with what is near', async (t) => {
  const folder = await folderOf(t, { 'one.ts': declaring(`gpu: ['AMPER_24', 'ADA_24', '-RTX 4090']`) });
  const { code, stderr } = await build(t, folder);
  t.is(code, 0, stderr);
  t.regex(stderr, /^! endpoint one: gpu: "AMPER_24" is not a GPU type or group; close matches: AMPERE_24.*; deploying fails unless/m);
  await writeFile(join(folder, 'one.ts'), declaring(`gpu: ['AMPERE_24', 'rtx4090', 'A100 MIG 3g.40gb']`));
  t.notRegex((await build(t, folder)).stderr, /gpu:/);
  const written = await folderOf(t, {
    'one.ts': 'export const one = (value: number) => value;\n',
    'tool_manifest.json': manifest({ gpuIds: 'ANI' }),
  });
  t.regex((await build(t, written)).stderr, /^! endpoint one: gpu: "ANI" is not a GPU type or group/m);
});

test('a CPU size that no host has is refused', async (t) => {
  const folder = await folderOf(t, { 'one.ts': declaring(`cpu: 'cpu3c-1000-8'`) });
  const declared = await build(t, folder);
  t.is(declared.code, 65);
  t.regex(declared.stderr, /^✗ one\.ts:3: .*cpu must have at most 512 vCPU and 8192 GB, not "cpu3c-1000-8"/m);
  const written = await folderOf(t, {
    'one.ts': 'export const one = (value: number) => value;\n',
    'tool_manifest.json': manifest({ cpu: 'cpu3c-4-9999' }),
  });
  t.regex((await build(t, written)).stderr, /^✗ .*cpu.*must have at most 512 vCPU and 8192 GB/m);
});

test('a package of --exclude that no endpoint asks for is warned of', async (t) => {
  const folder = await folderOf(t, {
    'one.ts': declaring(''),
    'package.json': JSON.stringify({ dependencies: { 'left-pad': '^1.0.0', '@scope/thing': '1' } }),
  });
  const { code, stderr } = await build(t, folder, '--exclude', 'left-pad,@scope/thing,numpy,left-pat');
  t.is(code, 0, stderr);
  t.deepEqual(stderr.match(/^! --exclude.*/gm), ['! --exclude: no endpoint uses the package left-pat; did you mean left-pad?']);
  const written = await folderOf(t, { 'one.ts': 'export const one = (value: number) => value;\n', 'tool_manifest.json': manifest({}) });
  t.regex((await build(t, written, '--exclude', 'numpy')).stderr, /^! --exclude: has no effect/m);
});

test('every artifact has a requirements.txt; the folder’s own is kept', async (t) => {
  const folder = await folderOf(t, { 'one.ts': declaring('') });
  t.true((await build(t, folder)).names.includes('requirements.txt'));
  const written = await folderOf(t, { 'one.ts': 'export const one = (value: number) => value;\n', 'tool_manifest.json': manifest({}) });
  t.true((await build(t, written)).names.includes('requirements.txt'));
  await writeFile(join(folder, 'requirements.txt'), '# ours\n');
  const { names } = await build(t, folder, '--keep-build');
  t.is(names.filter((name) => name === 'requirements.txt').length, 1);
  t.false(await isThere(join(folder, '.tool/.build/requirements.txt')), 'it is not replaced by an empty one');
});

test('a build that fails leaves no artifact of an earlier one', async (t) => {
  const folder = await folderOf(t, { 'one.ts': declaring('') });
  t.is((await build(t, folder)).code, 0);
  const made = ['artifact.tar.gz', 'tool_manifest.json'].map((name) => join(folder, '.tool', name));
  t.deepEqual(await Promise.all(made.map(isThere)), [true, true]);
  await writeFile(join(folder, 'one.ts'), declaring('idleTimeout: 0'));
  t.is((await build(t, folder)).code, 65);
  t.deepEqual(await Promise.all(made.map(isThere)), [false, false]);

  await writeFile(join(folder, 'one.ts'), declaring(''));
  t.is((await build(t, folder)).code, 0);
  await rm(join(folder, 'one.ts'));
  t.is((await build(t, folder)).code, 65, 'nothing is declared');
  t.deepEqual(await Promise.all(made.map(isThere)), [false, false]);

  // A manifest that somebody wrote in that place is theirs, as long as nothing is declared.
  await mkdir(join(folder, '.tool'), { recursive: true });
  await writeFile(made[1] ?? '', manifest({}));
  t.is((await build(t, folder)).code, 65, 'its module is not there');
  t.is(await readFile(made[1] ?? '', 'utf8'), manifest({}));
});

test('the manifest that a build left in .tool does not contradict endpoints that are declared since; one of the folder does', async (t) => {
  const folder = await folderOf(t, { 'one.ts': 'export const one = (value: number) => value;\n', 'tool_manifest.json': manifest({}) });
  t.is((await build(t, folder)).code, 0);
  await writeFile(join(folder, 'one.ts'), declaring(''));
  t.regex((await build(t, folder)).stderr, /^✗ endpoints are declared in the sources \(one\.ts:3\) and in \S+\/tool_manifest\.json$/m);
  await rm(join(folder, 'tool_manifest.json'));
  const { code, stderr } = await build(t, folder);
  t.is(code, 0, stderr);
  t.regex(stderr, /^! \.tool\/tool_manifest\.json is replaced: the endpoints are declared in the sources$/m);
  t.true((await readFile(join(folder, '.tool/build.json'), 'utf8')).includes('"source_fingerprint"'));
  t.notRegex((await build(t, folder)).stderr, /is replaced/);

  // Earlier versions kept what `build.json` has in the manifest; such a manifest is a build's own.
  const former = { ...(JSON.parse(manifest({})) as object), version: '1', source_fingerprint: '0' };
  await writeFile(join(folder, '.tool/tool_manifest.json'), JSON.stringify(former));
  t.notRegex((await build(t, folder)).stderr, /is replaced/);
  // One that was edited since the build is somebody's.
  await writeFile(join(folder, '.tool/tool_manifest.json'), manifest({}));
  t.regex((await build(t, folder)).stderr, /is replaced/);
});

test('the file of --env-file is not packed, whatever its name, also through a link, unless .toolignore names it', async (t) => {
  const sources: readonly (readonly [string, string])[] = [
    ['one.ts', declaring('')],
    ['one.ts', declaring(`build: 'true'`)],
    ['tool_manifest.json', manifest({})],
  ];
  for (const [name, source] of sources) {
    const folder = await folderOf(t, {
      'one.ts': 'export const one = (value: number) => value;\n',
      [name]: source,
      'settings/production.cfg': 'TOKEN=s3cret\n',
      'settings/other.cfg': 'A=1\n',
    });
    await symlink('settings/production.cfg', join(folder, 'current'));
    for (const path of ['settings/production.cfg', 'current']) {
      const { code, stderr, names } = await build(t, folder, '--env-file', path);
      t.is(code, 0, stderr);
      t.deepEqual(
        names.filter((each) => /cfg|current/.test(each)),
        ['settings/other.cfg'],
        path,
      );
      t.regex(
        stderr,
        /^! excluded: settings\/production\.cfg is the file of --env-file, .*\(to pack it, add !settings\/production\.cfg to \.toolignore\)$/m,
      );
    }
    await writeFile(join(folder, '.toolignore'), '!settings/production.cfg\n');
    t.true((await build(t, folder, '--env-file', 'settings/production.cfg')).names.includes('settings/production.cfg'));
  }
});
