/** What an account may keep on the scheduler's disk (docs/scale.md, Quotas). */
import { createHash, randomBytes } from 'node:crypto';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';

import test from 'ava';

import { JobState } from '../../proto/gen/capstan/v1/common.ts';
import { UpdateAccountRequest, type AccountInfo } from '../../proto/gen/capstan/v1/control.ts';
import { CapstanError } from '../../lib/errors.ts';
import { gatewayOf } from '../support/gateway.ts';
import { TestScheduler, unary } from '../support/scheduler-client.ts';
import { until } from '../support/until.ts';
import { inline, WebhookWorld } from './webhook-world.ts';

const HOUR = 3_600_000;
const digestOf = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex');

async function account(scheduler: TestScheduler): Promise<AccountInfo> {
  return unary((done) => scheduler.control.getAccount({}, scheduler.bearer(scheduler.secret('api-key')), done));
}

async function setQuota(scheduler: TestScheduler, quotas: Partial<UpdateAccountRequest>): Promise<AccountInfo> {
  const request = UpdateAccountRequest.fromPartial({ id: 'default', ...quotas });
  return unary((done) => scheduler.control.updateAccount(request, scheduler.bearer(scheduler.secret('api-key')), done));
}

/** The bytes of the account's bodies, after the pause between two counts of the store. */
async function counted({ scheduler, clock }: WebhookWorld): Promise<bigint> {
  clock.advance(100);
  return (await account(scheduler)).bodyBytes;
}

const bodiesOn = async (scheduler: TestScheduler): Promise<string[]> => {
  const root = join(scheduler.dataDir, 'scheduler', 'blobs', 'body');
  return (await readdir(root, { recursive: true })).filter((name) => name.includes('/'));
};

test('builds and unfinished uploads may come to the quota, whole, in parts, at once and after a restart', async (t) => {
  const scheduler = await TestScheduler.open({ buildQuotaBytes: 100_000 });
  t.teardown(() => scheduler.close());
  const url = await gatewayOf(t, scheduler);
  const authorization = `Bearer ${scheduler.secret('api-key')}`;
  const send = async (bytes: Buffer, part?: { offset: number; length: number; of: Buffer }) => {
    const headers = part === undefined ? {} : { 'upload-offset': String(part.offset), 'upload-length': String(part.of.length) };
    const response = await fetch(`${url}/builds/${digestOf(part?.of ?? bytes)}`, {
      method: part === undefined ? 'PUT' : 'PATCH',
      body: new Uint8Array(bytes),
      headers: { authorization, ...headers },
    });
    return { status: response.status, text: await response.text() };
  };
  const [first, parted, other] = [randomBytes(50_000), randomBytes(40_000), randomBytes(20_000)];
  t.is((await send(first)).status, 201);
  t.is((await send(parted.subarray(0, 30_000), { offset: 0, length: 30_000, of: parted })).status, 200);
  t.is((await account(scheduler)).buildBytes, 80_000n);

  for (let round = 0; round < 2; round += 1) {
    const refused = await send(randomBytes(30_000));
    t.is(refused.status, 409);
    t.like(JSON.parse(refused.text), { status: 409, title: 'Conflict' });
    t.regex(refused.text, /it has 80000 of 100000 bytes, unfinished uploads included, and this upload has 30000/);
    t.regex(refused.text, /capstan account set default --build-bytes/);
    const tooLong = randomBytes(60_000);
    t.is((await send(tooLong.subarray(0, 1), { offset: 0, length: 1, of: tooLong })).status, 409, 'a part takes the room of the whole');
    t.is((await account(scheduler)).buildBytes, 80_000n, 'nothing is kept of what was refused');
    await scheduler.restart();
  }
  // Both fit alone, and not together.
  const both = await Promise.all([send(other), send(randomBytes(20_000))]);
  t.deepEqual(
    both.map(({ status }) => status).toSorted((a, b) => a - b),
    [201, 409],
  );
  t.is((await send(parted.subarray(30_000), { offset: 30_000, length: 10_000, of: parted })).status, 409);
  t.is((await setQuota(scheduler, { buildQuotaBytes: 110_000n })).buildQuotaBytes, 110_000n);
  t.is((await send(parted.subarray(30_000), { offset: 30_000, length: 10_000, of: parted })).status, 201);
  t.is((await send(first)).status, 200, 'what is there needs no room');
  t.is((await account(scheduler)).buildBytes, 110_000n);
});

test('builds that nobody deployed give their room back after an hour, those that are deployed do not', async (t) => {
  const world = await WebhookWorld.open(t, { buildQuotaBytes: 1_000 });
  const { scheduler, clock } = world;
  const deployed = Number((await account(scheduler)).buildBytes);
  t.true(deployed > 0);
  await scheduler.putBuild(randomBytes(900));
  await t.throwsAsync(scheduler.putBuild(randomBytes(900)), { message: /quota/ });
  clock.advance(HOUR + 600_000);
  t.is((await account(scheduler)).buildBytes, BigInt(deployed));
  await t.notThrowsAsync(scheduler.putBuild(randomBytes(900)));
});

test('inputs are refused over the quota before they are kept, and let in when earlier ones are gone', async (t) => {
  const world = await WebhookWorld.open(t, { bodyQuotaBytes: 250_000, runRetentionMs: 60_000 });
  const { scheduler, clock, endpoint, session } = world;
  const url = await gatewayOf(t, scheduler);
  const authorization = `Bearer ${scheduler.secret('api-key')}`;
  const run = async (length: number): Promise<{ status: number; text: string }> => {
    const headers = { authorization, 'content-type': 'application/json' };
    const response = await fetch(`${url}/v2/${endpoint}/run`, {
      method: 'POST',
      headers,
      body: JSON.stringify({ input: { x: 'x'.repeat(length) } }),
    });
    return { status: response.status, text: await response.text() };
  };
  t.is((await run(199_992)).status, 200);
  const dispatch = await session.take('dispatch');
  t.is((await account(scheduler)).bodyBytes, 200_000n);
  const refused = await run(100_000);
  t.is(refused.status, 409);
  t.regex(refused.text, /input: 100008 more bytes would exceed the account's quota of bodies; .* 200000 of 250000 bytes/);
  t.regex(refused.text, /capstan account set default --body-bytes/);
  t.is((await bodiesOn(scheduler)).length, 1, 'the bytes were not kept');

  // What is small is kept in the job's row, and counts as well.
  const refusedSmall = await run(60_000);
  t.is(refusedSmall.status, 409);
  t.regex(refusedSmall.text, /input: 600\d\d more bytes would exceed the account's quota of bodies; .* 200000 of 250000 bytes/);
  t.is((await run(40_000)).status, 200);
  const small = await session.take('dispatch');
  t.is((await run(10_000)).status, 409, 'it counts before it has ended');

  await world.end(dispatch, { output: { body: inline('1') } });
  await world.end(small, { output: { body: inline('1') } });
  clock.advance(61_000);
  await until('the jobs are deleted', async () => (await counted(world)) === 0n);
  t.is((await run(200_000)).status, 200);
});

test('a job whose output or stream passes the quota ends FAILED with that reason; the count is the same after a restart', async (t) => {
  const world = await WebhookWorld.open(t, { bodyQuotaBytes: 250_000 });
  const { scheduler, session } = world;
  const counts = async (what: string, bytes: number): Promise<void> => {
    await until(`${what}: ${bytes} bytes`, async () => (await counted(world)) === BigInt(bytes));
  };
  // What a job's row holds of its input: the document, and 5 bytes with its checksum.
  const input = '{ "n" : 1 }'.length + 5;
  const kept = await world.dispatched('');
  const output = await world.put(Buffer.alloc(200_000, '1'));
  await world.end(kept, { output: { body: output } });
  await counts('input and output', 200_000 + input);

  const over = await world.dispatched('');
  await world.end(over, { output: { body: await world.put(Buffer.alloc(100_000, '1')) } });
  const jobOf = async (jobId: string) => {
    const { result } = await world.channel.ask(world.endpoint, { $case: 'get', value: { jobId, waitMs: 0 } });
    return result?.$case === 'job' ? result.value : t.fail(`${jobId} is not there`);
  };
  const failed = await jobOf(over.jobId);
  t.is(failed.state, JobState.FAILED);
  t.regex(failed.error ?? '', /^output: 100000 more bytes would exceed the account's quota of bodies;/);
  t.is(failed.output, undefined);

  const streaming = await world.dispatched('');
  const { jobId, token } = streaming;
  session.send({ $case: 'started', value: { jobId, token, agoMs: 0 } });
  const chunk = async (index: number) =>
    session.send({ $case: 'chunk', value: { jobId, token, index, data: { body: await world.put(Buffer.alloc(30_000, '1')) } } });
  await chunk(0);
  await chunk(1);
  t.like(await session.take('stop'), { jobId, token });
  const stopped = await jobOf(jobId);
  t.is(stopped.state, JobState.FAILED);
  t.regex(stopped.error ?? '', /^stream: 30000 more bytes would exceed/);
  await counts('its chunks do not count', 200_000 + 3 * input);

  // The same of a stream and an output in the rows.
  const small = await world.dispatched('');
  const part = (index: number) =>
    session.send({
      $case: 'chunk',
      value: { jobId: small.jobId, token: small.token, index, data: { body: inline(`"${'1'.repeat(19_998)}"`) } },
    });
  session.send({ $case: 'started', value: { jobId: small.jobId, token: small.token, agoMs: 0 } });
  part(0);
  part(1);
  part(2);
  t.like(await session.take('stop'), { jobId: small.jobId, token: small.token });
  t.regex((await jobOf(small.jobId)).error ?? '', /^stream: 200\d\d more bytes would exceed/);
  const last = await world.dispatched('');
  await world.end(last, { output: { body: inline(`"${'1'.repeat(59_998)}"`) } });
  t.regex((await jobOf(last.jobId)).error ?? '', /^output: 600\d\d more bytes would exceed/);
  const fits = await world.dispatched('');
  await world.end(fits, { output: { body: inline(`"${'1'.repeat(39_998)}"`) } });
  t.is((await jobOf(fits.jobId)).state, JobState.COMPLETED);
  const all = 200_000 + 40_005 + 6 * input;
  await counts('what is kept', all);

  await scheduler.restart();
  t.is((await account(scheduler)).bodyBytes, BigInt(all));
});

test('quotas are set by operators alone, one without the others, and all back to the defaults', async (t) => {
  const scheduler = await TestScheduler.open({ buildQuotaBytes: 5, bodyQuotaBytes: 6, workerQuota: 7 });
  t.teardown(() => scheduler.close());
  await setQuota(scheduler, { workerQuota: 1 });
  t.like(await setQuota(scheduler, { buildQuotaBytes: 2n }), { workerQuota: 1, buildQuotaBytes: 2n, bodyQuotaBytes: 6n });
  t.like(await setQuota(scheduler, { bodyQuotaBytes: 3n }), { workerQuota: 1, buildQuotaBytes: 2n, bodyQuotaBytes: 3n });
  await scheduler.restart();
  t.like(await account(scheduler), { workerQuota: 1, buildQuotaBytes: 2n, bodyQuotaBytes: 3n });
  t.like(await setQuota(scheduler, { buildQuotaBytes: 0n }), { workerQuota: 1, buildQuotaBytes: 5n, bodyQuotaBytes: 3n });
  t.like(await setQuota(scheduler, {}), { workerQuota: 7, buildQuotaBytes: 5n, bodyQuotaBytes: 6n });
  const error = await t.throwsAsync(setQuota(scheduler, { buildQuotaBytes: 2n ** 60n }), { instanceOf: CapstanError });
  t.is(error.code, 'INVALID_ARGUMENT');
  t.is(error.field, 'build_quota_bytes');
});
