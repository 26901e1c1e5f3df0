/** Flipped bits in payloads of PostgreSQL: each read says that its payload is damaged, and which ones are whole is not lost. */
import test from 'ava';
import { Client } from 'pg';

import { PayloadKeys } from '../../../scheduler/secrets/payload-keys.ts';
import { openPostgresStore, type PostgresStore } from '../../../scheduler/store/postgres/client.ts';
import { isDamaged } from '../../../scheduler/core/ports/stored-payload.ts';
import type { PostgresServer } from '../../support/postgres.ts';
import { withPostgres } from '../../support/with-postgres.ts';
import { completed, given, deliveryOf, json, leaseOf, queued, shown, submit } from './jobs.ts';
import { take } from './take.ts';

await withPostgres('postgres', tests);

const flip = (column: string): string => `set_byte(${column}, length(${column}) / 2, get_byte(${column}, length(${column}) / 2) # 4)`;

function tests(server: PostgresServer): void {
  test('a payload of which a bit flipped is damaged in every read', async (t) => {
    const url = await server.newDatabase();
    const store = await openPostgresStore({ url, cell: 'default' });
    t.teardown(() => store.close());
    const fence = await take(store);
    const chunks = [json({ chunk: 1 }), json({ chunk: 2 })];
    await given(store, fence, submit(queued(1)), submit(queued(2)), submit(queued(3)));
    await given(store, fence, leaseOf(1), leaseOf(2));
    await given(store, fence, completed(1, { delivery: deliveryOf(1) }), completed(2, { chunks, delivery: deliveryOf(2) }));
    const whole = await store.read('job', 'endpoint-a', queued(2).id);
    t.deepEqual(whole?.chunks.map(shown), ['{"chunk":1}', '{"chunk":2}']);
    t.is(shown((await store.read('delivery', deliveryOf(1).id))?.output ?? null), '{"done":1}');

    const client = new Client({ connectionString: url });
    await client.connect();
    t.teardown(() => client.end());
    await client.query(`UPDATE capstan.jobs SET output = ${flip('output')} WHERE seq = 1`);
    await client.query(`UPDATE capstan.inputs SET inline = ${flip('inline')} WHERE seq IN (1, 3)`);
    await client.query(`UPDATE capstan.chunks SET inline = ${flip('inline')} WHERE idx = 1`);
    await client.query(`UPDATE capstan.hooks SET output = ${flip('output')} WHERE id = $1`, [deliveryOf(2).id]);
    await client.query(`UPDATE capstan.hooks SET envelope = replace(envelope::text, 'id', 'ie')::json WHERE id = $1`, [deliveryOf(1).id]);

    t.true(isDamaged((await store.read('job', 'endpoint-a', queued(1).id))?.output ?? null));
    t.true(isDamaged((await store.read('payload', 1))?.input ?? null));
    t.is(shown((await store.read('payload', 2))?.input ?? null), '{"seq":2}');
    const stream = await store.read('job', 'endpoint-a', queued(2).id);
    t.deepEqual(stream?.chunks.map(isDamaged), [false, true]);
    t.true(isDamaged((await store.read('delivery', deliveryOf(2).id))?.output ?? null));
    t.true(isDamaged((await store.read('delivery', deliveryOf(1).id))?.input ?? null), 'with its envelope');
    const [head] = await store.read('head', { endpoint: 'endpoint-a', priority: 0, after: -1, limit: 10, inputLimit: 1_000 });
    t.is(head?.job.seq, 3);
    t.is(head?.input, null, 'its dispatch reads it again');
    const { jobs } = await store.read('page', 'endpoint-a', 'COMPLETED', 0, 10);
    t.deepEqual(
      jobs.map(({ output }) => isDamaged(output)),
      [false, true],
    );
  });

  test('payloads are encrypted in the rows, and read with the keys of now and of before', async (t) => {
    const url = await server.newDatabase();
    const payloadKeys = new PayloadKeys(Buffer.alloc(32, 1), [], true);
    const store = await openPostgresStore({ url, cell: 'default', payloadKeys });
    t.teardown(() => store.close());
    const fence = await take(store);
    const run = async (seq: number): Promise<void> => {
      await given(store, fence, submit(queued(seq)));
      await given(store, fence, leaseOf(seq));
      await given(store, fence, completed(seq, { chunks: [json({ chunk: seq })], delivery: deliveryOf(seq) }));
    };
    await run(1);
    payloadKeys.use(Buffer.alloc(32, 2));
    await run(2);
    const client = new Client({ connectionString: url });
    await client.connect();
    t.teardown(() => client.end());
    const { rows } = await client.query<{ bytes: Buffer }>(
      `SELECT output AS bytes FROM capstan.jobs UNION ALL SELECT inline FROM capstan.inputs UNION ALL SELECT inline FROM capstan.chunks
        UNION ALL SELECT input FROM capstan.hooks UNION ALL SELECT output FROM capstan.hooks`,
    );
    t.is(rows.length, 10);
    for (const { bytes } of rows) {
      t.is(bytes[0], 0xfe);
      t.false(/seq|done|chunk/.test(bytes.toString('latin1')));
    }
    const read = async (from: PostgresStore, seq: number): Promise<unknown[]> => {
      const whole = await from.read('job', 'endpoint-a', queued(seq).id);
      const delivery = await from.read('delivery', deliveryOf(seq).id);
      const input = (await from.read('payload', seq))?.input;
      return [whole?.output, whole?.chunks[0], delivery?.input, delivery?.output, input].map((payload) => shown(payload ?? null));
    };
    for (const seq of [1, 2])
      t.deepEqual(await read(store, seq), [`{"done":${seq}}`, `{"chunk":${seq}}`, `{"seq":${seq}}`, `{"done":${seq}}`, `{"seq":${seq}}`]);
    await store.release(fence.cell);
    const other = await openPostgresStore({ url, cell: 'default', payloadKeys: new PayloadKeys(Buffer.alloc(32, 2), [], false) });
    t.teardown(() => other.close());
    t.is((await read(other, 2))[0], '{"done":2}');
    t.regex(JSON.stringify((await read(other, 1))[0]), /encrypted with the payload key [0-9a-f]{8}/);
  });
}
