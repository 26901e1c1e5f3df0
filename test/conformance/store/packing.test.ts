/** What crosses to the store thread and back arrives as it was sent, whatever it holds. */
import { fc, testProp } from '@fast-check/ava';
import test from 'ava';

import { packBatch, packOutcomes, unpackBatch, unpackOutcomes } from '../../../scheduler/store/sqlite/packing/batches.ts';
import { Packer, Unpacker } from '../../../scheduler/store/sqlite/packing/packer.ts';
import { packResult, unpackResult } from '../../../scheduler/store/sqlite/packing/results.ts';
import type { Payload } from '../../../lib/payload.ts';
import { jobRow } from '../../../scheduler/core/ports/columns.ts';
import type { DeliveryRow, JobRow, Lease, NewDelivery, Op, Outcome, WholeJob } from '../../../scheduler/core/ports/store.ts';

/** Texts of every width, beyond the length where the packer changes its way. */
const text = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 200 }),
  fc.string({ unit: 'grapheme', maxLength: 120 }),
  fc.string({ maxLength: 90 }),
);
const bytes = fc.uint8Array({ maxLength: 5_000 });
const whole = fc.maxSafeNat();
const time = fc.double({ noNaN: true, min: 0, max: 1e15 });
const orNull = <T>(of: fc.Arbitrary<T>): fc.Arbitrary<T | null> => fc.option(of, { nil: null });

const payload: fc.Arbitrary<Payload> = fc.oneof(fc.record({ inline: bytes }), fc.record({ blob: fc.record({ id: text, size: whole }) }));
const lease: fc.Arbitrary<Lease> = fc.record({ node: text, incarnation: text, worker: text });
const state = fc.constantFrom('IN_QUEUE', 'LEASED', 'COMPLETED', 'FAILED', 'CANCELLED', 'TIMED_OUT');
const priority = fc.constantFrom(0, 1);
/** Of each column that holds a text; those whose values are others, or never null, follow. */
const texts = Object.fromEntries(jobRow.filter(({ kind }) => kind === 'text').map(({ field }) => [field, orNull(text)]));
const { node: _node, incarnation: _incarnation, ...textsOfJobs } = texts;
const job = fc.record({
  ...textsOfJobs,
  seq: whole,
  id: text,
  endpoint: text,
  kind: fc.constantFrom('RUN', 'RUNSYNC'),
  state,
  priority,
  queuePosition: whole,
  token: whole,
  attempts: whole,
  lease: orNull(lease),
  submittedAt: time,
  startedAt: orNull(time),
  endedAt: orNull(time),
  deleteAt: time,
  executionTimeoutMs: time,
  ttlMs: time,
  retentionMs: time,
  delayMs: orNull(time),
  executionMs: orNull(time),
  hasS3: fc.boolean(),
}) as fc.Arbitrary<unknown> as fc.Arbitrary<JobRow>;
const newDelivery: fc.Arbitrary<NewDelivery> = fc.record({
  id: text,
  account: text,
  endpoint: text,
  url: text,
  host: text,
  envelope: text,
  dueAt: time,
});
const deliveryChange = fc.record({ state: fc.constantFrom('PENDING', 'FAILED'), dueAt: time, tries: whole, error: orNull(text) });
const delivery: fc.Arbitrary<DeliveryRow> = fc
  .tuple(newDelivery, deliveryChange, fc.record({ input: payload, output: orNull(payload) }))
  .map(([made, changed, bodies]) => ({ ...made, ...changed, ...bodies }));
const of = <K extends Op['kind']>(op: K): fc.Arbitrary<K> => fc.constant(op);
const op: fc.Arbitrary<Op> = fc.oneof(
  fc.record({
    kind: of('submit'),
    job,
    input: payload,
    s3: orNull(bytes),
    idempotency: orNull(fc.record({ key: text, bodyHash: bytes, expiresAt: time })),
  }),
  fc.record({ kind: of('lease'), seq: whole, token: whole, lease }),
  fc.record({ kind: of('started'), seq: whole, token: whole, startedAt: time, attempts: whole, delayMs: time }),
  fc.record({
    kind: of('finish'),
    seq: whole,
    from: fc.constantFrom('LEASED', 'IN_QUEUE'),
    token: whole,
    state: fc.constantFrom('COMPLETED', 'FAILED', 'CANCELLED', 'TIMED_OUT'),
    endedAt: time,
    deleteAt: time,
    attempts: whole,
    delayMs: orNull(time),
    executionMs: orNull(time),
    error: orNull(text),
    output: orNull(payload),
    chunks: fc.array(payload, { maxLength: 4 }),
    firstChunk: whole,
    delivery: orNull(newDelivery),
  }),
  fc.record({ kind: of('requeue'), seq: whole, token: whole, attempts: whole, pastAttempts: orNull(text) }),
  fc.record({ kind: of('retry'), seq: whole, queuePosition: whole, submittedAt: time, deleteAt: time, pastAttempts: orNull(text) }),
  fc.record({ kind: of('delete'), seq: whole, dueBy: orNull(time) }),
  fc.record({ kind: of('drain'), seq: whole, below: whole }),
  fc.record({ kind: of('reencrypt'), seq: whole, from: bytes, to: bytes }),
  fc.record({ kind: of('delivery'), id: text, after: orNull(whole), to: orNull(deliveryChange) }),
  fc.record({
    kind: of('put'),
    rowKind: fc.constantFrom('endpoint', 'join-token', 'setting'),
    key: text,
    version: whole,
    value: orNull(text),
  }),
);
const outcome: fc.Arbitrary<Outcome> = fc.oneof(
  fc.record({ kind: fc.constantFrom('ok', 'exists', 'idempotent-other-body', 'stale', 'gone', 'conflict') }),
  fc.record({ kind: fc.constant('idempotent-same'), jobId: text }),
  fc.record({ kind: fc.constant('ok'), dropped: fc.array(text, { minLength: 1, maxLength: 5 }) }),
);
const wholeJob: fc.Arbitrary<WholeJob> = fc.record({
  job,
  output: orNull(payload),
  chunks: fc.array(payload, { maxLength: 3 }),
  firstChunk: whole,
});
const fence = fc.record({ cell: fc.nat(63), term: fc.bigInt({ min: 0n, max: 2n ** 62n }) });

testProp('a batch', [fence, fc.array(op, { maxLength: 20 }), fc.integer({ min: 1, max: 4_096 })], (t, at, ops, hint) => {
  const { buffer, size } = packBatch(at, ops, hint);
  t.true(size <= buffer.byteLength);
  t.deepEqual(unpackBatch(buffer), { fence: at, ops });
});

testProp('outcomes', [fc.array(outcome, { maxLength: 20 })], (t, list) => {
  t.deepEqual(unpackOutcomes(packOutcomes(list), list.length), list);
});

testProp('jobs with their bodies', [orNull(wholeJob), fc.array(wholeJob, { maxLength: 5 }), whole], (t, one, many, total) => {
  t.deepEqual(unpackResult('job', packResult('job', one)), one);
  const page = { jobs: many, total };
  t.deepEqual(unpackResult('page', packResult('page', page)), page);
});

testProp('rows and windows', [fc.array(fc.record({ job, inline: orNull(bytes) }), { maxLength: 5 }), orNull(time)], (t, rows, nextAt) => {
  const window = rows.map((row) => ({ job: row.job, input: row.inline === null ? null : { inline: row.inline } }));
  t.deepEqual(unpackResult('head', packResult('head', window)), window);
  const jobs = rows.map((row) => row.job);
  t.deepEqual(unpackResult('leased', packResult('leased', jobs)), jobs);
  t.deepEqual(unpackResult('due', packResult('due', { jobs, nextAt })), { jobs, nextAt });
});

testProp('payloads and deliveries', [orNull(fc.record({ input: payload, s3: orNull(bytes) })), orNull(delivery)], (t, stored, delivery) => {
  t.deepEqual(unpackResult('payload', packResult('payload', stored)), stored);
  t.deepEqual(unpackResult('delivery', packResult('delivery', delivery)), delivery);
});

test('bytes are read as a view, and given by a view of a larger buffer', (t) => {
  const out = new Packer(1);
  out.bytes(new Uint8Array([9, 1, 2, 9]).subarray(1, 3));
  const buffer = out.finish();
  const read = new Unpacker(buffer).bytes();
  t.deepEqual([...read], [1, 2]);
  t.is(read.buffer, buffer);
});
