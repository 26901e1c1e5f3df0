/** `npx capstan` in a checkout: npm runs it in a shell, and gives SIGTERM to that shell alone. */
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';

import test from 'ava';

import { descendants, gone, run } from './fakes/run.ts';
import { folderOf } from '../support/folder.ts';

const checkout = join(import.meta.dirname, '../..');

test('SIGTERM to npx capstan up ends the stack, and says nothing of lost connections', async (t) => {
  const data = await folderOf(t);
  const npx = run(['--no', 'capstan', 'up', '--data-dir', data, '--http-port', '0', '--grpc-port', '0'], {
    program: 'npx',
    cwd: checkout,
    env: { npm_config_offline: 'true', npm_config_cache: join(data, 'npm'), npm_config_update_notifier: 'false' },
  });
  const below: number[] = [];
  t.teardown(async () => {
    npx.child.kill('SIGKILL');
    for (const pid of below) {
      try {
        process.kill(pid, 'SIGKILL');
      } catch {
        // It has ended.
      }
    }
    await npx.ended;
  });
  await npx.hear(/^Press Ctrl\+C to stop it\.$/m);
  below.push(...(await descendants(npx.child.pid ?? 0)));
  t.true(below.length >= 5, `npx has ${below.length} processes: its shell, the supervisor and three parts`);
  npx.child.kill('SIGTERM');
  await npx.ended;
  await Promise.all(below.map(gone));
  t.false((await readdir(data)).includes('run.json'));
  t.regex(npx.stderr(), /Press Ctrl\+C to stop it\.\n(=> stopping\n)?$/);
});
