/**
 * Reads and batches of PostgreSQL cost what their rows cost, whatever went through the tables before: pages and rows are
 * counted, not time.
 */
import test, { type ExecutionContext } from 'ava';
import { Client } from 'pg';

import { PayloadCodec } from '../../../scheduler/store/payload-codec.ts';
import { parseAddress } from '../../../scheduler/store/postgres/address.ts';
import { openPostgresStore, type PostgresStore } from '../../../scheduler/store/postgres/client.ts';
import { readPool } from '../../../scheduler/store/postgres/connection.ts';
import { jobReads } from '../../../scheduler/store/postgres/reads/jobs.ts';
import { deliveryReads } from '../../../scheduler/store/postgres/reads/deliveries.ts';
import { LeftEdge } from '../../../scheduler/store/postgres/reads/left-edge.ts';
import { LeftEdges } from '../../../scheduler/store/postgres/reads/left-edges.ts';
import type { Query } from '../../../scheduler/store/postgres/reads/query.ts';
import type { Fence, Op } from '../../../scheduler/core/ports/store.ts';
import type { PostgresServer } from '../../support/postgres.ts';
import { withPostgres } from '../../support/with-postgres.ts';
import { completed, given, deliveryOf, leased, leaseOf, queued, START, submit } from './jobs.ts';
import { rowsOfBatch } from './postgres-rows.ts';
import { take } from './take.ts';

const JOBS = 4_000;
const BATCH = 500;
/** Pages that a look at a few rows may touch: levels of the index, the rows, their inputs. */
const FEW_PAGES = 40;

await withPostgres('postgres', tests);

test('a look that began before a write does not move the edge past it', async (t) => {
  const edge = new LeftEdge(0);
  await edge.look(async (from) => {
    t.is(from, 0);
    edge.lower(5);
    return [null, 10];
  });
  t.is(edge.at, 5, 'the look found 10 first, and may not have seen 5');
  await edge.look(async () => [null, 7]);
  t.is(edge.at, 7);
  edge.lower(6);
  t.is(edge.at, 6);
  await t.throwsAsync(edge.look(() => Promise.reject(new Error('the connection ended'))));
  t.is(edge.at, 6);
  await edge.look(async () => {
    edge.reset();
    return [null, Number.MAX_SAFE_INTEGER];
  });
  t.is(edge.at, 0);
});

function tests(server: PostgresServer): void {
  test('reads from the left do not go through what went while a reader holds a snapshot open', async (t) => {
    const { url, store, fence } = await world(t);
    const reader = new Client({ connectionString: url });
    await reader.connect();
    t.teardown(() => reader.end());
    await reader.query('BEGIN ISOLATION LEVEL REPEATABLE READ');
    await reader.query('SELECT count(*) FROM capstan.jobs');

    const edges = new LeftEdges();
    const pages = await countingReads(t, url, edges);
    const commit = async (ops: Op[]): Promise<void> => {
      edges.note(ops);
      await given(store, fence, ...ops);
    };
    for (let from = 1; from <= JOBS; from += BATCH) {
      const seqs = Array.from({ length: BATCH }, (_, i) => from + i);
      await commit(seqs.map((seq) => submit(queued(seq))));
      await commit(seqs.map((seq) => leaseOf(seq)));
      await commit(seqs.map((seq) => completed(seq)));
      await commit(seqs.map((seq) => ({ kind: 'delete', seq, dueBy: null })));
    }
    await commit([submit(queued(JOBS + 1)), submit(leased(JOBS + 2)), submit(queued(JOBS + 3))]);
    const looks = { due: () => pages.due(), leased: () => pages.leased(), head: () => pages.head() };
    for (const [name, look] of Object.entries(looks)) {
      const first = await look();
      const second = await look();
      t.true(first > 3 * FEW_PAGES, `${name}: without an edge it touches ${first} pages: the test shows nothing`);
      t.true(second <= FEW_PAGES, `${name}: ${second} pages, after ${first}`);
    }
    // What is written left of an edge is found all the same.
    await commit([{ kind: 'requeue', seq: JOBS + 2, token: 1, attempts: 0, pastAttempts: null }, leaseOf(JOBS + 1)]);
    t.deepEqual(await pages.found(), { head: [JOBS + 2, JOBS + 3], leased: [JOBS + 1], due: JOBS + 1 });
    t.deepEqual(
      (await store.read('leased', 0, 10)).map(({ seq }) => seq),
      [JOBS + 1],
    );
  });

  const hosts = { 'a host each': (seq: number) => `${seq}.${'x'.repeat(200)}.example`, 'one host': () => `${'x'.repeat(200)}.example` };
  for (const [whose, hostOf] of Object.entries(hosts))
    test(`webhooks that are due are found without going through those that were delivered, of ${whose}`, (t) => webhooks(t, hostOf));

  async function webhooks(t: ExecutionContext, hostOf: (seq: number) => string): Promise<void> {
    const { url, store, fence } = await world(t);
    const reader = new Client({ connectionString: url });
    await reader.connect();
    t.teardown(() => reader.end());
    await reader.query('BEGIN ISOLATION LEVEL REPEATABLE READ');
    await reader.query('SELECT count(*) FROM capstan.jobs');
    const edges = new LeftEdges();
    const pages = await countingReads(t, url, edges);
    const commit = async (ops: Op[]): Promise<void> => {
      edges.note(ops);
      await given(store, fence, ...ops);
    };
    const ended = (seq: number): Op[] => {
      return [submit(leased(seq)), completed(seq, { delivery: deliveryOf(seq, { dueAt: START + seq, host: hostOf(seq) }) })];
    };
    for (let from = 1; from <= JOBS; from += BATCH) {
      const seqs = Array.from({ length: BATCH }, (_, i) => from + i);
      await commit(seqs.flatMap(ended));
      await commit(seqs.map((seq) => ({ kind: 'delivery', id: deliveryOf(seq).id, after: null, to: null })));
    }
    await commit([...ended(JOBS + 1), ...ended(JOBS + 2)]);
    const first = await pages.deliveries();
    const second = await pages.deliveries();
    t.true(first > 3 * FEW_PAGES, `${first} pages: the test shows nothing`);
    t.true(second <= FEW_PAGES, `${second} pages, after ${first}`);
    // One that is sent again is due before all others.
    await commit([
      { kind: 'delivery', id: deliveryOf(JOBS + 2).id, after: null, to: { state: 'PENDING', dueAt: START, tries: 0, error: null } },
    ]);
    t.deepEqual(await pages.deliveriesFound(), [deliveryOf(JOBS + 2).id, deliveryOf(JOBS + 1).id]);
  }

  test('a batch of ends touches as many rows as it has, however many jobs are leased', async (t) => {
    const { url, store, fence } = await world(t);
    const leases = Array.from({ length: 2_000 }, (_, i) => submit(leased(i + 1)));
    await given(store, fence, ...leases);
    await server.query(url, 'ANALYZE capstan.jobs');
    const ends = Array.from({ length: 100 }, (_, i) => completed(i + 1));
    const touched = await rowsOfBatch(t, url, fence, ends);
    t.true(touched >= 100 && touched <= 400, `${touched} rows`);
  });

  interface World {
    readonly url: string;
    readonly store: PostgresStore;
    readonly fence: Fence;
  }

  async function world(t: ExecutionContext): Promise<World> {
    const url = await server.newDatabase();
    const store = await openPostgresStore({ url });
    t.teardown(() => store.close());
    return { url, store, fence: await take(store) };
  }
}

/** The store's own reads, on connections like its own; each says how many pages it touched. */
async function countingReads(t: ExecutionContext, url: string, edges: LeftEdges) {
  const pool = readPool(parseAddress(url, 'url'), 1);
  t.teardown(() => pool.end());
  let pages = 0;
  const query: Query = async (_name, text, values) => {
    const plan = await pool.query<{ 'QUERY PLAN': [{ Plan: Record<string, number> }] }>(`EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) ${text}`, [
      ...values,
    ]);
    const { Plan } = plan.rows[0]?.['QUERY PLAN'][0] ?? { Plan: {} };
    pages += (Plan['Shared Hit Blocks'] ?? 0) + (Plan['Shared Read Blocks'] ?? 0);
    return (await pool.query({ text, values: [...values], rowMode: 'array' })).rows as never;
  };
  const codec = new PayloadCodec();
  const reads = { ...jobReads(query, 0, edges, codec), ...deliveryReads(query, 0, edges, codec) };
  const deliveries = { wall: Number.MAX_SAFE_INTEGER, skipHosts: [], skipIds: [], perHost: 10, limit: 10 };
  const window = { endpoint: 'endpoint-a', priority: 0, after: -1, limit: 10, inputLimit: 1_000 } as const;
  const counted = async (read: () => Promise<unknown>): Promise<number> => {
    pages = 0;
    await read();
    return pages;
  };
  return {
    due: () => counted(() => reads.due(0, 10)),
    leased: () => counted(() => reads.leased(0, 10)),
    head: () => counted(() => reads.head(window)),
    deliveries: () => counted(() => reads.deliveries(deliveries)),
    deliveriesFound: async () => (await reads.deliveries(deliveries)).deliveries.map(({ id }) => id),
    found: async () => ({
      head: (await reads.head(window)).map(({ job }) => job.seq),
      leased: (await reads.leased(0, 10)).map(({ seq }) => seq),
      due: (await reads.due(Number.MAX_SAFE_INTEGER, 1)).jobs[0]?.seq,
    }),
  };
}
