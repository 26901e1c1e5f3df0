/** Big bodies go by the blob store, both ways, and never through memory without bound. */
import test from 'ava';

import { JobState } from '../../proto/gen/capstan/v1/common.ts';
import { inline, job } from './fake-scheduler.ts';
import { caller, KEY, RawConnection, setup } from './harness.ts';

test('an input up to 64 KiB travels inline, a larger one as a blob, both byte for byte', async (t) => {
  const { scheduler, call } = await setup(t);
  const input = (bytes: number): string => `{"a":"${'é'.repeat((bytes - 8) / 2)}"}`;
  for (const [bytes, kind] of [
    [65_536, 'inline'],
    [65_538, 'blob'],
    [9 * 1024 * 1024, 'blob'],
  ] as const) {
    t.is(Buffer.byteLength(input(bytes)), bytes);
    const reply = await call('POST', '/v2/ep/run', { body: `{"input":${input(bytes)}}` });
    t.is(reply.status, 200, reply.text);
    const submit = scheduler.submits.at(-1);
    t.is(submit?.input?.body?.$case, kind);
    t.true(scheduler.inputOf(submit) === input(bytes));
  }
});

test('a blob is put in frames of at most 256 KiB', async (t) => {
  const { scheduler, call } = await setup(t);
  const put = scheduler.next('blob-put');
  const reply = await call('POST', '/v2/ep/run', { body: `{"input":{"a":"${'x'.repeat(1_000_000)}"}}` });
  t.is(reply.status, 200, reply.text);
  const [frames] = (await put) as [number[]];
  t.deepEqual(
    frames.slice(0, -1).filter((bytes) => bytes !== 256 * 1024),
    [],
  );
  t.is(
    frames.reduce((sum, bytes) => sum + bytes, 0),
    1_000_008,
  );
});

test('a big output comes back whole, with its length', async (t) => {
  const { scheduler, call } = await setup(t);
  const output = `{"n":[${'9007199254740993,'.repeat(1_000_000)}0]}`;
  scheduler.jobs.set('big', job('big', JobState.COMPLETED, { output: scheduler.putBlob(output), workerId: 'w' }));
  const reply = await call('GET', '/v2/ep/status/big');
  t.is(reply.status, 200);
  t.true(reply.text === `{"id":"big","status":"COMPLETED","output":${output},"workerId":"w"}`);
  t.is(Number(reply.headers['content-length']), Buffer.byteLength(reply.text));
});

test('20 MiB through runsync and back', async (t) => {
  const { call } = await setup(t);
  const input = `{"a":"${'x'.repeat(20 * 1024 * 1024 - 20)}"}`;
  const reply = await call('POST', '/v2/ep/runsync', { body: `{"input":${input}}` });
  t.is(reply.status, 200);
  t.true(reply.text.includes(`"output":${input},`));
});

test('an output whose body is gone is an error answer, not half an answer', async (t) => {
  const { scheduler, call } = await setup(t);
  const output = scheduler.putBlob('"x"');
  scheduler.blobs.clear();
  scheduler.jobs.set('gone', job('gone', JobState.COMPLETED, { output }));
  const reply = await call('GET', '/v2/ep/status/gone');
  t.is(reply.status, 404);
  t.is(reply.json['detail'], 'not found: the body is gone');
  t.is((await call('GET', '/v2/ep/health')).status, 200);
});

test('a chunk that is gone in the middle ends the connection: the length betrays it', async (t) => {
  const { scheduler, call } = await setup(t);
  const first = scheduler.putBlob('"first"');
  const second = scheduler.putBlob('"second"');
  if (second.body?.$case === 'blob') scheduler.blobs.delete(second.body.value.id);
  scheduler.onStream = (asked) => asked.stream_({ state: JobState.IN_PROGRESS, chunks: [inline('0'), first, second] });
  await t.throwsAsync(call('GET', '/v2/ep/stream/x'));
  t.is((await call('GET', '/v2/ep/health')).status, 200);
});

test('a blob that could not be put for a moment is put again', async (t) => {
  const { scheduler, call } = await setup(t);
  scheduler.stop();
  const reply = call('POST', '/v2/ep/run', { body: `{"input":{"a":"${'x'.repeat(100_000)}"}}` });
  await scheduler.start();
  t.is((await reply).status, 200);
});

test('a slow reader of a big output can go away; others are served meanwhile', async (t) => {
  const { scheduler, gateway } = await setup(t);
  scheduler.jobs.set('big', job('big', JobState.COMPLETED, { output: scheduler.putBlob(`"${'x'.repeat(19_000_000)}"`) }));
  const raw = new RawConnection(t, gateway.url);
  const opened = scheduler.next('blob-get');
  raw.socket.pause();
  raw.write(`GET /v2/ep/status/big HTTP/1.1\r\nHost: x\r\nAuthorization: ${KEY}\r\n\r\n`);
  await opened;
  t.is((await caller(t, gateway.url)('POST', '/v2/ep/run', { body: '{"input":{}}' })).status, 200);
  raw.socket.destroy();
  t.is((await caller(t, gateway.url)('GET', '/v2/ep/status/big')).text.length, 19_000_045);
});
