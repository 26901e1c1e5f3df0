/** The commit that `deploy` records, read from real checkouts; nothing that a checkout names is run. */
import { execFile } from 'node:child_process';
import { chmod, mkdir, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

import test, { type ExecutionContext } from 'ava';

import { readSource } from '../../cli/deploy/source.ts';
import { folderOf } from '../support/folder.ts';

const run = promisify(execFile);
const hasGit = await run('git', ['--version']).then(
  () => true,
  () => false,
);
const only = hasGit ? test : test.skip;
const SKIPPED = hasGit ? '' : ' (skipped: there is no git)';

async function git(folder: string, ...args: string[]): Promise<string> {
  const identity = ['-c', 'user.name=A', '-c', 'user.email=a@example', '-c', 'commit.gpgsign=false', '-c', 'init.defaultBranch=main'];
  return (await run('git', [...identity, ...args], { cwd: folder })).stdout.trim();
}

async function checkout(t: ExecutionContext, message = 'first line\n\nand more'): Promise<string> {
  const folder = await folderOf(t, { 'project/app.ts': 'export {};\n' });
  await git(folder, 'init', '--quiet');
  await git(folder, 'add', '.');
  await git(folder, 'commit', '--quiet', '-m', message);
  return join(folder, 'project');
}

const sourceOf = async (folder: string, variables: NodeJS.ProcessEnv = process.env, said: string[] = []) =>
  readSource(folder, { warn: (text) => void said.push(text) }, variables);

only(`a checkout has its commit, the first line of its message, and whether the folder differs${SKIPPED}`, async (t) => {
  const folder = await checkout(t);
  const commit = await git(folder, 'rev-parse', 'HEAD');
  t.deepEqual(await sourceOf(folder), { commit, message: 'first line', isDirty: false });
  await mkdir(join(folder, '.tool'));
  await writeFile(join(folder, '.tool/artifact.tar.gz'), 'built');
  await writeFile(join(folder, '../outside'), 'of another project');
  t.false((await sourceOf(folder))?.isDirty, 'what the build leaves, and other folders, do not count');
  await writeFile(join(folder, 'new.ts'), '');
  t.true((await sourceOf(folder))?.isDirty, 'a new file');
  await git(folder, 'add', 'new.ts');
  await git(folder, 'commit', '--quiet', '-m', 'x');
  await writeFile(join(folder, 'app.ts'), 'changed');
  t.true((await sourceOf(folder))?.isDirty, 'a changed file');
});

only(`without a checkout, a commit or git there is none${SKIPPED}`, async (t) => {
  const folder = await folderOf(t, { 'app.ts': '' });
  // The folder of tests may be below a checkout.
  const variables = { ...process.env, GIT_CEILING_DIRECTORIES: folder };
  t.is(await sourceOf(folder, { PATH: '/none' }), null);
  await git(folder, 'init', '--quiet');
  t.is(await sourceOf(folder, variables), null);
});

only(`a hostile message is one short line of printable text${SKIPPED}`, async (t) => {
  const folder = await checkout(t, `\u001b[31mred\u202e ${'x'.repeat(5_000)}`);
  const message = (await sourceOf(folder))?.message ?? '';
  t.true(message.startsWith(String.raw`\u001b[31mred\u202e xxx`), message);
  t.is(message.length, 200);
});

only(`programs that a checkout names are not run${SKIPPED}`, async (t) => {
  const folder = await checkout(t);
  const mark = join(folder, '../ran');
  const program = join(folder, '../program.sh');
  await writeFile(program, `#!/bin/sh\necho ran >> '${mark}'\ncat\n`);
  await chmod(program, 0o755);
  // Of the same size: only their bytes show whether they differ.
  const files = ['app.ts', 'b.py', 'c.in', 'd.wt'];
  for (const name of files) await writeFile(join(folder, name), 'added\n');
  await writeFile(
    join(folder, '.gitattributes'),
    '*.ts filter=evil diff=evil\n*.py filter=a=b\n*.in filter=included\n*.wt filter=worktree\n',
  );
  await git(folder, 'add', '.');
  await git(folder, 'commit', '--quiet', '-m', 'files');
  for (const name of [
    'core.fsmonitor',
    'filter.evil.clean',
    'filter.evil.process',
    'filter.a=b.clean',
    'diff.evil.textconv',
    'log.showSignature',
  ])
    await git(folder, 'config', name, name === 'log.showSignature' ? 'true' : program);
  await git(folder, 'config', 'gpg.program', program);
  // git reads these files as well.
  await writeFile(join(folder, '../.git/included'), `[filter "included"]\n\tclean = ${program}\n`);
  await git(folder, 'config', 'include.path', 'included');
  await git(folder, 'config', 'extensions.worktreeConfig', 'true');
  await git(folder, 'config', '--worktree', 'filter.worktree.clean', program);
  for (const name of files) await writeFile(join(folder, name), 'other\n');
  t.true((await sourceOf(folder))?.isDirty);
  await t.throwsAsync(stat(mark), { code: 'ENOENT' });
});

only(`a filter that is required does not hide the commit${SKIPPED}`, async (t) => {
  const folder = await checkout(t);
  await writeFile(join(folder, '.gitattributes'), '*.key filter=git-crypt\n');
  await writeFile(join(folder, 'a.key'), 'added\n');
  await git(folder, 'add', '.');
  await git(folder, 'commit', '--quiet', '-m', 'files');
  await git(folder, 'config', 'filter.git-crypt.clean', 'cat');
  await git(folder, 'config', 'filter.git-crypt.required', 'true');
  await writeFile(join(folder, 'a.key'), 'other\n');
  t.like(await sourceOf(folder), { message: 'files', isDirty: true });
});

only(`what a partial clone lacks is not fetched${SKIPPED}`, async (t) => {
  const folder = await checkout(t);
  const mark = join(folder, '../ran');
  const program = join(folder, '../program.sh');
  await writeFile(program, `#!/bin/sh\necho ran >> '${mark}'\nexit 1\n`);
  await chmod(program, 0o755);
  for (const [name, value] of [
    ['extensions.partialClone', 'origin'],
    ['remote.origin.promisor', 'true'],
    ['remote.origin.url', join(folder, '..')],
    ['remote.origin.uploadpack', program],
  ] as const)
    await git(folder, 'config', name, value);
  const tree = await git(folder, 'rev-parse', 'HEAD^{tree}');
  await rm(join(folder, '../.git/objects', tree.slice(0, 2), tree.slice(2)), { force: true });
  await sourceOf(folder);
  await t.throwsAsync(stat(mark), { code: 'ENOENT' });
});

only(`variables of git that speak of another repository are ignored${SKIPPED}`, async (t) => {
  const [folder, other] = [await checkout(t, 'own'), await checkout(t, 'other')];
  const source = await sourceOf(folder, { ...process.env, GIT_DIR: join(other, '../.git'), GIT_WORK_TREE: other });
  t.is(source?.message, 'own');
});
