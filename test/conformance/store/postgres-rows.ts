/** What a batch costs in PostgreSQL, counted in rows. */
import type { ExecutionContext } from 'ava';

import { PayloadCodec } from '../../../scheduler/store/payload-codec.ts';
import { parseAddress } from '../../../scheduler/store/postgres/address.ts';
import { batchOf } from '../../../scheduler/store/postgres/batch.ts';
import { connect } from '../../../scheduler/store/postgres/connection.ts';
import { COMMIT, OPERATION_TYPES, typeName } from '../../../scheduler/store/postgres/sql/batch.ts';
import type { Fence, Op } from '../../../scheduler/core/ports/store.ts';

/** Rows of jobs that a batch reads by an index, on a connection like the store's; the batch is rolled back. */
export async function rowsOfBatch(t: ExecutionContext, url: string, fence: Fence, ops: readonly Op[]): Promise<number> {
  const { client } = await connect(parseAddress(url, 'url'), 'capstan test', {
    answerMs: 60_000,
    onEnd: () => undefined,
    onWarning: (message) => t.fail(message),
  });
  t.teardown(() => client.end());
  const types = await client.query<{ name: string; oid: number }>(
    "SELECT typname AS name, oid::bigint AS oid FROM pg_type WHERE typnamespace = 'capstan'::regnamespace AND typtype = 'c'",
  );
  const oids = new Map(types.rows.map(({ name, oid }) => [name, oid]));
  const batch = batchOf(ops, new PayloadCodec());
  await client.query('BEGIN');
  // Locked: the store confirms its term by empty batches, and one in between would take the number.
  const { rows: cells } = await client.query<{ batch: number }>('SELECT batch FROM capstan.cells WHERE cell = 0 FOR UPDATE');
  const { batch: last } = cells[0] ?? { batch: 0 };
  const before = await fetched();
  await client.query(COMMIT, [
    fence.cell,
    String(fence.term),
    last + 1,
    0,
    0,
    0,
    batch.waves,
    false,
    0,
    ...OPERATION_TYPES.map((type) => batch.arrays[type].encode(oids.get(typeName(type)) ?? 0)),
  ]);
  const after = await fetched();
  await client.query('ROLLBACK');
  return after - before;

  async function fetched(): Promise<number> {
    const { rows } = await client.query<{ rows: number }>(
      "SELECT idx_tup_fetch::bigint AS rows FROM pg_stat_xact_user_tables WHERE schemaname = 'capstan' AND relname = 'jobs'",
    );
    return rows[0]?.rows ?? 0;
  }
}
