/** A server of the tests ends with the test that started it, also with one that is killed. */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdir, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { Worker } from 'node:worker_threads';

import test from 'ava';

import { isRunning } from '../conformance/runtime/running.ts';
import { folderOf } from './folder.ts';
import { NO_POSTGRES, postgresBinaries, startPostgres } from './postgres.ts';
import { until } from './until.ts';

const binaries = await postgresBinaries();
const source = `
import { postgresBinaries, startPostgres } from ${JSON.stringify(pathToFileURL(join(import.meta.dirname, 'postgres.ts')))};
const server = await startPostgres((await postgresBinaries()) ?? '');
await server.query(await server.newDatabase(), 'SELECT 1');`;

if (binaries === undefined)
  test('postgres', (t) => {
    t.log(`skipped: ${NO_POSTGRES}`);
    t.pass();
  });
else tests(binaries);

function tests(bin: string): void {
  test('a server ends with the process that was killed before it stopped it', async (t) => {
    const temporary = await folderOf(t);
    await chmod(temporary, 0o711); // the server's user passes through it
    const started = spawn(process.execPath, ['--input-type=module', '--eval', `${source} console.log(server.process.pid);`], {
      stdio: ['ignore', 'pipe', 'inherit'],
      env: { ...process.env, TMPDIR: temporary },
    });
    t.teardown(() => started.kill('SIGKILL'));
    const [text] = (await once(started.stdout, 'data')) as [Buffer];
    const server = Number(text.toString());
    t.true(await isRunning(server));
    started.kill('SIGKILL');
    await until('the server has ended', async () => !(await isRunning(server)));
  });

  test('a server ends with the thread that was ended before it stopped it', async (t) => {
    const code = `import { parentPort } from 'node:worker_threads'; ${source} parentPort.postMessage(server.process.pid);`;
    const thread = new Worker(new URL(`data:text/javascript,${encodeURIComponent(code)}`));
    t.teardown(() => thread.terminate());
    const [server] = (await once(thread, 'message')) as [number];
    t.true(await isRunning(server));
    await thread.terminate();
    await until('the server has ended', async () => !(await isRunning(server)));
  });

  test('a stopped server leaves no files, and its folder is ours to remove', async (t) => {
    const server = await startPostgres(bin);
    const outer = join(server.folder, '..');
    t.true((await readdir(outer)).includes('server'));
    await server.stop();
    await t.throwsAsync(readdir(outer), { code: 'ENOENT' });
  });

  test('programs that the user of the server cannot read are copied', async (t) => {
    if (process.getuid?.() !== 0) {
      t.log('skipped: only root starts the server as another user');
      t.pass();
      return;
    }
    const closed = await folderOf(t);
    await mkdir(join(closed, 'programs'));
    await chmod(closed, 0o700);
    spawnSync('cp', ['-a', `${join(bin, '..')}/.`, join(closed, 'programs')]);
    const own = join(closed, 'programs/bin');
    const server = await startPostgres(own);
    t.teardown(() => server.stop());
    t.is((await server.query(await server.newDatabase(), 'SELECT 1 AS one'))[0]?.['one'], 1);
  });

  test('without a server in the folder that CAPSTAN_TEST_POSTGRES names, it is refused', async (t) => {
    const empty = await folderOf(t);
    const { status, stderr } = spawnSync(process.execPath, ['--input-type=module', '--eval', source], {
      encoding: 'utf8',
      env: { ...process.env, CAPSTAN_TEST_POSTGRES: empty },
    });
    t.not(status, 0);
    t.true(stderr.includes(`CAPSTAN_TEST_POSTGRES: ${empty} must hold initdb and postgres`), stderr);
  });
}
