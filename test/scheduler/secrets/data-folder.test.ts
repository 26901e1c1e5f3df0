import { mkdir, readFile, readdir, rm, stat, symlink, writeFile, chmod } from 'node:fs/promises';
import { join } from 'node:path';

import test, { type ExecutionContext } from 'ava';

import { CapstanError, type ErrorCode } from '../../../lib/errors.ts';
import { LAYOUT_VERSION, prepareDataFolder } from '../../../scheduler/secrets/data-folder.ts';
import { folderOf } from '../../support/folder.ts';

/** The call must be refused with this code, in one line. */
async function refused(t: ExecutionContext, call: Promise<unknown>, code: ErrorCode, message: RegExp): Promise<void> {
  const error = await t.throwsAsync(call, { instanceOf: CapstanError });
  t.is(error.code, code);
  t.regex(error.message, message);
  t.notRegex(error.message, /\n/);
}

const modeOf = async (path: string): Promise<number> => (await stat(path)).mode & 0o777;

test('the first start makes the folder, its version and its secrets', async (t) => {
  const dir = join(await folderOf(t), 'new', 'folder');
  const data = await prepareDataFolder(dir);

  t.is(data.path, dir);
  t.deepEqual(data.created, { folder: true, apiKey: true, gatewayToken: true, joinToken: true, masterKey: true });
  t.is(await readFile(join(dir, 'version'), 'utf8'), `${LAYOUT_VERSION}\n`);
  t.regex(data.secrets.apiKey, /^cap_[A-Za-z0-9_-]{32}$/);
  t.is(data.secrets.masterKey.length, 32);
  t.is(await readFile(join(dir, 'secrets/api-key'), 'utf8'), `${data.secrets.apiKey}\n`);
  t.is(await readFile(join(dir, 'secrets/master-key'), 'utf8'), `${data.secrets.masterKey.toString('hex')}\n`);
  t.not(data.secrets.gatewayToken, data.secrets.joinToken);
  t.deepEqual((await readdir(join(dir, 'secrets'))).sort(), ['api-key', 'gateway-token', 'join-token', 'master-key']);
});

test('secrets are for their owner only, also when someone had opened them up', async (t) => {
  const dir = await folderOf(t);
  await prepareDataFolder(dir);
  for (const name of await readdir(join(dir, 'secrets'))) t.is(await modeOf(join(dir, 'secrets', name)), 0o600, name);
  t.is(await modeOf(join(dir, 'secrets')), 0o700);

  await chmod(join(dir, 'secrets'), 0o755);
  await chmod(join(dir, 'secrets/api-key'), 0o644);
  await prepareDataFolder(dir);
  t.is(await modeOf(join(dir, 'secrets')), 0o700);
  t.is(await modeOf(join(dir, 'secrets/api-key')), 0o600);
});

test('a later start finds the same secrets and makes nothing', async (t) => {
  const dir = await folderOf(t);
  const first = await prepareDataFolder(dir);
  const second = await prepareDataFolder(dir, { apiKey: 'another-key' });
  t.deepEqual(second.secrets, first.secrets);
  t.false(Object.values(second.created).some(Boolean));
});

test('a key given at the first start becomes the account key', async (t) => {
  const data = await prepareDataFolder(await folderOf(t), { apiKey: 'my-own-key' });
  t.is(data.secrets.apiKey, 'my-own-key');
});

test('starts at the same time agree on one set of secrets', async (t) => {
  const dir = await folderOf(t);
  const all = await Promise.all(Array.from({ length: 8 }, () => prepareDataFolder(dir)));
  t.is(new Set(all.map((data) => JSON.stringify(data.secrets))).size, 1);
  t.is(all.filter((data) => data.created.apiKey).length, 1);
});

test('a first start that was interrupted is finished by the next', async (t) => {
  const dir = await folderOf(t);
  const first = await prepareDataFolder(dir);
  await rm(join(dir, 'version'));
  await rm(join(dir, 'secrets/join-token'));
  const second = await prepareDataFolder(dir);
  t.is(second.secrets.apiKey, first.secrets.apiKey);
  t.deepEqual(second.secrets.masterKey, first.secrets.masterKey);
  t.true(second.created.folder);
  t.true(second.created.joinToken);
  t.is(await readFile(join(dir, 'version'), 'utf8'), `${LAYOUT_VERSION}\n`);
});

test('a folder that a newer version wrote is refused, naming both versions', async (t) => {
  const dir = await folderOf(t);
  await writeFile(join(dir, 'version'), `${LAYOUT_VERSION + 6}\n`);
  await refused(t, prepareDataFolder(dir), 'DATA_NEWER', new RegExp(`layout version ${LAYOUT_VERSION + 6}.*up to ${LAYOUT_VERSION}`));
  t.deepEqual(await readdir(dir), ['version']);
});

test('a file in the place of the folder is refused', async (t) => {
  const dir = join(await folderOf(t), 'file');
  await writeFile(dir, '');
  await refused(t, prepareDataFolder(dir), 'DATA_DIR', /not a folder|is a file/);
  await refused(t, prepareDataFolder(join(dir, 'below')), 'DATA_DIR', /is a file/);
});

test('a folder that cannot be made or read is refused', async (t) => {
  await refused(
    t,
    prepareDataFolder('/proc/capstan-cannot-be-here'),
    'DATA_DIR',
    /^cannot use the data folder \/proc\/capstan-cannot-be-here: /,
  );
  const dir = await folderOf(t);
  await symlink(join(dir, 'nowhere'), join(dir, 'link'));
  await refused(t, prepareDataFolder(join(dir, 'link')), 'DATA_DIR', /cannot use the data folder/);
});

const isSuperuser = process.getuid?.() === 0;
const asUser = isSuperuser ? test.skip : test;

asUser(
  `a folder without permission is refused${isSuperuser ? ' (skipped: the superuser may read and write every folder)' : ''}`,
  async (t) => {
    const dir = await folderOf(t);
    await chmod(dir, 0o500);
    await refused(t, prepareDataFolder(dir), 'DATA_DIR', /permission denied/);
  },
);

test('a damaged version or secret is refused and left as it is', async (t) => {
  const dir = await folderOf(t);
  await writeFile(join(dir, 'version'), 'one');
  await refused(t, prepareDataFolder(dir), 'DATA_DIR', /'version' has no valid layout version/);

  await rm(join(dir, 'version'));
  await mkdir(join(dir, 'secrets'));
  await writeFile(join(dir, 'secrets/master-key'), 'short');
  await refused(t, prepareDataFolder(dir), 'DATA_DIR', /master-key must be 64 hex digits/);
  t.is(await readFile(join(dir, 'secrets/master-key'), 'utf8'), 'short');
});

test('a lost master key is not replaced', async (t) => {
  const dir = await folderOf(t);
  await prepareDataFolder(dir);
  await rm(join(dir, 'secrets/master-key'));
  await refused(t, prepareDataFolder(dir), 'DATA_LOST', /secrets\/master-key is missing/);
});

test('a key that no header can carry is refused without repeating it', async (t) => {
  const dir = join(await folderOf(t), 'data');
  for (const apiKey of ['', 'with space', 'line\nbreak', 'ключ']) {
    await refused(t, prepareDataFolder(dir, { apiKey }), 'CONFIG', /SERVICE_API_KEY/);
  }
  await t.throwsAsync(stat(dir), { code: 'ENOENT' });
});
