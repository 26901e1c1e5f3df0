/** Brings the schema up to date, under a lock: two schedulers may find it old at once. */
import type { Client } from 'pg';

import { CapstanError } from '../../../lib/errors.ts';
import { migrations as known } from './migrations/all.ts';
import type { Migration } from './migrations/migration.ts';

/** First key of all advisory locks of Capstan ('CAPS'). */
export const LOCK_SPACE = 0x43415053;
/** Second key of the lock of the schema; the cells' are their numbers, from 0. */
const SCHEMA_LOCK = -1;

/** @throws CapstanError DATA_NEWER when a newer version wrote the schema, CONFIG when the schema is not ours. */
export async function migrate(client: Client, where: string, migrations: readonly Migration[] = known): Promise<void> {
  const newest = migrations.at(-1)?.number ?? 0;
  if ((await versionOf(client, where)) === newest) return;
  await client.query('BEGIN');
  try {
    await client.query('SELECT pg_advisory_xact_lock($1, $2)', [LOCK_SPACE, SCHEMA_LOCK]);
    const done = await versionOf(client, where);
    if (done > newest)
      throw new CapstanError('DATA_NEWER', `store ${where}: its schema is version ${done}, this program knows up to ${newest}`);
    if (done === 0)
      await client.query('CREATE SCHEMA capstan; CREATE TABLE capstan.migrations (number int PRIMARY KEY, name text NOT NULL)');
    for (const migration of migrations) {
      if (migration.number <= done) continue;
      await client.query(migration.sql);
      await client.query('INSERT INTO capstan.migrations (number, name) VALUES ($1, $2)', [migration.number, migration.name]);
    }
    await client.query('COMMIT');
  } catch (error) {
    await client.query('ROLLBACK').catch(() => undefined);
    throw error;
  }
}

/** Number of the newest migration that was applied; 0 in an empty database. */
async function versionOf(client: Client, where: string): Promise<number> {
  const found = await client.query<{ schema: boolean; ours: boolean }>(
    "SELECT to_regnamespace('capstan') IS NOT NULL AS schema, to_regclass('capstan.migrations') IS NOT NULL AS ours",
  );
  const { schema, ours } = found.rows[0] ?? { schema: false, ours: false };
  if (schema && !ours) throw new CapstanError('CONFIG', `store ${where}: the schema "capstan" belongs to another program`);
  if (!schema) return 0;
  const { rows } = await client.query<{ version: number }>('SELECT coalesce(max(number), 0) AS version FROM capstan.migrations');
  return rows[0]?.version ?? 0;
}
