/**
 * The plans of a batch hold whatever the planner knew when it made them: here they are made on empty tables, and then the
 * tables fill. Entries of indexes are counted, not time: with a wrong plan each row of a batch goes through all rows of its cell.
 */
import test, { type ExecutionContext } from 'ava';

import { openPostgresStore } from '../../../scheduler/store/postgres/client.ts';
import type { Op } from '../../../scheduler/core/ports/store.ts';
import { NO_POSTGRES, postgresBinaries, startPostgres, type PostgresServer } from '../../support/postgres.ts';
import { completed, failed, deliveryOf, idOf, json, leaseOf, outcomes, queued, START, submit } from './jobs.ts';
import { take } from './take.ts';

const JOBS = 1_000;
const BATCH = 50;
/** Entries that the operations of one job read in an index, all in all. A wrong plan reads some 500 for each operation. */
const MAX_PER_JOB = 60;

const binaries = await postgresBinaries();
if (binaries === undefined) {
  test('postgres', (t) => {
    t.log(NO_POSTGRES);
    t.pass();
  });
} else tests(await startPostgres(binaries, { autovacuum: 'off' }));

function tests(server: PostgresServer): void {
  test.after.always(() => server.stop());

  test('batches look rows up by their keys in a new database', (t) => fills(t, server, []));
  test('batches look rows up by their keys in a database whose rows all went', (t) =>
    fills(t, server, ['jobs', 'inputs', 'chunks', 'hooks', 'hook_hosts', 'idempotency', 'control', 'bodies']));
}

async function fills(t: ExecutionContext, server: PostgresServer, vacuumed: readonly string[]): Promise<void> {
  const url = await server.newDatabase();
  const store = await openPostgresStore({ url });
  t.teardown(() => store.close());
  const fence = await take(store);
  const lives = async (from: number, count: number): Promise<void> => {
    for (const { step, outcome } of LIFE) {
      for (let first = from; first < from + count; first += BATCH) {
        const seqs = Array.from({ length: Math.min(BATCH, from + count - first) }, (_, i) => first + i);
        const found = await outcomes(store, fence, ...seqs.map(step));
        if (found.some((each) => each !== outcome)) throw new Error(`${step.toString()}: ${found.join()}, not ${outcome}`);
      }
    }
  };
  if (vacuumed.length > 0) {
    await lives(1, 100);
    await server.query(url, 'DELETE FROM capstan.hooks');
    await outcomes(store, fence, ...Array.from({ length: 100 }, (_, i): Op => ({ kind: 'delete', seq: i + 1, dueBy: null })));
    for (const table of vacuumed) {
      await server.query(url, `DELETE FROM capstan.${table}`);
      await server.query(url, `VACUUM ANALYZE capstan.${table}`);
    }
  }
  await lives(1_001, 1);
  await server.query(url, 'SELECT pg_stat_reset()');
  await lives(2_001, JOBS);
  await store.close();
  const rows = await server.query(
    url,
    `SELECT indexrelname AS index, idx_tup_read::float8 / ${JOBS} AS read FROM pg_stat_user_indexes WHERE schemaname = 'capstan' AND idx_tup_read > 0`,
  );
  const read = Object.fromEntries(rows.map(({ index, read: each }) => [String(index), Number(each)]));
  t.true((read['jobs_pkey'] ?? 0) >= LIFE.length / 2, `statistics are there: ${JSON.stringify(read)}`);
  t.deepEqual(
    Object.entries(read).filter(([, each]) => each > MAX_PER_JOB),
    [],
  );
}

const blob = (seq: number, what: string) => ({ blob: { id: `${what}-${seq}`, size: 100 } });
const chunks = (seq: number) => [blob(seq, 'chunk'), json({ seq })];
const idempotency = (seq: number) => ({ key: `key-${seq}`, bodyHash: new Uint8Array(32), expiresAt: 4_000_000_000_000 });
const secret = new Uint8Array([1, 2, 3]);
const submitted = (seq: number): Op => submit(queued(seq), { input: blob(seq, 'input'), s3: secret, idempotency: idempotency(seq) });
const started =
  (token: number) =>
  (seq: number): Op => ({ kind: 'started', seq, token, startedAt: START + seq, attempts: 1, delayMs: 5 });

interface Step {
  readonly step: (seq: number) => Op;
  readonly outcome: string;
}

/** Every operation, done and refused. */
const LIFE: readonly Step[] = [
  { step: (seq) => ({ kind: 'put', rowKind: 'account', key: `a-${seq}`, version: 1, value: '{}' }), outcome: 'ok' },
  { step: (seq) => ({ kind: 'put', rowKind: 'account', key: `a-${seq}`, version: 2, value: '{}' }), outcome: 'ok' },
  { step: (seq) => ({ kind: 'put', rowKind: 'account', key: `a-${seq}`, version: 2, value: '{}' }), outcome: 'conflict' },
  { step: submitted, outcome: 'ok' },
  { step: (seq) => submit(queued(seq + 100_000, { id: idOf(seq) })), outcome: 'exists' },
  { step: (seq) => submit(queued(seq + 100_000), { idempotency: idempotency(seq) }), outcome: 'idempotent-same' },
  { step: (seq) => leaseOf(seq), outcome: 'ok' },
  { step: (seq) => leaseOf(seq), outcome: 'stale' },
  { step: started(1), outcome: 'ok' },
  { step: (seq) => ({ kind: 'requeue', seq, token: 1, attempts: 1, pastAttempts: null }), outcome: 'ok' },
  { step: (seq) => leaseOf(seq, 2), outcome: 'ok' },
  { step: started(1), outcome: 'stale' },
  { step: (seq) => ({ kind: 'reencrypt', seq, from: secret, to: new Uint8Array([4]) }), outcome: 'ok' },
  { step: (seq) => ({ kind: 'reencrypt', seq, from: secret, to: new Uint8Array([4]) }), outcome: 'stale' },
  { step: (seq) => failed(seq, { token: 2, chunks: chunks(seq), delivery: deliveryOf(seq, { host: `${seq}.example` }) }), outcome: 'ok' },
  {
    step: (seq) => ({ kind: 'retry', seq, queuePosition: seq + 50_000, submittedAt: START + 10, deleteAt: START + 20, pastAttempts: null }),
    outcome: 'ok',
  },
  {
    step: (seq) => ({ kind: 'retry', seq, queuePosition: seq + 50_000, submittedAt: START + 10, deleteAt: START + 20, pastAttempts: null }),
    outcome: 'stale',
  },
  { step: (seq) => leaseOf(seq, 4), outcome: 'ok' },
  {
    step: (seq) =>
      completed(seq, { token: 4, output: blob(seq, 'output'), chunks: chunks(seq), delivery: deliveryOf(seq, { id: `2-${seq}` }) }),
    outcome: 'ok',
  },
  { step: (seq) => ({ kind: 'drain', seq, below: 1 }), outcome: 'ok' },
  {
    step: (seq) => ({ kind: 'delivery', id: `2-${seq}`, after: 0, to: { state: 'PENDING', dueAt: START + seq, tries: 1, error: null } }),
    outcome: 'ok',
  },
  { step: (seq) => ({ kind: 'delivery', id: `2-${seq}`, after: 0, to: null }), outcome: 'stale' },
  { step: (seq) => ({ kind: 'delivery', id: deliveryOf(seq).id, after: null, to: null }), outcome: 'ok' },
  { step: (seq) => ({ kind: 'delete', seq, dueBy: 1 }), outcome: 'stale' },
  { step: (seq) => ({ kind: 'delete', seq, dueBy: null }), outcome: 'ok' },
  { step: (seq) => ({ kind: 'delete', seq, dueBy: null }), outcome: 'gone' },
];
