/**
 * The schema and its version. Whoever takes a cell brings the schema up to date first, under a lock: two schedulers may find
 * it old at once. Migrations only add, so that owners of other cells and standbys of the version before go on.
 */
import { CapstanError } from '../../../lib/errors.ts';
import { migrations as known } from './migrations/all.ts';
import type { Writer } from './writer.ts';

/** First key of all advisory locks of Capstan ('CAPS'). */
export const LOCK_SPACE = 0x43415053;
/** Second key of the lock of the schema; the cells' are their numbers, from 0. */
const SCHEMA_LOCK = -1;
/** Whether the schema's lock is held, as a condition; keys of locks are unsigned in the view. */
export const SCHEMA_IS_LOCKED = `EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND classid = ${LOCK_SPACE} AND objid = 4294967295 AND objsubid = 2
  AND granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))`;
/** A migration may rewrite tables, or read all of them. */
export const LONGER_MS = 3_600_000;

const VERSION_TABLES = "SELECT to_regnamespace('capstan') IS NOT NULL AS schema, to_regclass('capstan.migrations') IS NOT NULL AS ours";

/** Number of the newest migration that this program knows. */
export const newestKnown = known.at(-1)?.number ?? 0;

/** @throws CapstanError DATA_NEWER when a newer version wrote the schema. */
export async function migrate(writer: Writer, where: string): Promise<void> {
  if ((await schemaVersion(writer, where)) === newestKnown) return;
  const run = (text: string, values: unknown[] = []): Promise<unknown> => writer.ask({ kind: 'term', text, values, longerMs: LONGER_MS });
  await run('BEGIN');
  try {
    await run('SELECT pg_advisory_xact_lock($1, $2)', [LOCK_SPACE, SCHEMA_LOCK]);
    const done = await schemaVersion(writer, where);
    if (done > newestKnown) throw newer(where, done);
    if (done === 0) {
      await run('CREATE SCHEMA capstan');
      await run('CREATE TABLE capstan.migrations (number int PRIMARY KEY, name text NOT NULL)');
    }
    for (const migration of known) {
      if (migration.number <= done) continue;
      await writer.ask({ kind: 'term', text: migration.sql, longerMs: LONGER_MS });
      await run('INSERT INTO capstan.migrations (number, name) VALUES ($1, $2)', [migration.number, migration.name]);
    }
    await run('COMMIT');
  } catch (error) {
    // On a connection that is lost there is nothing to roll back.
    if (writer.lost === null) await run('ROLLBACK');
    throw error;
  }
}

export function newer(where: string, version: number): CapstanError {
  return new CapstanError('DATA_NEWER', `store ${where}: its schema is version ${version}, this program supports up to ${newestKnown}`);
}

/**
 * Number of the newest migration that was applied; 0 in an empty database.
 * @throws CapstanError CONFIG when the schema is another program's.
 */
export async function schemaVersion(writer: Writer, where: string): Promise<number> {
  const [found] = await writer.ask<{ schema: boolean; ours: boolean }>({ kind: 'term', text: VERSION_TABLES });
  const { schema, ours } = found ?? { schema: false, ours: false };
  if (schema && !ours) throw new CapstanError('CONFIG', `store ${where}: the schema "capstan" belongs to another program`);
  if (!schema) return 0;
  const [row] = await writer.ask<{ version: number }>({
    kind: 'term',
    text: 'SELECT coalesce(max(number), 0) AS version FROM capstan.migrations',
  });
  return row?.version ?? 0;
}
