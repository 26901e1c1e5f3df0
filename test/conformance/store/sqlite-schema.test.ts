/** The schema refuses impossible states by itself, whoever writes. */
import { createHash } from 'node:crypto';
import { join } from 'node:path';

import test from 'ava';
import Database from 'better-sqlite3';

import { SqliteEngine } from '../../../scheduler/store/sqlite/engine.ts';
import { migrations } from '../../../scheduler/store/sqlite/migrations/all.ts';
import { columnList, jobResult, jobRow } from '../../../scheduler/core/ports/columns.ts';
import type { Op } from '../../../scheduler/core/ports/store.ts';
import { cancelledInQueue, completed, failed, deliveryOf, json, leased, queued, submit } from './jobs.ts';
import { folderOf } from '../../support/folder.ts';

const given: readonly Op[] = [
  submit(queued(1)),
  submit(leased(2)),
  submit(leased(3)),
  completed(3, { chunks: [json('c')], delivery: deliveryOf(3) }),
  submit(leased(4)),
  failed(4),
  submit(queued(5)),
  cancelledInQueue(5),
  { kind: 'put', rowKind: 'setting', key: 'k', version: 1, value: '{}' },
];

const others = columnList([...jobRow.filter(({ field }) => field !== 'seq' && field !== 'id'), ...jobResult], ({ name }) => name);

/** What each statement would lead to is impossible. 1 waits, 2 is leased, 3 completed, 4 failed, 5 cancelled in the queue. */
const impossible: readonly (readonly [what: string, sql: string])[] = [
  ['an unknown state', "UPDATE jobs SET state = 'LOST' WHERE seq = 1"],
  ['an unknown kind', "UPDATE jobs SET kind = 'BATCH' WHERE seq = 1"],
  ['a third priority', 'UPDATE jobs SET priority = 2 WHERE seq = 1'],
  ['a negative token', 'UPDATE jobs SET token = -1 WHERE seq = 1'],
  ['more attempts than leases', 'UPDATE jobs SET attempts = 2 WHERE seq = 2'],
  ['negative attempts', 'UPDATE jobs SET attempts = -1 WHERE seq = 2'],
  ['a lease without LEASED', "UPDATE jobs SET node = 'n', incarnation = 'i' WHERE seq = 1"],
  ['LEASED without a lease', "UPDATE jobs SET state = 'LEASED', token = 1 WHERE seq = 1"],
  ['half a lease', 'UPDATE jobs SET incarnation = NULL WHERE seq = 2'],
  ['a lease without a worker', 'UPDATE jobs SET worker = NULL WHERE seq = 2'],
  ['a lease without a token', 'UPDATE jobs SET token = 0 WHERE seq = 2'],
  ['a lease on an ended job', "UPDATE jobs SET node = 'n', incarnation = 'i' WHERE seq = 3"],
  ['an ended job without an end', 'UPDATE jobs SET ended_at = NULL WHERE seq = 3'],
  ['a waiting job with an end', 'UPDATE jobs SET ended_at = 1 WHERE seq = 1'],
  ['a leased job with an end', 'UPDATE jobs SET ended_at = 1 WHERE seq = 2'],
  ['a waiting job with a start', 'UPDATE jobs SET token = 1, started_at = 1 WHERE seq = 1'],
  ['a waiting job with a delay', 'UPDATE jobs SET delay_ms = 1 WHERE seq = 1'],
  ['a start without a lease', 'UPDATE jobs SET started_at = 1 WHERE seq = 5'],
  ['a completion without a lease', "UPDATE jobs SET state = 'COMPLETED' WHERE seq = 5"],
  ['a failure without its error', 'UPDATE jobs SET error = NULL WHERE seq = 4'],
  ['an error on a completed job', "UPDATE jobs SET error = 'e' WHERE seq = 3"],
  ['an error on a waiting job', "UPDATE jobs SET error = 'e' WHERE seq = 1"],
  ['an error on a leased job', "UPDATE jobs SET error = 'e' WHERE seq = 2"],
  ['an output on a waiting job', "UPDATE jobs SET output = x'00' WHERE seq = 1"],
  ['an output on a leased job', "UPDATE jobs SET output_blob = 'b', output_size = 1 WHERE seq = 2"],
  ['an execution time on a leased job', 'UPDATE jobs SET execution_ms = 1 WHERE seq = 2'],
  ['chunks on a leased job', 'UPDATE jobs SET chunks = 1 WHERE seq = 2'],
  ['fewer than no chunks', 'UPDATE jobs SET chunks = -1 WHERE seq = 3'],
  ['two outputs at once', "UPDATE jobs SET output_blob = 'b', output_size = 1 WHERE seq = 3"],
  ['an output blob without a size', "UPDATE jobs SET output = NULL, output_blob = 'b' WHERE seq = 3"],
  ['a negative delay', 'UPDATE jobs SET delay_ms = -1 WHERE seq = 3'],
  ['a negative time-out', 'UPDATE jobs SET execution_timeout_ms = -1 WHERE seq = 1'],
  ['a job without an id', "UPDATE jobs SET id = '' WHERE seq = 1"],
  ['two jobs with one id', 'UPDATE jobs SET id = (SELECT id FROM jobs WHERE seq = 2) WHERE seq = 1'],
  ['two waiting jobs at one place', `INSERT INTO jobs (seq, id, ${others}) SELECT 9, 'other', ${others} FROM jobs WHERE seq = 1`],
  ['a text in the place of a number', "UPDATE jobs SET queue_position = 'first' WHERE seq = 1"],
  ['a text in the place of bytes', "UPDATE inputs SET inline = 'text' WHERE seq = 1"],
  ['an input without a body', 'UPDATE inputs SET inline = NULL WHERE seq = 1'],
  ['an input with two bodies', "UPDATE inputs SET blob = 'b', size = 1 WHERE seq = 1"],
  ['an input blob without a size', "UPDATE inputs SET inline = NULL, blob = 'b' WHERE seq = 1"],
  ['a chunk without a body', 'UPDATE chunks SET inline = NULL WHERE seq = 3'],
  ['a chunk with two bodies', "UPDATE chunks SET blob = 'b', size = 1 WHERE seq = 3"],
  ['two chunks at one index', "INSERT INTO chunks (seq, idx, inline) VALUES (3, 0, x'00')"],
  ['a delivery without an input', 'UPDATE hooks SET input = NULL'],
  ['a delivery with two outputs', "UPDATE hooks SET output_blob = 'b', output_size = 1"],
  ['a delivery without an envelope', "UPDATE hooks SET envelope = '{'"],
  ['an unknown state of a delivery', "UPDATE hooks SET state = 'LOST'"],
  ['a delivery given up without a try', "UPDATE hooks SET state = 'FAILED', error = 'e'"],
  ['a delivery given up without a reason', "UPDATE hooks SET state = 'FAILED', tries = 3"],
  ['a delivery without an address', "UPDATE hooks SET url = ''"],
  ['a delivery tried fewer than no times', 'UPDATE hooks SET tries = -1'],
  ['a control row without a kind', "UPDATE control SET kind = ''"],
  ['a control row that is no JSON', "UPDATE control SET value = '{'"],
  ['a control row of version 0', 'UPDATE control SET version = 0'],
  ['a term of 0', 'UPDATE shards SET term = 0'],
  ['a cell without an owner', "UPDATE shards SET owner = ''"],
  ['an unknown mark', "INSERT INTO marks (name, value) VALUES ('other', 1)"],
];

test('the schema refuses every impossible state', async (t) => {
  const file = join(await folderOf(t), 'capstan.db');
  const engine = new SqliteEngine({ file });
  const { term } = engine.acquire(0, 'owner', 1);
  t.true(engine.commit({ cell: 0, term }, given).every((outcome) => outcome.kind === 'ok'));
  engine.close();

  const db = new Database(file);
  t.teardown(() => db.close());
  for (const [what, sql] of impossible) {
    const error = t.throws(() => db.exec(sql), { name: 'SqliteError' }, what);
    t.regex((error as { code?: string } | undefined)?.code ?? '', /^SQLITE_CONSTRAINT/, what);
  }
});

test('an impossible operation takes its whole batch back, and the engine goes on', (t) => {
  const engine = new SqliteEngine({ file: ':memory:' });
  t.teardown(() => engine.close());
  const { term } = engine.acquire(0, 'owner', 1);
  const fence = { cell: 0, term };
  const error = t.throws(() => engine.commit(fence, [submit(queued(1)), submit(queued(2, { state: 'COMPLETED' })), submit(queued(3))]));
  t.like(error, { name: 'CapstanError', code: 'INTERNAL' });
  t.regex(error?.message ?? '', /writing the batch failed: CHECK constraint failed: ended_has_end/);
  t.deepEqual(engine.read('counts'), []);
  t.deepEqual(engine.commit(fence, [submit(queued(4))]), [{ kind: 'ok' }]);
});

/** A landed migration is never edited: data folders out there were made by it. Add the next number. */
test('landed migrations are as they were', (t) => {
  t.deepEqual(
    migrations.map((migration) => migration.number),
    migrations.map((_, i) => i + 1),
  );
  const digests = migrations.map(
    (migration) => `${migration.number} ${migration.name} ${createHash('sha256').update(migration.sql).digest('hex')}`,
  );
  t.deepEqual(digests, [
    '1 queue 053eefc7bd764678653cf152655bdddf8ad3238be029aec242698f884cd6d9a3',
    '2 deployments bbc07bdd1ef9b372441adb22678dabbe3ec3c9f5d952062bb4073a2e1827b252',
    '3 hooks of accounts 693941f79cf8b7572f8cc2ea3b7031c20603804c98288b0e617422e6578b9ba4',
    '4 sealed inputs 575e5b131c913d91cf24a7d4ec8940170e35733915d9f7f3c5b3091136f22198',
    '5 body usage 7831fdea2380bb47ca3ff93e88d975249a7b91c3d0a2545244320dc78f40b715',
    '6 operator keys 3342052d6275a18748d3dcdf0c59f4c042ff78328c18ef2468eae4085b0866d7',
    '7 history 4d32083b051a8cced23c76f7dd4c74ff5ba17b21cd4d64e2cca6b55504f126b1',
    '8 traces and tags 22406a841221d0887dd49567cd47ab96ad5c2d7940173451d8e582b0a4ee6805',
    '9 timelines a754f574b7d3eb11836b3ac5167cbde94042cd5761b3cff08e3870a48e867a49',
    '10 checked payloads e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855',
    '11 device history c10a83adf0430d7c6ec4016d486181a55914afdd8530a65ec7dd23cea8b589fe',
    '12 inline usage 7164929c0a4f9266437df3b61ffdccd2660a78ef781ba3b7e5e52281878be58b',
    '13 open kinds 25a9c55aa538dd1ac59fceff9f8cd013e41f2328c597a7a47358bc11239101f8',
    '14 one name a column 3b08777186f8fb43ffdb96e03fcccac6bf24e3ac5deb59cd4184b6820816ea87',
    '15 audit 82c7bc5dee47e2c63c70ec3da016eed996101fd8ecae6e02e49a56333b338f2e',
    '16 submitters 0f357983844131a1c1b3cc9a2e763ef52e9a79a573c15a28e99bbad2ecb54430',
  ]);
});
