/** Calls beside the job channel whose answers are lost: made again where that is harmless, and answered as the first would have been. */
import test, { type ExecutionContext } from 'ava';

import { CapstanError } from '../../lib/errors.ts';
import { JobState } from '../../proto/gen/capstan/v1/common.ts';
import { FakeScheduler, job } from './fake-scheduler.ts';
import { caller, KEY, setup, startGateway } from './harness.ts';

test('a cancel whose answer was lost is made again, and is no conflict', async (t) => {
  const { scheduler, call } = await setup(t);
  scheduler.jobs.set('a', job('a', JobState.CANCELLED, { delayMs: 3 }));
  scheduler.onCancel = () => {
    scheduler.onCancel = refuse('a is CANCELLED');
    return loseAnswer(t, scheduler);
  };
  const { status, json } = await call('POST', '/v2/ep/cancel/a');
  t.is(status, 200, JSON.stringify(json));
  t.deepEqual(json, { id: 'a', status: 'CANCELLED', delayTime: 3 });
  // Without a lost answer it is one.
  t.is((await call('POST', '/v2/ep/cancel/a')).status, 409);
});

test('a cancel that is refused after a lost answer stays refused when the job ended otherwise', async (t) => {
  const { scheduler, call } = await setup(t);
  scheduler.jobs.set('a', job('a', JobState.COMPLETED));
  scheduler.onCancel = () => {
    scheduler.onCancel = refuse('a is COMPLETED');
    return loseAnswer(t, scheduler);
  };
  const { status, json } = await call('POST', '/v2/ep/cancel/a');
  t.is(status, 409);
  t.regex(String(json['detail']), /a is COMPLETED/);
});

test('a retry whose answer was lost is made again, and is no conflict', async (t) => {
  const { scheduler, call } = await setup(t);
  scheduler.jobs.set('a', job('a', JobState.IN_PROGRESS, { delayMs: 3 }));
  scheduler.onRetry = () => {
    scheduler.onRetry = refuse('a has not ended');
    return loseAnswer(t, scheduler);
  };
  const { status, json } = await call('POST', '/v2/ep/retry/a');
  t.is(status, 200, JSON.stringify(json));
  t.deepEqual(json, { id: 'a', status: 'IN_QUEUE' });
});

test('reads beside the channel wait for the scheduler to come back', async (t) => {
  const { scheduler, call } = await setup(t);
  scheduler.announce = false;
  scheduler.addKey('new-key');
  scheduler.addEndpoint('new-endpoint');
  scheduler.jobs.set('a', job('a', JobState.IN_QUEUE));
  scheduler.stop();
  const replies = [
    call('GET', '/v2/ep/health'),
    call('GET', '/v2/ep/requests'),
    call('POST', '/v2/ep/purge-queue'),
    call('POST', '/v2/ep/cancel/a'),
    call('GET', '/v2/ep/health', { key: 'new-key' }),
    call('GET', '/v2/new-endpoint/health'),
  ];
  await scheduler.start();
  for (const reply of await Promise.all(replies)) t.is(reply.status, 200, reply.text);
});

test('a gateway that starts before its scheduler answers once it has read the directory', async (t) => {
  const scheduler = await new FakeScheduler().start();
  t.teardown(() => scheduler.stop());
  scheduler.addKey(KEY);
  scheduler.addEndpoint('ep');
  scheduler.announce = false;
  scheduler.stop();
  const gateway = await startGateway(t, scheduler);
  const replies = [caller(t, gateway.url)('POST', '/v2/ep/run', { body: '{"input":{}}' }), caller(t, gateway.url)('GET', '/v2/ep/health')];
  await scheduler.start();
  for (const reply of await Promise.all(replies)) t.is(reply.status, 200, reply.text);
  t.deepEqual(scheduler.lookups, []);
});

test('over GraphQL a lost answer of a query is no error, and a change is not made twice', async (t) => {
  const { scheduler, call } = await setup(t);
  scheduler.onControl = () => void restart(t, scheduler);
  const ask = (query: string) => call('POST', '/graphql', { body: JSON.stringify({ query }) });
  const counted = (name: string): number => scheduler.calls.filter((each) => each === name).length;
  const changed = await ask('mutation { rotateWebhookSecret { secret } }');
  t.regex(changed.text, /UNAVAILABLE|unreachable|unavailable/);
  t.is(counted('rotateWebhookSecret'), 1);
  let losses = 2;
  scheduler.onControl = () => {
    if (losses-- > 0) void restart(t, scheduler);
  };
  t.notRegex((await ask('{ account { id } }')).text, /unreachable/);
  t.is(counted('getAccount'), 3);
});

test('a body goes on where it broke off', async (t) => {
  const { scheduler, call } = await setup(t);
  const bytes = Buffer.from(JSON.stringify('x'.repeat(600_000)));
  scheduler.jobs.set('a', job('a', JobState.COMPLETED, { output: scheduler.putBlob(bytes) }));
  let parts = 0;
  scheduler.onBody = (sending, all) => {
    if (parts === 2) return false;
    parts += 1;
    sending.write({ part: { $case: 'data', value: all.subarray(0, parts * 100_000) } }, () => void restart(t, scheduler));
    return true;
  };
  const { status, json } = await call('GET', '/v2/ep/status/a');
  t.is(status, 200);
  t.is(json['output'], 'x'.repeat(600_000));
  t.is(parts, 2);
});

function refuse(why: string): () => never {
  return () => {
    throw new CapstanError('CONFLICT', why);
  };
}

/** The scheduler has done it; its answer is not heard. */
function loseAnswer(t: ExecutionContext, scheduler: FakeScheduler): never {
  void restart(t, scheduler);
  throw new CapstanError('INTERNAL', 'heard by nobody');
}

async function restart(t: ExecutionContext, scheduler: FakeScheduler): Promise<void> {
  scheduler.stop();
  await scheduler.start().catch((error: unknown) => t.fail(String(error)));
}
