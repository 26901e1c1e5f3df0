import test from 'ava';

import { completed, given, idOf, jobOf, json, leased, outcomes, queued, shown, shownWhole, START, submit } from './jobs.ts';
import type { Use } from './use.ts';

const hash = (byte: number): Uint8Array => new Uint8Array(32).fill(byte);
const later = (): number => Date.now() + 3_600_000;

export function submitRules(name: string, use: Use): void {
  test.serial(`${name}: a submitted job is read back as it was, with its input byte for byte`, async (t) => {
    const { store, fence } = await use(t);
    const job = queued(1, {
      kind: 'RUNSYNC',
      priority: 1,
      webhook: 'https://example.com/ä',
      executionTimeoutMs: 5_000,
      retentionMs: 60_000,
    });
    const text = '{ "text" : "grüße 😀",\n"n": 1.10 }';
    t.deepEqual(await outcomes(store, fence, submit(job, { input: { inline: new TextEncoder().encode(text) } })), ['ok']);

    t.deepEqual(shownWhole(await store.read('job', 'endpoint-a', idOf(1))), { job, output: null, chunks: [] });
    const payload = await store.read('payload', 1);
    t.is(shown(payload?.input ?? null), text);
    t.is(payload?.s3, null);
  });

  test.serial(`${name}: storage credentials stay beside the input and mark the job`, async (t) => {
    const { store, fence } = await use(t);
    const s3 = new Uint8Array([0, 255, 1, 254]);
    await given(store, fence, submit(queued(1, { hasS3: true }), { s3 }), submit(queued(2)));

    t.true((await jobOf(store, 1)).hasS3);
    t.deepEqual([...((await store.read('payload', 1))?.s3 ?? [])], [...s3]);
    t.false((await jobOf(store, 2)).hasS3);
  });

  test.serial(`${name}: a submission keeps every column that it sets, on through its end`, async (t) => {
    const { store, fence } = await use(t);
    const said = {
      webhook: 'https://a.example/',
      trace: '00-1-2-01',
      tags: 'a b',
      submittedBy: '0123456789ab',
      priority: 1,
      kind: 'RUNSYNC',
    } as const;
    await given(store, fence, submit(queued(1, said)), submit(leased(2, said)));
    t.deepEqual(await jobOf(store, 1), queued(1, said));
    t.deepEqual(await jobOf(store, 2), leased(2, said));
    await given(store, fence, completed(2));
    t.like(await jobOf(store, 2), said);
  });

  test.serial(`${name}: storage credentials of jobs in any state are listed, and replaced where they are as they were`, async (t) => {
    const { store, fence } = await use(t);
    const s3 = (byte: number): Uint8Array => new Uint8Array([byte, 0, 255]);
    const withS3 = { hasS3: true } as const;
    await given(
      store,
      fence,
      submit(queued(1, withS3), { s3: s3(1) }),
      submit(queued(2)),
      submit(leased(3, withS3), { s3: s3(3) }),
      submit(leased(4, withS3), { s3: s3(4) }),
      completed(4),
    );
    const listed = async (after: number, limit: number) =>
      (await store.read('encryptedInputs', after, limit)).map(({ seq, id, s3: bytes }) => ({ seq, id, first: bytes[0] }));
    t.deepEqual(
      await listed(0, 2),
      [1, 3].map((seq) => ({ seq, id: idOf(seq), first: seq })),
    );
    t.deepEqual(await listed(3, 2), [{ seq: 4, id: idOf(4), first: 4 }]);
    const reseal = (seq: number, from: number) => ({ kind: 'reencrypt', seq, from: s3(from), to: s3(from + 10) }) as const;
    t.deepEqual(await outcomes(store, fence, reseal(1, 1), reseal(3, 4), reseal(2, 2), reseal(4, 4), reseal(9, 9)), [
      'ok',
      'stale',
      'stale',
      'ok',
      'gone',
    ]);
    t.deepEqual(
      (await listed(0, 10)).map(({ first }) => first),
      [11, 3, 14],
    );
    t.deepEqual([...((await store.read('payload', 4))?.s3 ?? [])], [...s3(14)]);
  });

  test.serial(`${name}: an input may lie in the blob store`, async (t) => {
    const { store, fence } = await use(t);
    await given(store, fence, submit(queued(1), { input: { blob: { id: 'blob-1', size: 70_000 } } }));
    t.deepEqual((await store.read('payload', 1))?.input, { blob: { id: 'blob-1', size: 70_000 } });
  });

  test.serial(`${name}: an empty and a large inline body come back whole`, async (t) => {
    const { store, fence } = await use(t);
    const large = new Uint8Array(300_000).map((_, i) => i % 251);
    await given(store, fence, submit(queued(1), { input: { inline: new Uint8Array(0) } }), submit(queued(2), { input: { inline: large } }));
    const empty = await store.read('payload', 1);
    t.is(shown(empty?.input ?? null), '');
    const whole = await store.read('payload', 2);
    t.true(whole !== null && 'inline' in whole.input && Buffer.compare(whole.input.inline, large) === 0);
  });

  test.serial(`${name}: a job may be submitted already leased`, async (t) => {
    const { store, fence } = await use(t);
    await given(store, fence, submit(leased(1)));
    t.deepEqual(await jobOf(store, 1), leased(1));
    t.deepEqual(await store.read('leased', 0, 10), [leased(1)]);
    t.deepEqual(await store.read('head', { endpoint: 'endpoint-a', priority: 0, after: -1, limit: 10, inputLimit: 1_000 }), []);
  });

  test.serial(`${name}: a taken id is exists, and the job that has it stays as it was`, async (t) => {
    const { store, fence } = await use(t);
    await given(store, fence, submit(queued(1)));
    t.deepEqual(await outcomes(store, fence, submit({ ...queued(2), id: idOf(1) }, { input: json('other') }), submit(queued(3))), [
      'exists',
      'ok',
    ]);
    t.deepEqual(await jobOf(store, 1), queued(1));
    t.is(shown((await store.read('payload', 1))?.input ?? null), '{"seq":1}');
    t.is(await store.read('payload', 2), null);
  });

  test.serial(`${name}: an id taken within the same batch is exists`, async (t) => {
    const { store, fence } = await use(t);
    t.deepEqual(await outcomes(store, fence, submit(queued(1)), submit({ ...queued(2), id: idOf(1) })), ['ok', 'exists']);
  });

  test.serial(`${name}: a job is found under its own endpoint only`, async (t) => {
    const { store, fence } = await use(t);
    await given(store, fence, submit(queued(1)));
    t.is(await store.read('job', 'endpoint-b', idOf(1)), null);
    t.is(await store.read('job', 'endpoint-a', idOf(2)), null);
  });

  test.serial(`${name}: a used idempotency key names its job for the same body and refuses another body`, async (t) => {
    const { store, fence } = await use(t);
    const key = { key: 'account/key-1', bodyHash: hash(1), expiresAt: later() };
    await given(store, fence, submit(queued(1), { idempotency: key }));

    t.deepEqual(await store.commit(fence, [submit(queued(2), { idempotency: key })]), [{ kind: 'idempotent-same', jobId: idOf(1) }]);
    t.deepEqual(await store.commit(fence, [submit(queued(3), { idempotency: { ...key, bodyHash: hash(2) } })]), [
      { kind: 'idempotent-other-body' },
    ]);
    t.is(await store.read('job', 'endpoint-a', idOf(2)), null);
    t.is(await store.read('job', 'endpoint-a', idOf(3)), null);
    const kept = await store.read('idempotency', 'account/key-1');
    t.is(kept?.jobId, idOf(1));
    t.deepEqual([...(kept?.bodyHash ?? [])], [...hash(1)]);
  });

  test.serial(`${name}: two submissions with one key in one batch: the first takes it`, async (t) => {
    const { store, fence } = await use(t);
    const idempotency = { key: 'key', bodyHash: hash(1), expiresAt: later() };
    const results = await store.commit(fence, [submit(queued(1), { idempotency }), submit(queued(2), { idempotency })]);
    t.deepEqual(results, [{ kind: 'ok' }, { kind: 'idempotent-same', jobId: idOf(1) }]);
  });

  test.serial(`${name}: a submission sent again is exists, with its key and without`, async (t) => {
    const { store, fence } = await use(t);
    const again = submit(queued(1), { idempotency: { key: 'key', bodyHash: hash(1), expiresAt: later() } });
    t.deepEqual(await outcomes(store, fence, again, { ...again, job: { ...again.job, seq: 2, queuePosition: 2 } }), ['ok', 'exists']);
    t.deepEqual(await outcomes(store, fence, submit({ ...queued(3), id: idOf(1) })), ['exists']);
  });

  test.serial(`${name}: a submission whose id is taken does not take its key`, async (t) => {
    const { store, fence } = await use(t);
    await given(store, fence, submit(queued(1)));
    const idempotency = { key: 'key', bodyHash: hash(1), expiresAt: later() };
    t.deepEqual(await outcomes(store, fence, submit({ ...queued(2), id: idOf(1) }, { idempotency })), ['exists']);
    t.is(await store.read('idempotency', 'key'), null);
  });

  test.serial(`${name}: a key outlives its job`, async (t) => {
    const { store, fence } = await use(t);
    const idempotency = { key: 'key', bodyHash: hash(1), expiresAt: later() };
    await given(store, fence, submit(queued(1), { idempotency }), { kind: 'delete', seq: 1, dueBy: null });
    t.deepEqual(await store.commit(fence, [submit(queued(2), { idempotency })]), [{ kind: 'idempotent-same', jobId: idOf(1) }]);
  });

  test.serial(`${name}: an expired key is free again`, async (t) => {
    const { store, fence } = await use(t);
    await given(store, fence, submit(queued(1), { idempotency: { key: 'key', bodyHash: hash(1), expiresAt: START - 1e11 } }));
    t.is(await store.read('idempotency', 'key'), null);
    await given(store, fence, submit(queued(2), { idempotency: { key: 'key', bodyHash: hash(2), expiresAt: later() } }));
    t.is((await store.read('idempotency', 'key'))?.jobId, idOf(2));
  });
}
