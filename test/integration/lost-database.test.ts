/** A data folder that was used before and has lost its database is refused, with the way to restore it. */
import { existsSync } from 'node:fs';
import { rm, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import test from 'ava';

import { CapstanError, errorTable } from '../../lib/errors.ts';
import { readConfig } from '../../scheduler/config.ts';
import { start } from '../../scheduler/assembly/start.ts';
import { folderOf } from '../support/folder.ts';

const run = (dataDir: string) => start(readConfig({ dataDir, port: 0, logLevel: 'silent' }, {}));

const losses: Readonly<Record<string, (database: string) => Promise<void>>> = {
  missing: (database) => rm(database),
  empty: (database) => truncate(database),
  damaged: (database) => writeFile(database, 'not a database, and longer than the head of one'.repeat(10)),
};
for (const [how, lose] of Object.entries(losses)) {
  test(`a database that is ${how}`, async (t) => {
    const dataDir = join(await folderOf(t), 'data');
    await (await run(dataDir)).close();
    const database = join(dataDir, 'scheduler/capstan.db');
    await (await run(dataDir)).close();
    await rm(`${database}-wal`, { force: true });
    await lose(database);
    const error = await t.throwsAsync(run(dataDir), { instanceOf: CapstanError });
    t.is(error instanceof CapstanError ? error.code : '', 'DATA_LOST');
    t.regex(
      error?.message ?? '',
      new RegExp(how === 'damaged' ? 'the file is not a database' : `the database is ${how}, but its data folder has been used before`),
    );
    t.regex(errorTable.DATA_LOST.hint, /^Restore the data folder from a backup/);
    // The refusal makes none in its place, so the next start is refused, too.
    t.is(existsSync(database), how !== 'missing');
    await t.throwsAsync(run(dataDir), { instanceOf: CapstanError });
  });
}

test('a first start that was cut off before the database was made is finished by the next', async (t) => {
  const dataDir = join(await folderOf(t), 'data');
  await (await run(dataDir)).close();
  await rm(join(dataDir, 'version'));
  await rm(join(dataDir, 'scheduler'), { recursive: true });
  await (await run(dataDir)).close();
  t.true(existsSync(join(dataDir, 'version')));
});
