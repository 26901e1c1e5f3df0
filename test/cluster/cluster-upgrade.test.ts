/**
 * Every part goes from the version before the newest migration of the PostgreSQL schema to this one, one after the other and
 * under load: callers see no error. The version before is that of the repository's history.
 */
import { execFile } from 'node:child_process';
import { symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

import test from 'ava';
import { Client } from 'pg';

import { migrations } from '../../scheduler/store/postgres/migrations/all.ts';
import { HistoryStack, plainSettings } from '../history/stack/stack.ts';
import { folderOf } from '../support/folder.ts';
import { NO_POSTGRES, postgresBinaries } from '../support/postgres-binaries.ts';
import { loadOf, ownerOf, partOf, restart, settled, step } from '../support/stack-load.ts';

const root = join(import.meta.dirname, '../..');
const folder = 'scheduler/store/postgres/migrations';
const run = promisify(execFile);

const binaries = await postgresBinaries();
const before = await commitBefore();

test('schedulers, gateways and agents of two versions work side by side, and no caller sees the upgrade', async (t) => {
  if (binaries === undefined || before === undefined) {
    t.log(`skipped: ${binaries === undefined ? NO_POSTGRES : 'the version before is not in the history of this checkout'}`);
    t.pass();
    return;
  }
  const former = await folderOf(t);
  const archive = join(former, 'former.tar');
  await run('git', ['-C', root, 'archive', `--output=${archive}`, before]);
  await run('tar', ['-xf', archive, '-C', former]);
  await symlink(join(root, 'node_modules'), join(former, 'node_modules'));

  const stack = await HistoryStack.start(
    { ...plainSettings, schedulers: 2, postgres: binaries, program: join(former, 'cli/main.ts') },
    () => undefined,
  );
  t.teardown(() => stack.close());
  const newest = migrations.at(-1)?.number ?? 0;
  t.not(await schemaOf(stack), newest, 'the version before has not made it');
  const load = loadOf(t, stack);
  const upgrade = async (name: string): Promise<void> => {
    partOf(stack, name).program = join(root, 'cli/main.ts');
    await step(t, load, `${name} upgraded`, () => restart(stack, name));
  };
  const owner = await ownerOf(stack);
  for (const name of stack.schedulers) if (name !== owner) await upgrade(name);
  t.not(await schemaOf(stack), newest, 'a standby leaves the schema alone');
  await upgrade(owner);
  t.is(await schemaOf(stack), newest, 'the next owner has migrated it');
  for (const name of stack.parts.keys()) if (!stack.schedulers.includes(name)) await upgrade(name);
  await settled(t, load);
});

/** The parent of the commit that added the newest migration; undefined without a history that has it. */
async function commitBefore(): Promise<string | undefined> {
  const number = String(migrations.at(-1)?.number).padStart(4, '0');
  try {
    const args = ['-C', root, 'log', '--diff-filter=A', '--format=%H', '--', `${folder}/${number}_*.ts`];
    const added = (await run('git', args)).stdout.trim().split('\n').at(-1) ?? '';
    return (await run('git', ['-C', root, 'rev-parse', '--verify', `${added}^`])).stdout.trim();
  } catch {
    return undefined; // no git, or a checkout without its history
  }
}

/** Number of the newest migration that was applied. */
async function schemaOf({ database }: HistoryStack): Promise<number> {
  const client = new Client({ connectionString: database?.url(database.address) });
  await client.connect();
  try {
    const { rows } = await client.query<{ newest: number }>('SELECT max(number) AS newest FROM capstan.migrations');
    return rows[0]?.newest ?? 0;
  } finally {
    await client.end();
  }
}
