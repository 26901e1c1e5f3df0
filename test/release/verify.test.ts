/** What `capstan version --verify` finds of an installation (lib/installation.ts): each way in which its files can differ from the release. */
import { appendFile, mkdir, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import test, { type ExecutionContext } from 'ava';

import { PUBLIC_KEY, SUMS, SUMS_SIGNATURE, sumsOf, verifyInstallation } from '../../lib/installation.ts';
import { makeSecretKey, readSecretKey, signature, type SecretKey } from '../../lib/minisign.ts';
import { folderOf } from '../support/folder.ts';

const key = readSecretKey(makeSecretKey());
const other = readSecretKey(makeSecretKey());

async function sign(folder: string, by: SecretKey): Promise<void> {
  const sums = await sumsOf(folder);
  await writeFile(join(folder, SUMS), sums);
  await writeFile(join(folder, SUMS_SIGNATURE), signature(Buffer.from(sums), by, 'capstan 1.2.3'));
  await writeFile(join(folder, PUBLIC_KEY), by.publicText);
}

async function installed(t: ExecutionContext): Promise<string> {
  const folder = await folderOf(t);
  await mkdir(join(folder, 'bin/inner'), { recursive: true });
  await writeFile(join(folder, 'bin/tool'), 'tool');
  await writeFile(join(folder, 'bin/inner/part'), 'part');
  await sign(folder, key);
  return folder;
}

test('a whole installation has no problem, with its own key and with one that is trusted', async (t) => {
  const folder = await installed(t);
  const whole = { keyId: key.id, comment: 'capstan 1.2.3', files: 2, problems: [] };
  t.deepEqual(await verifyInstallation(folder), whole);
  t.deepEqual(await verifyInstallation(folder, key.publicText), whole);
});

const CHANGES: readonly (readonly [string, (folder: string) => Promise<unknown>, readonly string[]])[] = [
  ['a changed file', (folder) => appendFile(join(folder, 'bin/tool'), 'x'), ['bin/tool differs']],
  ['a missing file', (folder) => rm(join(folder, 'bin/inner/part')), ['bin/inner/part is missing']],
  ['an added file', (folder) => writeFile(join(folder, 'bin/inner/more'), ''), ['bin/inner/more is not part of the release']],
  ['an added link', (folder) => symlink('/bin/sh', join(folder, 'bin/sh')), ['bin/sh is not part of the release']],
  [
    'a file in a folder of its name',
    async (folder) => {
      await rm(join(folder, 'bin/tool'));
      await mkdir(join(folder, 'bin/tool'));
    },
    ['bin/tool differs'],
  ],
  [
    'a file that is a link to the same content elsewhere',
    async (folder) => {
      await rm(join(folder, 'bin/tool'));
      await writeFile(`${folder}-outside`, 'tool');
      await symlink(`${folder}-outside`, join(folder, 'bin/tool'));
    },
    ['bin/tool is a link'],
  ],
];

for (const [what, change, problems] of CHANGES)
  test(`${what} is found`, async (t) => {
    const folder = await installed(t);
    t.teardown(() => rm(`${folder}-outside`, { force: true }));
    await change(folder);
    t.deepEqual((await verifyInstallation(folder, key.publicText)).problems, problems);
  });

test('a list that was changed, or signed by another key, is refused', async (t) => {
  const changed = await installed(t);
  await appendFile(join(changed, SUMS), `${'0'.repeat(64)}  bin/more\n`);
  await t.throwsAsync(verifyInstallation(changed), { message: 'the signature does not fit the file' });
  const replaced = await installed(t);
  await writeFile(join(replaced, 'bin/tool'), 'another tool');
  await rm(join(replaced, SUMS));
  await rm(join(replaced, SUMS_SIGNATURE));
  await rm(join(replaced, PUBLIC_KEY));
  await sign(replaced, other);
  t.deepEqual((await verifyInstallation(replaced)).problems, [], 'its own key proves nothing');
  await t.throwsAsync(verifyInstallation(replaced, key.publicText), {
    message: `the signature is of the key ${other.id}, not of ${key.id}`,
  });
  const unsigned = await installed(t);
  await rm(join(unsigned, SUMS_SIGNATURE));
  await t.throwsAsync(verifyInstallation(unsigned), { code: 'ENOENT' });
});
