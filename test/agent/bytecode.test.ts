/** The Python sources of a build are compiled once, when it is unpacked, and hold whatever the times of the sources are. */
import { execFile, execFileSync, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { chmod, lstat, mkdir, readdir, readFile, symlink, utimes, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';

import test, { type ExecutionContext } from 'ava';

import { compileBuild } from '../../agent/artifacts/bytecode.ts';
import { fingerprintOf, verified } from '../../agent/artifacts/fingerprint.ts';
import { sizeOfTree } from '../../agent/artifacts/size-of-tree.ts';
import { folderOf } from '../support/folder.ts';
import { canFindProcesses, processesOf } from '../support/processes.ts';
import { until } from '../support/until.ts';
import { addBuild, functionSpec, startAgent, startScheduler } from './fixtures.ts';

const env = { PATH: process.env['PATH'] ?? '/usr/bin:/bin' };
const hasPython = ((): boolean => {
  try {
    execFileSync('python3', ['--version'], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
})();
const python = hasPython ? test : test.skip;
if (!hasPython) console.log('skipped: python3 is not on PATH');

/** `<name>.py` of each compiled file, sorted. */
async function compiled(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { recursive: true });
  const found = entries.filter((path) => path.endsWith('.pyc'));
  return found.map((path) => join(dirname(dirname(path)), (path.split('/').at(-1) ?? '').replace(/\.cpython.*$/, '.py'))).sort();
}

async function readOnly(folder: string): Promise<void> {
  for (const path of await readdir(folder, { recursive: true })) {
    const full = join(folder, path);
    const fact = await lstat(full);
    if (!fact.isSymbolicLink()) await chmod(full, fact.isDirectory() ? 0o755 : 0o444);
  }
}

async function compile(t: ExecutionContext, folder: string): Promise<number> {
  const bytes = await compileBuild(folder, { env, signal: AbortSignal.timeout(60_000) });
  t.true(bytes >= 0);
  return bytes;
}

python('every source that Python can compile is compiled; others, links and huge ones are left as they are', async (t) => {
  const folder = await folderOf(t, {
    'main.py': 'value = 1\n',
    'python_packages/pkg/__init__.py': 'def f():\n    raise ValueError("here")\n',
    'python_packages/pkg/python2.py': 'print "old"\n',
    'python_packages/pkg/null.py': 'a = 1\0',
    'python_packages/pkg/deep.py': `${'('.repeat(5_000)}${')'.repeat(5_000)}`,
    'python_packages/pkg/last.py': 'value = 2\n',
    'node_modules/gyp/gyp.py': 'x = 1\n',
    'huge.py': `x = [${'1,'.repeat(1_100_000)}]\n`,
  });
  await symlink('main.py', join(folder, 'link.py'));
  await readOnly(folder);
  const before = await fingerprintOf(folder);
  t.true((await compile(t, folder)) > 0);
  t.deepEqual(await compiled(folder), ['main.py', 'python_packages/pkg/__init__.py', 'python_packages/pkg/last.py']);
  t.truthy(await verified(folder, before), 'the build is unchanged');
});

python('compiled files are used whatever the times of the sources are, and tracebacks name the source', async (t) => {
  const folder = await folderOf(t, { 'python_packages/pkg.py': 'def f():\n    raise ValueError("here")\n' });
  await compile(t, folder);
  const source = join(folder, 'python_packages/pkg.py');
  await utimes(source, 1, 1);
  const program = `import sys; sys.path.insert(0, ${JSON.stringify(dirname(source))}); import pkg; print(pkg.__cached__, pkg.f.__code__.co_filename); pkg.f()`;
  const failed = await t.throwsAsync<Error & { stderr: string; stdout: string }>(
    promisify(execFile)('python3', ['-v', '-c', program], { env }),
  );
  t.regex(failed?.stderr ?? '', /code object from '[^']*pkg\.cpython-[^']*\.pyc'/);
  t.regex(failed?.stderr ?? '', new RegExp(`File "${source}", line 2, in f`));
  t.true(failed?.stdout.includes(source));
  const [name = ''] = await readdir(join(dirname(source), '__pycache__'));
  const head = await readFile(join(dirname(source), '__pycache__', name));
  t.is(head.readUInt32LE(4), 1, 'the hash of the source is never compared');
});

python('a build without Python sources starts nothing, and a folder for compiled files that is a link is not followed', async (t) => {
  const outside = await folderOf(t);
  t.is(await compile(t, await folderOf(t, { 'main.js': '1' })), 0);
  const folder = await folderOf(t, { 'main.py': 'x = 1\n' });
  await symlink(outside, join(folder, '__pycache__'));
  t.is(await compile(t, folder), 0);
  t.deepEqual(await readdir(outside), []);
});

/** Each level doubles the code, which is in the cleanup after success and after failure. */
function nested(levels: number): string {
  const lines = Array.from({ length: levels }, (_, level) => `${' '.repeat(level)}try:a()\n${' '.repeat(level)}finally:\n`);
  return `${lines.join('')}${' '.repeat(levels)}a()\n`;
}

python('compiled files take no more than 64 MiB, or twice the sources, however large the code of a source is', async (t) => {
  const sources = Object.fromEntries(Array.from({ length: 5 }, (_, n) => [`bomb${n}.py`, nested(17)]));
  const folder = await folderOf(t, { ...sources, 'small.py': 'x = 1\n' });
  const before = await sizeOfTree(folder);
  t.true(before < 4_000, String(before));
  const bytes = await compile(t, folder);
  t.true(bytes > 0 && bytes <= 64 * 1024 * 1024, String(bytes));
  t.is((await sizeOfTree(folder)) - before, bytes);
  t.true((await compiled(folder)).includes('small.py'), 'what still fits is compiled');
});

python('a source that takes the compiler too long is left out, and those after it are compiled', async (t) => {
  const folder = await folderOf(t, { 'a.py': nested(20), 'b.py': 'x = 1\n', 'c.py': nested(20), 'd.py': 'x = 1\n' });
  t.true((await compileBuild(folder, { env, signal: AbortSignal.timeout(60_000), sourceSeconds: 0.5 })) > 0);
  t.deepEqual(await compiled(folder), ['b.py', 'd.py']);
});

(canFindProcesses ? python : test.skip)('the compiling processes end with their agent, however it ends', async (t) => {
  const folder = await folderOf(t, Object.fromEntries(Array.from({ length: 20 }, (_, n) => [`bomb${n}.py`, nested(18)])));
  const mark = `CAPSTAN_TEST_MARK=${randomUUID()}`;
  const [name = '', value = ''] = mark.split('=');
  const program = `
    import { compileBuild } from ${JSON.stringify(new URL('../../agent/artifacts/bytecode.ts', import.meta.url).href)};
    await compileBuild(${JSON.stringify(folder)}, { env: ${JSON.stringify({ ...env, [name]: value })}, signal: new AbortController().signal });
  `;
  const agent = spawn(process.execPath, ['--input-type=module', '--eval', program], { env, stdio: 'inherit' });
  t.teardown(() => agent.kill('SIGKILL'));
  await until('both run', () => processesOf(mark).length === 2);
  agent.kill('SIGKILL');
  await once(agent, 'exit');
  await until('both have ended', () => processesOf(mark).length === 0);
  t.true((await compiled(folder)).length < 20);
});

python('what the file system refuses is left out, and the rest is compiled and counted', async (t) => {
  const folder = await folderOf(t, {
    [`${'a'.repeat(240)}.py`]: 'x = 1\n',
    'b/__pycache__': 'a file',
    'b/b.py': 'x = 1\n',
    'c/c.py': 'x = 1\n',
  });
  const { stdout } = await promisify(execFile)('python3', ['-c', 'import sys; print(sys.implementation.cache_tag)'], { env });
  await mkdir(join(folder, `c/__pycache__/c.${stdout.trim()}.pyc`), { recursive: true });
  await writeFile(join(folder, 'd.py'), 'x = 1\n');
  const before = await sizeOfTree(folder);
  const bytes = await compile(t, folder);
  t.true(bytes > 0);
  t.is((await sizeOfTree(folder)) - before, bytes);
  t.deepEqual((await readdir(join(folder, '__pycache__'))).length, 1);
});

python('an agent compiles the builds that it unpacks, once', async (t) => {
  const scheduler = await startScheduler(t);
  const build = await addBuild(t, scheduler, { 'main.py': 'def f(input):\n    return input\n', 'python_packages/other.py': 'x = 1\n' });
  const dataDir = await folderOf(t);
  await startAgent(t, scheduler, { dataDir, hostEnv: env });
  await scheduler.hello();
  scheduler.desire([{}], [{ ...build, runtime: 'process', functions: [functionSpec('f', 'main.py')] }]);
  await scheduler.worker('w1', ({ state }) => state === 'WORKER_STATE_IDLE');
  const unpacked = join(dataDir, 'agent/cache', build.buildDigest);
  t.deepEqual(await until('both are compiled', async () => ((await compiled(unpacked)).length === 2 ? compiled(unpacked) : null)), [
    'main.py',
    'python_packages/other.py',
  ]);
});
