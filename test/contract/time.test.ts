/**
 * What time does to a job, with the smallest
 * settings there are; days are tested on the core itself (test/property/retention.test.ts).
 */
import test from 'ava';

import { contract, isProblem } from './contract.ts';

const api = contract(test, { CAPSTAN_RUN_RETENTION_MS: '3000', CAPSTAN_RUNSYNC_RETENTION_MS: '1000' });

test('Limits: the result of /run and of /runsync is gone when its retention is over', async (t) => {
  const job = await api.run('echo', { a: 1 });
  t.like((await api.ended('echo', job)).json, { status: 'COMPLETED' });
  const sync = String((await api.call('POST', '/v2/:echo/runsync', { body: { input: {} } })).json['id']);
  for (const each of [sync, job]) isProblem(t, await api.until('echo', each, ({ status }) => status !== 200), 404, /not found/);
});

test('Idempotency-Key: it outlives its job; a submission repeated then is 409 with the job’s id, and runs nothing', async (t) => {
  for (const [operation, key] of [
    ['run', 'outlives-run'],
    ['runsync', 'outlives-runsync'],
  ] as const) {
    const path = `/v2/:echo/${operation}`;
    const options = { body: { input: { key } }, headers: { 'idempotency-key': key } };
    const first = await api.call('POST', path, options);
    t.is(first.status, 200);
    const id = String(first.json['id']);
    await api.until('echo', id, ({ status }) => status !== 200);
    for (const again of ['/v2/:echo/run', '/v2/:echo/runsync']) {
      const refused = await api.call('POST', again, options);
      t.is(refused.status, 409, refused.text);
      const detail = `conflict: Idempotency-Key: job ${id} was submitted with it and has been deleted`;
      t.deepEqual(refused.json, { status: 409, title: 'Conflict', detail, id });
    }
    isProblem(t, await api.call('POST', path, { ...options, body: { input: { key: 'other' } } }), 409, /a different request body/);
  }
});

test('Limits: retention holds for every terminal state', async (t) => {
  const failed = await api.run('failing');
  const cancelled = await api.run('parked');
  await api.call('POST', `/v2/:parked/cancel/${cancelled}`);
  t.is((await api.ended('failing', failed)).json['status'], 'FAILED');
  isProblem(t, await api.until('failing', failed, ({ status }) => status !== 200), 404, /not found/);
  isProblem(t, await api.until('parked', cancelled, ({ status }) => status !== 200), 404, /not found/);
  isProblem(t, await api.call('POST', `/v2/:failing/retry/${failed}`), 404, /not found/);
});

test('policy.ttl: a job that waits is deleted at its end; whoever waits learns so', async (t) => {
  const job = await api.run('parked', {}, { policy: { ttl: 10_000 } });
  isProblem(t, await api.call('GET', `/v2/:parked/status-sync/${job}?wait=60000`), 404, /its ttl or retention has expired/);
  isProblem(t, await api.call('GET', `/v2/:parked/status/${job}`), 404, /not found/);
});

test('policy.ttl: a job that runs is deleted too, and its handler stopped', async (t) => {
  const job = await api.run('single', {}, { policy: { ttl: 10_000 } });
  await api.running('single', job);
  const next = await api.run('single', {}, { policy: { ttl: 60_000 } });
  isProblem(t, await api.call('GET', `/v2/:single/status-sync/${job}?wait=60000`), 404, /its ttl or retention has expired/);
  // The only slot is free again.
  await api.running('single', next);
  t.is((await api.call('POST', `/v2/:single/cancel/${next}`)).status, 200);
});

test('policy.executionTimeout: TIMED_OUT with executionTimeout exceeded; /retry: from TIMED_OUT', async (t) => {
  const job = await api.run('endless', {}, { policy: { executionTimeout: 5_000 } });
  const { json } = await api.ended('endless', job);
  t.like(json, { id: job, status: 'TIMED_OUT', error: 'executionTimeout exceeded' });
  t.false('output' in json, 'progress is not a result');
  t.true(Number(json['executionTime']) >= 5_000);
  t.deepEqual((await api.call('POST', `/v2/:endless/retry/${job}`)).json, { id: job, status: 'IN_QUEUE' });
  await api.running('endless', job);
  t.is((await api.call('POST', `/v2/:endless/cancel/${job}`)).status, 200);
});

test('policy.executionTimeout: counts only what runs, not what waits', async (t) => {
  const first = await api.run('failing');
  const job = await api.run('parked', {}, { policy: { executionTimeout: 5_000, ttl: 60_000 } });
  await api.ended('failing', first);
  const waited = await api.call('GET', `/v2/:parked/status-sync/${job}?wait=6000`);
  t.is(waited.json['status'], 'IN_QUEUE');
});
