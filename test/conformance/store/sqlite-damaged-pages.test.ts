/** A damaged page of any table or index ends the store with DATA_LOST: at the start, in the background, or when it is read. */
import { readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';

import test from 'ava';
import Database from 'better-sqlite3';
import fc from 'fast-check';

import { CapstanError } from '../../../lib/errors.ts';
import type { CheckLimits } from '../../../scheduler/store/sqlite/check/database-check.ts';
import { openSqliteStore } from '../../../scheduler/store/sqlite/client.ts';
import { SqliteEngine } from '../../../scheduler/store/sqlite/engine.ts';
import { PAGE_BYTES } from '../../../scheduler/store/sqlite/wal/format.ts';
import { ownFolder } from '../../support/own-folder.ts';
import { completed, deliveryOf, idOf, leased, queued, submit } from './jobs.ts';
import { flip, withFiles } from './killed-store.ts';

const JOBS = 300;
const RUNS = 150;
const HEADER_BYTES = 100;
/** The whole integrity check; the structure of every tree; nothing before the slices. */
const WAYS: Readonly<Record<string, CheckLimits>> = {
  whole: { smallBytes: Number.MAX_SAFE_INTEGER, startMs: 0 },
  structure: { smallBytes: 0, startMs: 60_000 },
  slices: { smallBytes: 0, startMs: -1 },
};

interface Page {
  readonly number: number;
  readonly tree: string;
}

let folder: string;
let database: Buffer;
/** Without those that only continue a value: they have no structure. */
let pages: Page[];
test.before(async () => {
  folder = await ownFolder('capstan-test');
  const file = join(folder, 'capstan.db');
  fill(file);
  database = await readFile(file);
  const db = new Database(file);
  pages = db.prepare<[], Page>("SELECT pageno AS number, name AS tree FROM dbstat WHERE pagetype <> 'overflow'").all();
  db.close();
});
test.after.always(() => rm(folder, { recursive: true, force: true }));

/** Every table has rows, and bodies with overflow pages. */
function fill(file: string): void {
  const engine = new SqliteEngine({ file });
  const fence = { cell: 0, term: engine.acquire(0, 'owner', 1).term };
  for (let seq = 1; seq <= JOBS; seq++) {
    const idempotency = { key: `key-${seq}`, bodyHash: Buffer.alloc(32, seq), expiresAt: Number.MAX_SAFE_INTEGER };
    const inline = Buffer.alloc(seq % 10 === 0 ? 20_000 : 300, 'x');
    const ops =
      seq % 3 === 0
        ? [
            submit(leased(seq), { input: { inline } }),
            completed(seq, { output: { inline }, chunks: [{ inline }], delivery: deliveryOf(seq) }),
          ]
        : [submit(queued(seq), { input: { inline }, idempotency })];
    engine.commit(fence, [...ops, { kind: 'put', rowKind: 'endpoint', key: `e${seq}`, version: 1, value: '{"account":"a"}' }]);
  }
  engine.saveHistory([{ endpoint: 'endpoint-a', series: 's', step: 60, at: 1, value: Buffer.from('{}') }] as never);
  engine.close();
}

/** Opens the database as the store's thread does, and uses all of it. Returns the code of what it ends with. */
function use(file: string, check: CheckLimits): string {
  let engine: SqliteEngine | null = null;
  try {
    engine = new SqliteEngine({ file, mustExist: true, check });
    engine.check.start();
    while (engine.check.slice(1_000));
    const fence = { cell: 0, term: engine.acquire(0, 'next', 1).term };
    for (let seq = 1; seq <= JOBS; seq++) {
      engine.read('payload', seq);
      engine.read('job', 'endpoint-a', idOf(seq));
    }
    engine.read('counts');
    for (let seq = JOBS + 1; seq <= JOBS + 20; seq++) engine.commit(fence, [submit(queued(seq))]);
    return 'whole';
  } catch (error) {
    return error instanceof CapstanError ? error.code : String(error);
  } finally {
    engine?.close();
  }
}

function replaced(page: number, bytes: (before: Buffer) => Buffer): Buffer {
  const damaged = Buffer.from(database);
  const before = damaged.subarray((page - 1) * PAGE_BYTES, page * PAGE_BYTES);
  bytes(Buffer.from(before)).copy(before);
  return damaged;
}

test('the database is whole, in each way', async (t) => {
  for (const [way, check] of Object.entries(WAYS)) t.is(await withFiles(folder, { database }, (file) => use(file, check)), 'whole', way);
});

for (const [way, check] of Object.entries(WAYS)) {
  test(`one page of each tree is overwritten: ${way}`, async (t) => {
    const trees = new Map(pages.map((page) => [page.tree, page.number]));
    t.true(trees.has('inputs') && trees.has('idempotency') && trees.has('sqlite_autoindex_jobs_1'));
    for (const [tree, page] of trees)
      for (const fill of [0x00, 0xff, 0x5a])
        t.is(
          await withFiles(folder, { database: replaced(page, (before) => before.fill(fill, page === 1 ? HEADER_BYTES : 0)) }, (file) =>
            use(file, check),
          ),
          'DATA_LOST',
          `${tree} with ${fill}`,
        );
  });
}

test('a flipped bit anywhere is DATA_LOST or changes no structure', async (t) => {
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom(...Object.keys(WAYS)),
      fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
      async (way, at) => {
        const damaged = flip(database, Math.floor(at * database.length * 8));
        const outcome = await withFiles(folder, { database: damaged }, (file) => use(file, WAYS[way] as CheckLimits));
        t.true(outcome === 'DATA_LOST' || outcome === 'whole', outcome);
      },
    ),
    { numRuns: RUNS },
  );
});

test('a flipped bit of the header is DATA_LOST or changes nothing', async (t) => {
  for (let bit = 0; bit < HEADER_BYTES * 8; bit += 3) {
    const outcome = await withFiles(folder, { database: flip(database, bit) }, (file) => use(file, WAYS['whole'] as CheckLimits));
    t.true(outcome === 'DATA_LOST' || outcome === 'whole', `bit ${bit}: ${outcome}`);
  }
});

test('damage that the background finds refuses every request, and is told without one', async (t) => {
  const page = pages.findLast(({ tree }) => tree === 'inputs')?.number ?? 0;
  await withFiles(folder, { database: replaced(page, (before) => before.fill(0)) }, async (file) => {
    const store = await openSqliteStore({ file, mustExist: true, check: WAYS['slices'] as CheckLimits });
    const told = new Promise((resolve) => {
      store.onHint((cell, lost) => resolve({ cell, lost }));
    });
    // On a busy machine the damage may be found before the call.
    const acquired = await store.acquire(0, 'owner', 1).catch((error: unknown) => error as CapstanError);
    if (acquired instanceof Error) t.is(acquired.code, 'DATA_LOST');
    const term = 'term' in acquired ? acquired.term : 0n;
    if ('term' in acquired) t.deepEqual(await told, { cell: 0, lost: term });
    await t.throwsAsync(store.read('counts'), { code: 'DATA_LOST', message: /the file is damaged/ });
    await t.throwsAsync(store.commit({ cell: 0, term }, []), { code: 'DATA_LOST' });
    await store.close();
  });
});

test('a read that meets damage refuses every request', async (t) => {
  const page = pages.findLast(({ tree }) => tree === 'inputs')?.number ?? 0;
  await withFiles(folder, { database: replaced(page, (before) => before.fill(0)) }, async (file) => {
    const store = await openSqliteStore({ file, mustExist: true, check: { smallBytes: 0, startMs: -1 } });
    const reads = Array.from({ length: JOBS }, (_, i) => store.read('payload', i + 1));
    const failed = (await Promise.allSettled(reads)).find((result) => result.status === 'rejected');
    t.is((failed?.reason as CapstanError | undefined)?.code, 'DATA_LOST');
    await t.throwsAsync(store.acquire(0, 'owner', 1), { code: 'DATA_LOST' });
    await store.close();
  });
});
