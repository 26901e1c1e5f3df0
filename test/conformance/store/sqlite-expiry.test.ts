/** Idempotency keys and failed deliveries expire by the engine's clock, and are swept in small batches with the commits. */
import { join } from 'node:path';

import test from 'ava';
import Database from 'better-sqlite3';

import { SqliteEngine } from '../../../scheduler/store/sqlite/engine.ts';
import { completed, deliveryOf, idOf, leased, queued, START, submit } from './jobs.ts';
import { folderOf } from '../../support/folder.ts';

const bodyHash = new Uint8Array(32);

test("a key is free from its expiry on, by the engine's own clock", (t) => {
  let now = START;
  const engine = new SqliteEngine({ file: ':memory:', now: () => now });
  t.teardown(() => engine.close());
  const fence = { cell: 0, term: engine.acquire(0, 'owner', 1).term };
  const using = (seq: number) => submit(queued(seq), { idempotency: { key: 'key', bodyHash, expiresAt: now + 100 } });
  t.deepEqual(engine.commit(fence, [using(1)]), [{ kind: 'ok' }]);
  now += 99;
  t.deepEqual(engine.commit(fence, [using(2)]), [{ kind: 'idempotent-same', jobId: idOf(1) }]);
  now += 1;
  t.is(engine.read('idempotency', 'key'), null);
  t.deepEqual(engine.commit(fence, [using(3)]), [{ kind: 'ok' }]);
  t.is(engine.read('idempotency', 'key')?.jobId, idOf(3));
});

test('expired keys go with later commits, a few at a time', async (t) => {
  const file = join(await folderOf(t), 'capstan.db');
  let now = START;
  const engine = new SqliteEngine({ file, now: () => now });
  const fence = { cell: 0, term: engine.acquire(0, 'owner', 1).term };
  const ops = Array.from({ length: 120 }, (_, i) =>
    submit(queued(i + 1), { idempotency: { key: `key-${i}`, bodyHash, expiresAt: START + 1_000 } }),
  );
  engine.commit(fence, [...ops, submit(queued(999), { idempotency: { key: 'later', bodyHash, expiresAt: START + 1e9 } })]);
  now += 120_000;
  engine.commit(fence, []);
  engine.commit(fence, []);
  engine.commit(fence, []);
  engine.close();
  const db = new Database(file, { readonly: true });
  t.teardown(() => db.close());
  t.deepEqual(db.prepare('SELECT key FROM idempotency').pluck().all(), ['later']);
});

test('deliveries given up go when their time is over, a few at a time; pending ones stay', (t) => {
  let now = START;
  const engine = new SqliteEngine({ file: ':memory:', now: () => now });
  t.teardown(() => engine.close());
  const fence = { cell: 0, term: engine.acquire(0, 'owner', 1).term };
  const ids = Array.from({ length: 121 }, (_, i) => deliveryOf(i + 1).id);
  engine.commit(
    fence,
    ids.flatMap((id, i) => [submit(leased(i + 1)), completed(i + 1, { delivery: deliveryOf(i + 1, { id, dueAt: START }) })]),
  );
  engine.commit(
    fence,
    ids.slice(1).map((id) => ({ kind: 'delivery', id, after: 0, to: { state: 'FAILED', dueAt: START + 1_000, tries: 3, error: 'e' } })),
  );
  const kept = () => engine.read('deliveryPage', 'account-a', '', 1_000).length;
  now += 120_000;
  t.is(kept(), 121);
  const left = [0, 0, 0, 0].map(() => {
    engine.commit(fence, []);
    return kept();
  });
  t.deepEqual(left, [71, 21, 1, 1]);
});
