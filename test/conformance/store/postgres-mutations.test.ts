/** Each rule that the functions of the database enforce, and what becomes of it when the function lacks it: the check must notice. */
import test from 'ava';

import { bitOf, COMMIT_FUNCTION, OPERATIONS, OPERATION_TYPES, typeName } from '../../../scheduler/store/postgres/sql/batch.ts';
import type { PostgresServer } from '../../support/postgres.ts';
import { withPostgres } from '../../support/with-postgres.ts';
import { completed, given, jobOf, leased, leaseOf, submit } from './jobs.ts';
import { rowsOfBatch } from './postgres-rows.ts';
import { END_WRITERS, worldOf, type World } from './postgres-world.ts';
import { take } from './take.ts';

interface Rule {
  readonly rule: string;
  readonly in: typeof COMMIT_FUNCTION | 'add_usage_v1' | 'take_v1';
  /** A part of the function without which the rule is gone, and what stands there instead. */
  readonly part: RegExp;
  readonly mutated: string | ((part: string) => string);
  readonly holds: (world: World, rows: (ops: Parameters<typeof rowsOfBatch>[3]) => Promise<number>) => Promise<boolean>;
}

const ALL_TYPES = 2 ** OPERATION_TYPES.length - 1;

const call = (
  term: bigint,
  batch: number,
): string => `SELECT * FROM capstan.${COMMIT_FUNCTION}(0, ${term}, ${batch}, 0, 0, 0, '{}', false, 0,
  NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)`;

const rules: readonly Rule[] = [
  {
    rule: 'operations on the same row are of several waves: one update applies only one of them',
    in: COMMIT_FUNCTION,
    part: /1 \.\. cardinality\(p_waves\)|p_waves\[w\]|\.wave = w\b/g,
    // All operations in one wave.
    mutated: (part) =>
      part === '.wave = w' ? '.wave >= w' : part === 'p_waves[w]' ? String(ALL_TYPES) : '1 .. least(1, cardinality(p_waves))',
    holds: async ({ store, fence }) => {
      await given(store, fence, submit(leased(1)));
      const [requeued, again] = await store.commit(fence, [
        { kind: 'requeue', seq: 1, token: 1, attempts: 1, pastAttempts: null },
        leaseOf(1, 2),
      ]);
      return requeued?.kind === 'ok' && again?.kind === 'ok' && (await jobOf(store, 1)).token === 2;
    },
  },
  {
    rule: 'a batch under a stale term raises: an update of no rows would be no error',
    in: COMMIT_FUNCTION,
    part: /IF NOT FOUND THEN\s+RAISE EXCEPTION 'cell.*?END IF;/s,
    mutated: '',
    holds: ({ sql, fence }) => fails(sql(call(fence.term - 1n, 1)), 'CT001'),
  },
  {
    rule: 'a batch whose predecessor failed, or a late copy, is refused',
    in: COMMIT_FUNCTION,
    part: /AND c\.batch = p_batch - 1/g,
    mutated: '',
    holds: async ({ sql, fence }) => (await fails(sql(call(fence.term, 2)), 'CT001')) && fails(sql(call(fence.term, 0)), 'CT001'),
  },
  {
    rule: 'a batch finds the row of its cell where the last one left it, not by going through versions that went',
    in: COMMIT_FUNCTION,
    part: /PERFORM set_config\(row_setting.*?;/,
    mutated: '',
    holds: async ({ fence, sql }) => {
      const scans = async (): Promise<number> => {
        const [row] = await sql<{ scans: number }>(
          "SELECT (seq_scan + idx_scan)::int AS scans FROM pg_stat_xact_user_tables WHERE schemaname = 'capstan' AND relname = 'cells'",
        );
        return row?.scans ?? 0;
      };
      await sql(call(fence.term, 1));
      await sql('BEGIN');
      const before = await scans();
      await sql(call(fence.term, 2));
      const after = await scans();
      await sql('COMMIT');
      return after === before;
    },
  },
  {
    rule: 'a batch finds the count of an endpoint where the last one left it',
    in: 'add_usage_v1',
    part: /PERFORM set_config.*?;/,
    mutated: '',
    holds: async ({ fence, sql }) => {
      const values: Readonly<Record<string, string>> = {
        ...{ at: '0', wave: '1', endpoint: "'endpoint-a'", kind: "'RUN'", state: "'IN_QUEUE'", priority: '0', token: '0', attempts: '0' },
        ...{ submitted_at: '0', delete_at: '9', execution_timeout_ms: '1', ttl_ms: '1', retention_ms: '1', inline: "'\\x31'" },
      };
      const submission = (seq: number): string => {
        const own: Readonly<Record<string, string>> = { ...values, seq: String(seq), queue_position: String(seq), id: `'id-${seq}'` };
        return `ARRAY[ROW(${OPERATIONS.submit.columns.map(([name]) => own[name] ?? 'NULL').join(', ')})::capstan.${typeName('submit')}]`;
      };
      const submitted = (batch: number): Promise<unknown> =>
        sql(`SELECT capstan.${COMMIT_FUNCTION}(0, ${fence.term}, ${batch}, 0, ${batch}, ${batch}, '{${bitOf('submit')}}', false, 0,
          NULL, ${submission(batch)}, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)`);
      const scans = async (): Promise<number> => {
        const [row] = await sql<{ scans: number }>(
          "SELECT (seq_scan + idx_scan)::int AS scans FROM pg_stat_xact_user_tables WHERE schemaname = 'capstan' AND relname = 'inline_usage'",
        );
        return row?.scans ?? 0;
      };
      await submitted(1);
      await sql('BEGIN');
      const before = await scans();
      await submitted(2);
      const after = await scans();
      await sql('COMMIT');
      const [counted] = await sql<{ bytes: string }>('SELECT bytes::text FROM capstan.inline_usage');
      return after === before && counted?.bytes === '2';
    },
  },
  {
    rule: 'an operation that a statement did not apply is looked for and named',
    in: COMMIT_FUNCTION,
    part: /cardinality\(applied\) <> expected/g,
    mutated: 'false',
    holds: async ({ store, fence }) => {
      await given(store, fence, submit(leased(1)));
      const [first, second] = await store.commit(fence, [completed(1), completed(2)]);
      return first?.kind === 'ok' && second?.kind === 'gone';
    },
  },
  {
    rule: 'ends find their jobs by number, not by going through all leased ones',
    in: COMMIT_FUNCTION,
    part: /t\.seq = g\.seq OFFSET 0(?=\) f\s+WHERE g\.wave = w AND j\.ctid = f\.place AND j\.state = g\.expected)/,
    mutated: "t.seq + 0 = g.seq AND t.state = 'LEASED' OFFSET 0",
    holds: async ({ store, fence }, rows) => {
      await given(store, fence, ...Array.from({ length: 2_000 }, (_, i) => submit(leased(i + 1))));
      return (await rows(Array.from({ length: 100 }, (_, i) => completed(i + 1)))) <= 400;
    },
  },
  {
    rule: 'a database that lacks what was acknowledged is not taken over',
    in: 'take_v1',
    part: /\(held\.term, held\.batch\) < \(p_known_term, p_known_batch\)/,
    mutated: 'false',
    holds: async ({ store, fence, sql }) => {
      await store.commit(fence, []);
      const lost = new Promise((resolve) => store.onHint(resolve));
      await sql('UPDATE capstan.cells SET batch = 0');
      await sql(END_WRITERS);
      await lost;
      return fails(store.acquire(0, 'owner-a', 1), 'DATA_LOST');
    },
  },
  {
    rule: 'a term is at least the milliseconds since 1970',
    in: 'take_v1',
    part: /greatest\(held\.term \+ 1, clock_ms\)/,
    mutated: 'held.term + 1',
    holds: async ({ store, sql, another }) => {
      await store.release(0);
      await sql('UPDATE capstan.cells SET term = 1, batch = 0');
      return (await take(await another(), 'owner-b')).term > 1_000_000_000_000n;
    },
  },
  {
    rule: 'a cell whose owner was silent is taken only as it was seen',
    in: 'take_v1',
    part: /\(held\.term, held\.batch\) <> \(p_seen_term, p_seen_batch\)/,
    mutated: 'false',
    holds: async ({ store, fence, sql }) => {
      await store.commit(fence, []);
      const [row] = await sql<{ outcome: string }>(`SELECT outcome FROM capstan.take_v1(0, 'owner-b', '', ${fence.term}, 0, 0, 0, 500)`);
      return row?.outcome === 'changed';
    },
  },
  {
    rule: 'a row that stays locked is noticed',
    in: 'take_v1',
    part: /PERFORM set_config\('lock_timeout'.*?;/,
    mutated: '',
    holds: async ({ sql, sqlApart }) => {
      await sql('BEGIN');
      await sql('SELECT FROM capstan.cells FOR UPDATE');
      const taken = sqlApart("SET statement_timeout = '2s'; SELECT capstan.take_v1(0, 'owner-b', '', NULL, NULL, 0, 0, 100)");
      const isNoticed = await fails(taken, '55P03');
      await sql('ROLLBACK');
      return isNoticed;
    },
  },
  {
    rule: 'the wall clock of an owner is not before what former owners wrote',
    in: 'take_v1',
    part: /greatest\(held\.wall, clock_ms\)/,
    mutated: 'clock_ms',
    holds: async ({ store, sql }) => {
      await store.release(0);
      const [row] = await sql<{ wall: string }>('UPDATE capstan.cells SET wall = wall + 3600000 RETURNING wall');
      await take(store, 'owner-b');
      return store.now() >= Number(row?.wall);
    },
  },
];

await withPostgres('rules of the database', tests);

function tests(server: PostgresServer): void {
  for (const { rule, in: name, part, mutated, holds } of rules)
    test(`${rule}; without it the check fails`, async (t) => {
      for (const isMutated of [false, true]) {
        const world = await worldOf(t, server);
        if (isMutated) {
          const [{ text } = { text: '' }] = await world.sql<{ text: string }>(
            `SELECT pg_get_functiondef('capstan.${name}'::regproc) AS text`,
          );
          t.regex(text, part);
          await world.sql(text.replace(part, (found) => (typeof mutated === 'string' ? mutated : mutated(found))));
        }
        t.is(await holds(world, (ops) => rowsOfBatch(t, world.url, world.fence, ops)), !isMutated);
      }
    });
}

/** Whether it fails with this code, of ours or of the database. */
async function fails(call: Promise<unknown>, code: string): Promise<boolean> {
  try {
    await call;
    return false;
  } catch (error) {
    return (error as { code?: string }).code === code;
  }
}
