/** The job channel under trouble: nothing acknowledged is lost, nothing is sent twice as something new (invariant 1). */
import { once } from 'node:events';
import { isDeepStrictEqual } from 'node:util';

import test from 'ava';

import { JobState } from '../../proto/gen/capstan/v1/common.ts';
import { inline, job, type SubmitAsked, type ReadAsked } from './fake-scheduler.ts';
import { caller, KEY, RawConnection, setup } from './harness.ts';

const BODY = '{"input":{}}';

test('submissions under way when the scheduler dies are sent again with the same ids', async (t) => {
  const { scheduler, gateway } = await setup(t);
  const answerAll = scheduler.onSubmit;
  const arrived = new Promise<void>((resolve) => {
    scheduler.onSubmit = () => {
      if (scheduler.submits.length === 8) resolve();
    };
  });
  const replies = Promise.all(Array.from({ length: 8 }, async () => caller(t, gateway.url)('POST', '/v2/ep/run', { body: BODY })));
  await arrived;
  const before = scheduler.submits.map((submit) => submit.jobId).sort();
  scheduler.stop();
  scheduler.submits.length = 0;
  scheduler.onSubmit = answerAll;
  await scheduler.start();
  const ids = (await replies).map((reply) => {
    t.is(reply.status, 200, reply.text);
    return String(reply.json['id']);
  });
  t.deepEqual(ids.sort(), before);
  t.deepEqual(scheduler.submits.map((submit) => submit.jobId).sort(), before);
});

test('a stream that the scheduler ends in order is opened again too', async (t) => {
  const { scheduler, call } = await setup(t);
  const again = scheduler.onSubmit;
  scheduler.onSubmit = () => {
    scheduler.onSubmit = again;
    scheduler.endStreams();
  };
  t.is((await call('POST', '/v2/ep/run', { body: BODY })).status, 200);
  t.is(scheduler.submits.length, 2);
  t.is(scheduler.submits[0]?.jobId, scheduler.submits[1]?.jobId);
});

test('a wait goes on after a restart with what is left of it', async (t) => {
  const { scheduler, call } = await setup(t);
  const first = new Promise<SubmitAsked>((resolve) => {
    scheduler.onSubmit = resolve;
  });
  const reply = call('POST', '/v2/ep/runsync?wait=60000', { body: BODY });
  t.is((await first).submit.waitMs, 60_000);
  scheduler.stop();
  const second = new Promise<SubmitAsked>((resolve) => {
    scheduler.onSubmit = resolve;
  });
  await scheduler.start();
  const asked = await second;
  t.true(asked.submit.waitMs < 60_000 && asked.submit.waitMs > 30_000, String(asked.submit.waitMs));
  asked.reply(job(asked.submit.jobId, JobState.COMPLETED));
  t.is((await reply).json['status'], 'COMPLETED');
});

test('a read of a stream says what came before, also when it is sent again', async (t) => {
  const { scheduler, call } = await setup(t);
  const places: unknown[] = [];
  const part = (firstIndex: number) => ({ state: JobState.IN_PROGRESS, chunks: [inline('1'), inline('2')], token: 3, firstIndex });
  scheduler.onStream = (asked) => {
    places.push(asked.after);
    asked.stream_(part(0));
  };
  const first = await call('GET', '/v2/ep/stream/a');
  t.is(first.headers['capstan-stream-cursor'], '3.2');
  const arrived = new Promise<void>((resolve) => {
    scheduler.onStream = (asked) => {
      places.push(asked.after);
      resolve();
    };
  });
  const second = call('GET', '/v2/ep/stream/a');
  await arrived;
  scheduler.stop();
  scheduler.onStream = (asked) => {
    places.push(asked.after);
    asked.stream_(part(2));
  };
  await scheduler.start();
  t.is((await second).headers['capstan-stream-cursor'], '3.4');
  await call('GET', '/v2/ep/stream/other');
  await call('GET', '/v2/ep/stream/a?after=2.7');
  t.deepEqual(places, [undefined, { token: 3, nextIndex: 2 }, { token: 3, nextIndex: 2 }, undefined, { token: 2, nextIndex: 7 }]);
});

test('calls beside the channel are answered 503 in our own words while the scheduler is away', async (t) => {
  const { scheduler, call } = await setup(t, { readTimeoutMs: 300 });
  scheduler.stop();
  for (const [method, path] of [
    ['GET', '/v2/ep/health'],
    ['GET', '/v2/ep/requests'],
    ['POST', '/v2/ep/cancel/a'],
    ['POST', '/v2/ep/purge-queue'],
  ] as const) {
    const { status, headers, json } = await call(method, path);
    t.is(status, 503, path);
    t.is(headers['retry-after'], '1', path);
    // Neither addresses nor the library's inner states.
    t.regex(String(json['detail']), /^service unavailable: the scheduler (is unreachable|did not respond in time)$/, path);
  }
});

test('chunks of an answer that broke off while it was sent come again', async (t) => {
  const { scheduler, gateway, call } = await setup(t);
  const asked: unknown[] = [];
  // More than the connection holds by itself.
  const chunks = Array.from({ length: 16 }, () => inline(`"${'x'.repeat(1_000_000)}"`));
  const sent = Promise.withResolvers<void>();
  const parts = [
    { chunks: [inline('1')], firstIndex: 0 },
    { chunks, firstIndex: 1 },
  ];
  scheduler.onStream = ({ after, exact, stream_ }) => {
    stream_({ state: JobState.IN_PROGRESS, token: 3, ...(parts[asked.length] ?? { chunks: [], firstIndex: 17 }) });
    asked.push([after, exact]);
    if (asked.length === 2) sent.resolve();
  };
  await call('GET', '/v2/ep/stream/a');
  const slow = new RawConnection(t, gateway.url);
  const begun = once(slow.socket, 'data');
  slow.socket.once('data', () => slow.socket.pause());
  slow.write(`GET /v2/ep/stream/a HTTP/1.1\r\nHost: x\r\nAuthorization: ${KEY}\r\n\r\n`);
  await sent.promise;
  await begun;
  slow.socket.resetAndDestroy();
  // Until the gateway has seen its end, a read may go past it.
  const again = { token: 3, nextIndex: 1 };
  while (!asked.slice(2).some((each) => isDeepStrictEqual(each, [again, true]))) await call('GET', '/v2/ep/stream/a');
  t.pass();
});

test('the read after one that was given up misses nothing of the answer that nobody took', async (t) => {
  const { scheduler, call } = await setup(t);
  const arrived = new Promise<void>((resolve) => {
    scheduler.onStream = () => resolve();
  });
  const leave = new AbortController();
  const leaves = call('GET', '/v2/ep/stream/a', { signal: leave.signal });
  await arrived;
  const abandoned = scheduler.next('abandon');
  leave.abort();
  await t.throwsAsync(leaves);
  await abandoned;
  const asked: unknown[] = [];
  scheduler.onStream = ({ after, exact, stream_ }) => {
    asked.push([after, exact]);
    stream_({ state: JobState.IN_PROGRESS, chunks: [inline('1')], token: 3, firstIndex: 0 });
  };
  await call('GET', '/v2/ep/stream/a');
  await call('GET', '/v2/ep/stream/a');
  t.deepEqual(asked, [
    [{ token: 0, nextIndex: 0 }, true],
    [{ token: 3, nextIndex: 1 }, false],
  ]);
});

test('a caller that goes away is abandoned, and only that one', async (t) => {
  const { scheduler, gateway, call } = await setup(t);
  const waiting: ReadAsked[] = [];
  const bothWait = new Promise<void>((resolve) => {
    scheduler.onGet = (asked) => {
      waiting.push(asked);
      if (waiting.length === 2) resolve();
    };
  });
  const stays = caller(t, gateway.url)('GET', '/v2/ep/status-sync/stays');
  const leave = new AbortController();
  const leaves = call('GET', '/v2/ep/status-sync/leaves', { signal: leave.signal });
  await bothWait;
  const abandoned = scheduler.next('abandon');
  leave.abort();
  await t.throwsAsync(leaves);
  const leaver = waiting.find((asked) => asked.jobId === 'leaves');
  t.deepEqual(await abandoned, [leaver?.request.requestId]);
  // A late answer to the one that left harms nobody.
  leaver?.reply(job('leaves', JobState.COMPLETED));
  waiting.find((asked) => asked.jobId === 'stays')?.reply(job('stays', JobState.COMPLETED));
  t.is((await stays).json['id'], 'stays');
});

test('pipelined callers that go away are abandoned, all of them', async (t) => {
  const { scheduler, gateway } = await setup(t);
  let waiting = 0;
  const bothWait = new Promise<void>((resolve) => {
    scheduler.onGet = () => {
      waiting += 1;
      if (waiting === 2) resolve();
    };
  });
  const raw = new RawConnection(t, gateway.url);
  for (const id of ['a', 'b']) raw.write(`GET /v2/ep/status-sync/${id} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${KEY}\r\n\r\n`);
  await bothWait;
  raw.socket.destroy();
  while (scheduler.abandoned.length < 2) await scheduler.next('abandon');
  t.is(new Set(scheduler.abandoned).size, 2);
});

test('a call that was answered is not abandoned afterwards', async (t) => {
  const { scheduler, call } = await setup(t);
  t.is((await call('POST', '/v2/ep/runsync', { body: BODY })).status, 200);
  t.is((await call('POST', '/v2/ep/run', { body: BODY })).status, 200);
  t.deepEqual(scheduler.abandoned, []);
});

test('while the scheduler stays away calls end 503 with Retry-After, and work again afterwards', async (t) => {
  const { scheduler, call } = await setup(t, { submitTimeoutMs: 300, readTimeoutMs: 200 });
  scheduler.stop();
  for (const [method, path] of [
    ['POST', '/v2/ep/run'],
    ['POST', '/v2/ep/runsync?wait=300000'],
    ['GET', '/v2/ep/status/x'],
    ['POST', '/v2/ep/cancel/x'],
    ['GET', '/v2/ep/health'],
  ] as const) {
    const reply = await call(method, path, method === 'POST' ? { body: BODY } : {});
    t.is(reply.status, 503, path);
    t.is(reply.headers['retry-after'], '1');
  }
  t.is((await call('GET', '/healthz', { key: null })).status, 503);
  await scheduler.start();
  while ((await call('GET', '/healthz', { key: null })).status !== 200);
  t.is((await call('POST', '/v2/ep/run', { body: BODY })).status, 200);
});

test('more requests than may be in flight are refused 503, not queued', async (t) => {
  const { scheduler, gateway, call } = await setup(t, { maxInFlight: 2 });
  const held: SubmitAsked[] = [];
  const full = new Promise<void>((resolve) => {
    scheduler.onSubmit = (asked) => {
      held.push(asked);
      if (held.length === 2) resolve();
    };
  });
  const first = caller(t, gateway.url)('POST', '/v2/ep/runsync', { body: BODY });
  const second = caller(t, gateway.url)('POST', '/v2/ep/runsync', { body: BODY });
  await full;
  const third = await call('POST', '/v2/ep/run', { body: BODY });
  t.is(third.status, 503);
  t.is(third.headers['retry-after'], '1');
  t.is(third.json['detail'], 'service unavailable: the gateway already has 2 requests in flight');
  for (const asked of held) asked.reply(job(asked.submit.jobId, JobState.COMPLETED));
  t.is((await first).status, 200);
  t.is((await second).status, 200);
  t.is(scheduler.submits.length, 2);
});

test('what one turn brings goes as one batch', async (t) => {
  const { scheduler, gateway } = await setup(t);
  const clients = Array.from({ length: 32 }, () => caller(t, gateway.url));
  await Promise.all(clients.map(async (client) => client('GET', '/ping', { key: null })));
  scheduler.batches.length = 0;
  const replies = await Promise.all(clients.map(async (client) => client('POST', '/v2/ep/run', { body: BODY })));
  t.true(replies.every((reply) => reply.status === 200));
  t.is(new Set(replies.map((reply) => reply.json['id'])).size, 32);
  t.is(
    scheduler.batches.reduce((sum, size) => sum + size, 0),
    32,
  );
  t.true(scheduler.batches.length < 32, `${scheduler.batches.length} messages`);
});
