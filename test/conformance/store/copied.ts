/** Stores for the tests of copies: one with every kind of row, and what a store holds, to compare. */
import { Client } from 'pg';
import Database from 'better-sqlite3';

import { SqliteEngine } from '../../../scheduler/store/sqlite/engine.ts';
import { COPY_TABLES } from '../../../scheduler/store/copy/tables.ts';
import type { Op } from '../../../scheduler/core/ports/store.ts';
import { cancelledInQueue, completed, failed, deliveryOf, json, leased, leaseOf, queued, START, submit } from './jobs.ts';

const blob = (name: string, size = 70_000): { blob: { id: string; size: number } } => ({ blob: { id: `body/${name}`, size } });
/** Signs that mean something in one format or the other. */
const AWKWARD = 'a\tb\nc\\d\r\\N "quoted" \u{1F600} äöü \\. \u0001';

/** Writes every kind of row into a new SQLite database, and some that were removed again. */
export function fill(file: string): void {
  const engine = new SqliteEngine({ file, now: () => START });
  const { term } = engine.acquire(0, 'first', 1);
  engine.acquire(0, 'second', 1);
  const fence = { cell: 0, term: term + 1n };
  const put = (rowKind: 'account' | 'key' | 'endpoint' | 'setting' | 'audit', key: string, value: unknown): Op => ({
    kind: 'put',
    rowKind,
    key,
    version: 1,
    value: JSON.stringify(value),
  });
  const ops: Op[] = [
    put('account', 'account-a', { id: 'account-a', name: AWKWARD }),
    put('key', 'hash-1', { account: 'account-b', scope: 'KEY_SCOPE_ALL' }),
    put('endpoint', 'endpoint-a', { account: 'account-a' }),
    put('setting', 'master-key', { id: '12345678' }),
    put('audit', `account-a/${START}00000000`, { at: START, account: 'account-a', action: 'deploy', object: AWKWARD }),
    submit(queued(1)),
    submit(queued(2, { priority: 1, hasS3: true, webhook: 'https://example.com/?a=b&c' }), { s3: new Uint8Array([0, 9, 10, 13, 92, 255]) }),
    submit(queued(3), { idempotency: { key: `key ${AWKWARD}`, bodyHash: new Uint8Array([1, 2]), expiresAt: START * 2 } }),
    submit(queued(4), { input: blob('input-4') }),
    submit(leased(5)),
    { kind: 'requeue', seq: 5, token: 1, attempts: 1, pastAttempts: JSON.stringify([{ error: AWKWARD }]) },
    leaseOf(5, 2),
    { kind: 'started', seq: 5, token: 2, startedAt: START + 10, attempts: 2, delayMs: 10 },
    submit(leased(6)),
    completed(6, {
      output: json({ text: AWKWARD }),
      chunks: [json(1), blob('chunk-6'), json(AWKWARD)],
      firstChunk: 3,
      delivery: deliveryOf(6),
    }),
    submit(leased(7), { input: blob('input-7') }),
    completed(7, { output: blob('output-7'), delivery: deliveryOf(7, { dueAt: START + 5_000 }) }),
    submit(leased(8)),
    failed(8, { error: AWKWARD, delivery: deliveryOf(8, { host: 'other.example', url: 'https://other.example/' }) }),
    { kind: 'delivery', id: deliveryOf(8).id, after: 0, to: { state: 'FAILED', dueAt: START + 9_000_000, tries: 3, error: 'HTTP 500' } },
    submit(queued(9)),
    cancelledInQueue(9, { state: 'TIMED_OUT' }),
    // Of an endpoint that is gone: its bodies stay those of the account.
    put('endpoint', 'endpoint-b', { account: 'account-a' }),
    submit(leased(10, { endpoint: 'endpoint-b' })),
    completed(10, { output: blob('output-10', 90_000) }),
    { kind: 'put', rowKind: 'endpoint', key: 'endpoint-b', version: 2, value: null },
    // The highest numbers are of a job that is gone.
    submit(queued(50, { queuePosition: 60 })),
    { kind: 'delete', seq: 50, dueBy: null },
  ];
  const refused = engine.commit(fence, ops).findIndex((outcome) => outcome.kind !== 'ok');
  engine.saveHistory([10, 60].map((step) => ({ endpoint: 'endpoint-a', step, at: START, value: AWKWARD })));
  engine.changeDeviceHistory({ save: [{ node: 'node-a', device: 'GPU-a', at: START, value: AWKWARD }] });
  engine.queueReasons('save', [{ endpoint: 'endpoint-a', at: START, reason: 'NO_CAPACITY', detail: AWKWARD }]);
  engine.close();
  if (refused !== -1) throw new Error(`operation ${refused} was refused`);
}

/** All rows of a SQLite store by table, and its highest numbers. */
export function rowsOfSqlite(file: string): Record<string, unknown> {
  const db = new Database(file, { fileMustExist: true });
  try {
    return Object.fromEntries(
      COPY_TABLES.map(({ name, order }) => [name, db.prepare(`SELECT * FROM ${name} ORDER BY ${order.sqlite.join(', ')}`).all()]),
    );
  } finally {
    db.close();
  }
}

/** Bytes of the bodies that rows of a SQLite store hold themselves. */
export function bytesInRows(file: string): number {
  const db = new Database(file, { readonly: true });
  try {
    const sums = `SELECT total(length(inline)) FROM inputs UNION ALL SELECT total(length(inline)) FROM chunks
      UNION ALL SELECT total(length(output)) FROM jobs UNION ALL SELECT total(length(input)) + total(length(output)) FROM hooks`;
    return db
      .prepare<[], number>(sums)
      .pluck()
      .all()
      .reduce((sum, bytes) => sum + bytes, 0);
  } finally {
    db.close();
  }
}

/** Names of the columns of every table of PostgreSQL that holds rows of cells or endpoints, without the cell. */
export async function columnsOfPostgres(url: string): Promise<Map<string, string[]>> {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    const { rows } = await client.query<{ table: string; column: string }>(
      `SELECT table_name::text AS table, column_name::text AS column FROM information_schema.columns c
       WHERE table_schema = 'capstan' AND EXISTS (SELECT FROM information_schema.columns o WHERE o.table_schema = c.table_schema
         AND o.table_name = c.table_name AND o.column_name IN ('cell', 'endpoint'))`,
    );
    const names = new Map<string, string[]>();
    for (const { table, column } of rows) if (column !== 'cell') names.set(table, [...(names.get(table) ?? []), column]);
    return names;
  } finally {
    await client.end();
  }
}
