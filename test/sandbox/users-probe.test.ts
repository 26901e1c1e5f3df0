/** Whether a host has the level `user`, and what is said where it has not. */
import { chmod, chown, mkdir, readdir, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import type { ExecutionContext } from 'ava';

import { usableUidRange } from '../../agent/sandbox/uid-range.ts';
import { openUserLevel, type UserLevel, type UserLevelOptions } from '../../agent/sandbox/user/open-user-level.ts';
import { folderOf } from '../support/folder.ts';
import { HOST_ENV } from './user-level.ts';
import { userTest } from './user-test.ts';

interface Host {
  readonly root: string;
  readonly options: UserLevelOptions;
}

async function hostOf(t: ExecutionContext): Promise<Host> {
  const root = await folderOf(t);
  await chmod(root, 0o711);
  const dataDir = join(root, 'data');
  await mkdir(join(dataDir, 'secrets'), { recursive: true });
  await writeFile(join(dataDir, 'secrets/master-key'), 'secret');
  await chmod(dataDir, 0o700);
  const complain = (what: unknown): void => t.fail(JSON.stringify(what));
  const options = {
    uids: { range: usableUidRange(undefined), folder: dataDir },
    folder: join(root, 'workers'),
    dataDir,
    reads: [import.meta.dirname],
    hostEnv: HOST_ENV,
    log: { warn: complain, error: complain },
  };
  return { root, options };
}

async function opened(t: ExecutionContext, options: UserLevelOptions): Promise<UserLevel> {
  const level = await openUserLevel(options);
  t.teardown(async () => {
    if (level.kind === 'available') await level.launcher.close();
  });
  return level;
}

async function missingOf(t: ExecutionContext, options: UserLevelOptions): Promise<{ readonly reason: string; readonly remedy: string }> {
  const level = await opened(t, options);
  if (level.kind === 'available') throw new Error('the level is available');
  t.is(level.missing.without, 'user');
  return level.missing;
}

userTest('a root agent has it', async (t) => {
  const { options } = await hostOf(t);
  t.is((await opened(t, options)).kind, 'available');
});

userTest('the folder of the workers is below one that others cannot enter', async (t) => {
  const { root, options } = await hostOf(t);
  await chmod(root, 0o700);
  const { reason, remedy } = await missingOf(t, options);
  t.is(reason, `other users cannot pass through ${root}, a parent of ${options.folder}`);
  t.regex(remedy, /^move it to a folder that every user can enter, such as \/opt or \/var\/lib, or install bubblewrap/);
  t.deepEqual(await readdir(options.folder), [], 'nothing of the trial is left');
});

userTest('our own programs are below one that others cannot enter', async (t) => {
  const { root, options } = await hostOf(t);
  const closed = join(root, 'closed');
  await mkdir(closed, { mode: 0o700 });
  const { reason } = await missingOf(t, { ...options, reads: [join(closed, 'programs')] });
  t.is(reason, `other users cannot pass through ${closed}, a parent of ${join(closed, 'programs')}`);
});

userTest('other users could replace the folder of the workers, or write into it', async (t) => {
  const { root, options } = await hostOf(t);
  const open = join(root, 'open');
  await mkdir(open);
  await chmod(open, 0o777);
  const { reason, remedy } = await missingOf(t, { ...options, folder: join(open, 'workers') });
  t.is(reason, `other users can replace what is in ${open}, a parent of ${join(open, 'workers')}`);
  t.is(remedy, `chmod go-w ${open}`);
  // As a volume of a pod.
  await mkdir(options.folder);
  await chmod(options.folder, 0o2777);
  t.is((await opened(t, options)).kind, 'available');
  t.is((await stat(options.folder)).mode & 0o777, 0o755);
  await chown(options.folder, 1_000, 1_000);
  t.is((await missingOf(t, options)).reason, `${options.folder} belongs to the user 1000, not to root`);
});

userTest('other users could read the data', async (t) => {
  const { options } = await hostOf(t);
  await chmod(options.dataDir, 0o711);
  t.deepEqual(await missingOf(t, options), {
    without: 'user',
    reason: `workers could read ${join(options.dataDir, 'secrets')}`,
    remedy: `chmod 0700 ${options.dataDir}`,
  } as never);
});

userTest('another Python than the agent’s would run functions', async (t) => {
  const { root, options } = await hostOf(t);
  const bin = join(root, 'bin');
  await mkdir(bin, { mode: 0o700 });
  await writeFile(join(bin, 'python3'), '#!/bin/sh\necho 2.7\n', { mode: 0o755 });
  const { reason, remedy } = await missingOf(t, { ...options, hostEnv: { ...HOST_ENV, PATH: `${bin}:${HOST_ENV.PATH}` } });
  t.regex(reason, /^the agent's python3 is 2\.7, that of other users (3\.\d+|none)$/);
  t.regex(remedy, /^install Python for every user/);
});

userTest('the folder of the workers cannot be created', async (t) => {
  const { root, options } = await hostOf(t);
  await writeFile(join(root, 'file'), '');
  const { reason, remedy } = await missingOf(t, { ...options, folder: join(root, 'file/workers') });
  t.regex(reason, /ENOTDIR/);
  t.regex(remedy, /^set CAPSTAN_WORKER_DIR to a folder that the agent can write to/);
});
