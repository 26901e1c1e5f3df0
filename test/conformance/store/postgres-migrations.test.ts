/** The past of a database is fixed: the texts of its migrations never change, and wherever a database begins, it ends the same. */
import { createHash } from 'node:crypto';

import test from 'ava';

import { openPostgresStore } from '../../../scheduler/store/postgres/client.ts';
import { migrations } from '../../../scheduler/store/postgres/migrations/all.ts';
import { COMMIT_FUNCTION, commitFunction, OPERATION_TYPES, OPERATIONS, typeName } from '../../../scheduler/store/postgres/sql/batch.ts';
import type { PostgresServer } from '../../support/postgres.ts';
import { withPostgres } from '../../support/with-postgres.ts';
import { take } from './take.ts';

/** Everything that the schema holds, a line each. */
const CATALOGUE = `
SELECT 'table ' || c.relname || ' ' || c.relkind::text || ' ' || coalesce(c.reloptions::text, '') AS line FROM pg_class c
  WHERE c.relnamespace = 'capstan'::regnamespace AND c.relkind IN ('r', 'v', 'c')
UNION ALL SELECT 'column ' || c.relname || '.' || a.attname || ' ' || a.attnum || ' ' || format_type(a.atttypid, a.atttypmod)
    || CASE WHEN a.attnotnull THEN ' not null' ELSE '' END || a.attidentity::text || ' ' || coalesce(o.collname, '')
    || coalesce(' ' || pg_get_expr(d.adbin, d.adrelid), '')
  FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid LEFT JOIN pg_collation o ON o.oid = a.attcollation
  LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
  WHERE c.relnamespace = 'capstan'::regnamespace AND a.attnum > 0 AND NOT a.attisdropped AND c.relkind IN ('r', 'v', 'c')
UNION ALL SELECT 'constraint ' || conrelid::regclass || ' ' || conname || ' ' || pg_get_constraintdef(oid) FROM pg_constraint
  WHERE connamespace = 'capstan'::regnamespace
UNION ALL SELECT 'index ' || indexdef FROM pg_indexes WHERE schemaname = 'capstan'
UNION ALL SELECT 'function ' || pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace = 'capstan'::regnamespace
UNION ALL SELECT 'trigger ' || pg_get_triggerdef(t.oid) FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
  WHERE c.relnamespace = 'capstan'::regnamespace AND NOT t.tgisinternal
UNION ALL SELECT 'view ' || viewname || ' ' || definition FROM pg_views WHERE schemaname = 'capstan'
UNION ALL SELECT 'enum ' || t.typname || ' ' || string_agg(e.enumlabel, ',' ORDER BY e.enumsortorder) FROM pg_type t
  JOIN pg_enum e ON e.enumtypid = t.oid WHERE t.typnamespace = 'capstan'::regnamespace GROUP BY t.typname
ORDER BY line`;

await withPostgres('postgres', tests);

test('the texts of migrations that were released do not change', (t) => {
  t.deepEqual(
    migrations.map(({ number }) => number),
    migrations.map((_, i) => i + 1),
  );
  const digests = migrations.map(({ number, name, sql }) => `${number} ${name} ${createHash('sha256').update(sql).digest('hex')}`);
  t.deepEqual(digests, [
    '1 queue 2fd9009370b60cf2bf48d0d4bdb11bc9b2b32d69cf64908a291e2f8e7553bfce',
    '2 terms 093232f6049d396cf4ae42014f23bb0e32db8b3fc454a5e9aeae7cc2baebc951',
    '3 schedulers ff86b542e40fb926d8c08c14e840b6b425272b668e14af5445147579e30d930b',
    '4 cells 76c5eaea5924ca7138545ac137b5bbca18d2ea98cc7171f80b9ac25204fa65eb',
    '5 plans 336f386b580b77f9ce3e246e9e2eb5b25c9e75e7c13d9300bac900435cd28b9b',
    '6 finer_terms d61ae295374cc58a3ec67f405d66c82a6bcd904de859cd6ab37da3bfa7741b51',
    '7 history 6638192190a8820180ad5ab2ab27ad005710077f06591323e2e88da5218a1550',
    '8 traces_and_tags 2967057700c5f0d0388e80b2ab5064c22e35da3d17b1bf3c806d732e1bec6701',
    '9 unchecked_jobs 4d07820090716c08f251e15670d8e42e01b7519d41524c765d23ce1aef7236af',
    '10 timelines e959b294a05f17a133bfce22d7d3e7ad61783ccce5044dcbf2f7069eac0430c4',
    '11 open_readers af96b0be7ae48dd9a776f782b24907e6df8c43f133d43d524b6bd7de18602051',
    '12 checked_payloads e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855',
    '13 device_history 360dc2c2d4ce0e10849fc65d2532651c548df8523b8f6ce1525b514f377f3718',
    '14 inline_usage 26c334790425dcd0eb78c09b4a72c141cc0a4ff589bda3eb4103dd497d4935a6',
    '15 audit ddee7d81e17b2386d36271ba0b52d3b47fe69199c8fe6b5ab55b887a16e745f4',
    '16 submitters 91fb1ff88758ff6b6891762b18eaa3f8982f4ba42a66d79eef3832bded941621',
  ]);
});

test('the function that the operations make is the newest one of the migrations', (t) => {
  // Not deepEqual: its difference of two long texts takes minutes.
  const newest = migrations.findLast(({ sql }) => sql.includes('FUNCTION capstan.commit_v'));
  t.true(
    newest?.sql.includes(commitFunction()),
    `another layout or meaning needs a version after ${COMMIT_FUNCTION} and a migration; another plan, a migration that replaces it`,
  );
});

function tests(server: PostgresServer): void {
  async function databaseAt(version: number): Promise<string> {
    const url = await server.newDatabase();
    if (version === 0) return url;
    await server.query(url, 'CREATE SCHEMA capstan');
    await server.query(url, 'CREATE TABLE capstan.migrations (number int PRIMARY KEY, name text NOT NULL)');
    for (const { number, name, sql } of migrations.slice(0, version)) {
      await server.query(url, sql);
      await server.query(url, `INSERT INTO capstan.migrations (number, name) VALUES (${number}, '${name}')`);
    }
    return url;
  }
  const catalogue = async (url: string): Promise<string[]> => (await server.query(url, CATALOGUE)).map(({ line }) => String(line));

  test('a database that was migrated step by step equals a new one', async (t) => {
    const opened = async (version: number): Promise<string[]> => {
      const url = await databaseAt(version);
      const store = await openPostgresStore({ url });
      await take(store);
      await store.close();
      return catalogue(url);
    };
    const fresh = await opened(0);
    t.true(fresh.some((line) => line.startsWith('function') && line.includes('capstan.commit_v1(')));
    for (const { number } of migrations) t.deepEqual(await opened(number), fresh, `from version ${number}`);
  });

  test('the composite types have the columns of the operations', async (t) => {
    const url = await databaseAt(migrations.length);
    for (const type of OPERATION_TYPES) {
      const [row] = await server.query(
        url,
        `SELECT string_agg(attname || ' ' || atttypid::regtype, ',' ORDER BY attnum) AS columns FROM pg_attribute
          WHERE attrelid = 'capstan.${typeName(type)}'::regclass`,
      );
      const names = { int4: 'integer', int8: 'bigint', text: 'text', bytea: 'bytea' };
      t.is(row?.['columns'], OPERATIONS[type].columns.map(([name, of]) => `${name} ${names[of]}`).join(','), type);
    }
  });
}
