/** The scheduler over real gRPC, its agent and gateway played by the test. */
import test from 'ava';

import { JobKind, JobState } from '../../proto/gen/capstan/v1/common.ts';
import type { Job } from '../../proto/gen/capstan/v1/jobs.ts';
import { AttemptOutcome, RefusalReason, StopReason, type Dispatch, type WorkerStatus } from '../../proto/gen/capstan/v1/nodes.ts';
import type { CapstanError } from '../../lib/errors.ts';
import { until } from '../support/until.ts';
import { unary } from '../support/scheduler-client.ts';
import { open, submit, jobOf, complete, ready, texts, statusOf, reopen } from './job-world.ts';

test('a job goes to a worker and its result to whoever waits', async (t) => {
  const { scheduler, endpoint, session, worker } = await ready(t);
  const channel = scheduler.channel();
  const waiting = channel.ask(endpoint, submit('sync-1', { kind: JobKind.RUNSYNC, waitMs: 60_000 }));
  const dispatch = await session.take('dispatch');
  t.is(dispatch.jobId, 'sync-1');
  t.is(dispatch.token, 1);
  t.is(dispatch.workerId, worker);
  t.is(dispatch.executionTimeoutMs, 600_000);
  t.deepEqual(dispatch.input?.body, { $case: 'inline', value: Buffer.from('{"n":1}') });
  complete(session, dispatch);
  const job = jobOf(t, await waiting);
  t.is(job.state, JobState.COMPLETED);
  t.deepEqual(job.output?.body, { $case: 'inline', value: Buffer.from('"done"') });
  t.is(job.executionMs, 5);
  t.is(job.workerId, worker);
  t.is(job.retries, 0);
  const ack = await session.take('ack');
  t.deepEqual({ ...ack }, { jobId: 'sync-1', token: 1 });
});

test('the same submission sent again is the same job', async (t) => {
  const { scheduler, endpoint, session } = await ready(t);
  const channel = scheduler.channel();
  await channel.ask(endpoint, submit('twice'));
  complete(session, await session.take('dispatch'));
  await session.take('ack');
  t.is(jobOf(t, await channel.ask(endpoint, submit('twice'))).state, JobState.COMPLETED);
  t.is(jobOf(t, await channel.ask(endpoint, submit('twice', { waitMs: 60_000 }))).state, JobState.COMPLETED);
  const health = await unary<{ jobsCompleted: number; jobsInQueue: number }>((done) =>
    scheduler.jobs.getHealth({ endpointId: endpoint }, scheduler.bearer(scheduler.secret('gateway-token')), done),
  );
  t.is(health.jobsCompleted, 1);
  t.is(health.jobsInQueue, 0);
});

test('an idempotency key answers with the first job and refuses another body', async (t) => {
  const { scheduler, endpoint } = await ready(t);
  const channel = scheduler.channel();
  const key = { idempotencyKey: 'k', bodyHash: Buffer.alloc(32, 1) };
  t.is(jobOf(t, await channel.ask(endpoint, submit('first', key))).id, 'first');
  t.is(jobOf(t, await channel.ask(endpoint, submit('second', key))).id, 'first');
  const refused = await channel.ask(endpoint, submit('third', { ...key, bodyHash: Buffer.alloc(32, 2) }));
  t.is(refused.result?.$case === 'failure' ? refused.result.value.code : '', 'IDEMPOTENCY_MISMATCH');
});

test('an idempotency key is free for a new job when its retention is over', async (t) => {
  const scheduler = await open(t, { idempotencyRetentionMs: '1000' });
  const { endpoints } = await scheduler.deploy([{ workersMax: 0 }]);
  const endpoint = endpoints[0]?.id ?? '';
  const channel = scheduler.channel();
  const key = { idempotencyKey: 'k', bodyHash: Buffer.alloc(32, 1) };
  t.is(jobOf(t, await channel.ask(endpoint, submit('first', key))).id, 'first');
  const next = await until('the key is free', async () => {
    const { id } = jobOf(t, await channel.ask(endpoint, submit('second', key)));
    return id === 'first' ? null : id;
  });
  t.is(next, 'second');
});

test('a submission that comes twice under the key of another job is answered with that job both times', async (t) => {
  const scheduler = await open(t);
  const { endpoints } = await scheduler.deploy([{ workersMax: 0 }]);
  const endpoint = endpoints[0]?.id ?? '';
  const channel = scheduler.channel();
  const key = { idempotencyKey: 'k', bodyHash: Buffer.alloc(32, 1) };
  await channel.ask(endpoint, submit('first', key));
  // As a gateway sends it again after a break: the store has not yet refused the one before.
  const twice = await Promise.all([1, 2, 3].map(() => channel.ask(endpoint, submit('second', key))));
  t.deepEqual(
    twice.map((reply) => jobOf(t, reply).id),
    ['first', 'first', 'first'],
  );
  const other = { ...key, bodyHash: Buffer.alloc(32, 2) };
  const refused = await Promise.all([1, 2, 3].map(() => channel.ask(endpoint, submit('third', other))));
  t.deepEqual(
    refused.map(({ result }) => (result?.$case === 'failure' ? result.value.code : result?.$case)),
    ['IDEMPOTENCY_MISMATCH', 'IDEMPOTENCY_MISMATCH', 'IDEMPOTENCY_MISMATCH'],
  );
});

test('a purge is answered also when it meets a submission that the store refuses', async (t) => {
  t.timeout(60_000);
  const scheduler = await open(t, { rateLimits: 'purge-queue=0/0' });
  const { endpoints } = await scheduler.deploy([{ workersMax: 0 }]);
  const endpoint = endpoints[0]?.id ?? '';
  const channel = scheduler.channel();
  const client = scheduler.jobs;
  const gateway = scheduler.bearer(scheduler.secret('gateway-token'));
  const purge = (): Promise<unknown> => unary((done) => client.purgeQueue({ endpointId: endpoint }, gateway, done));
  await channel.ask(endpoint, submit('first', { idempotencyKey: 'k', bodyHash: Buffer.alloc(32, 1) }));
  await purge();
  const other = { idempotencyKey: 'k', bodyHash: Buffer.alloc(32, 2) };
  // The refused job is in the queue for as long as its commit takes: some of these purges find it there.
  for (let i = 0; i < 20; i += 1) await Promise.all([channel.ask(endpoint, submit(`refused-${i}`, other)), purge()]);
  t.pass();
});

test('jobs start in the order they came in, normal ones before lowPriority ones', async (t) => {
  const { scheduler, endpoint, session } = await ready(t);
  const channel = scheduler.channel();
  await channel.ask(endpoint, submit('busy'));
  await channel.ask(endpoint, submit('low', { policy: { lowPriority: true } }));
  for (const id of ['a', 'b', 'c']) await channel.ask(endpoint, submit(id));
  const order: string[] = [];
  for (let i = 0; i < 5; i++) {
    const dispatch = await session.take('dispatch');
    order.push(dispatch.jobId);
    complete(session, dispatch);
  }
  t.deepEqual(order, ['busy', 'a', 'b', 'c', 'low']);
});

test('a lease that the agent never received is requeued uncharged when it comes back', async (t) => {
  const { scheduler, endpoint, node, session, worker } = await ready(t);
  const channel = scheduler.channel();
  const workers = { epoch: 99, workers: [] as WorkerStatus[] };
  await channel.ask(endpoint, submit('lost'));
  const first = await session.take('dispatch');
  session.close();
  await session.ended;
  const again = node.session({ workers: { ...workers, workers: [{ ...statusOf(worker, endpoint) }] } });
  const second = await again.take('dispatch');
  t.is(second.jobId, first.jobId);
  t.is(second.token, first.token + 1);
  t.is(second.attempt, 1);
});

test('another incarnation of an agent loses the leases of the one before at once, charged when started', async (t) => {
  const { scheduler, endpoint, node, session, worker } = await ready(t, { maxAttempts: 2 });
  const channel = scheduler.channel();
  const answer = channel.ask(endpoint, submit('sync-doomed', { kind: JobKind.RUNSYNC, waitMs: 60_000 }));
  let current = session;
  for (let attempt = 1; attempt <= 2; attempt++) {
    const { jobId, token, attempt: number } = await current.take('dispatch');
    t.is(number, attempt);
    current.send({ $case: 'started', value: { jobId, token, agoMs: 0 } });
    // The start has arrived once the status shows it.
    for (;;) {
      const job = jobOf(t, await channel.ask(endpoint, { $case: 'get', value: { jobId, waitMs: 0 } }));
      if (job.state === JobState.IN_PROGRESS) break;
    }
    current.close();
    await current.ended;
    current = await reopen(node, { incarnation: `next-${attempt}`, workers: { epoch: 99, workers: [statusOf(worker, endpoint)] } });
  }
  const job = jobOf(t, await answer);
  t.is(job.state, JobState.FAILED);
  t.regex(job.error ?? '', /node host restarted \(attempt 2 of 2\)/);
  t.is(job.retries, 1);
});

test('a late result changes nothing and is acknowledged', async (t) => {
  const { scheduler, endpoint, session } = await ready(t);
  const channel = scheduler.channel();
  await channel.ask(endpoint, submit('cancelled'));
  const dispatch = await session.take('dispatch');
  await unary<Job>((done) =>
    scheduler.jobs.cancel({ endpointId: endpoint, jobId: 'cancelled' }, scheduler.bearer(scheduler.secret('gateway-token')), done),
  );
  const stop = await session.take('stop');
  t.is(stop.jobId, 'cancelled');
  t.is(stop.reason, StopReason.CANCELLED);
  complete(session, dispatch);
  await session.take('ack');
  t.is(jobOf(t, await channel.ask(endpoint, { $case: 'get', value: { jobId: 'cancelled', waitMs: 0 } })).state, JobState.CANCELLED);
});

test('a refused job goes back to its place and is not charged', async (t) => {
  const { scheduler, endpoint, session } = await ready(t);
  const channel = scheduler.channel();
  await channel.ask(endpoint, submit('first'));
  await channel.ask(endpoint, submit('second'));
  const { jobId, token } = await session.take('dispatch');
  session.send({ $case: 'refused', value: { jobId, token, reason: RefusalReason.OVER_CAPACITY, detail: '' } });
  const again = await session.take('dispatch');
  t.is(again.jobId, 'first');
  t.is(again.attempt, 1);
  t.is(again.token, 2);
});

test('what was acknowledged is there after a restart, and results kept by the agent are recorded once', async (t) => {
  const { scheduler, endpoint, node, session, worker } = await ready(t);
  await scheduler.channel().ask(endpoint, submit('running'));
  await scheduler.channel().ask(
    endpoint,
    submit('waiting', {
      s3Config: { accessId: 'id', accessSecret: 'very-secret', bucketName: 'b', endpointUrl: 'https://s3', more: '', json: '' },
    }),
  );
  const { jobId, token } = await session.take('dispatch');
  await scheduler.restart();
  await session.ended;
  const attempts = [{ jobId, token, workerId: worker, started: true, startedAgoMs: 10 }];
  const again = node.session({ attempts, workers: { epoch: 99, workers: [statusOf(worker, endpoint)] } });
  complete(again, { jobId, token } as Dispatch);
  complete(again, { jobId, token } as Dispatch);
  await again.take('ack');
  await again.take('ack');
  const next = await again.take('dispatch');
  t.is(next.jobId, 'waiting');
  t.is(next.s3Config?.accessSecret, 'very-secret');
  const channel = scheduler.channel();
  const job = jobOf(t, await channel.ask(endpoint, { $case: 'get', value: { jobId: 'running', waitMs: 0 } }));
  t.is(job.state, JobState.COMPLETED);
  t.is(job.retries, 0);
});

test('credentials are not in the database as they came', async (t) => {
  const { scheduler, endpoint } = await ready(t);
  await scheduler.channel().ask(
    endpoint,
    submit('secret', {
      s3Config: { accessId: 'id', accessSecret: 'needle-in-the-file', bucketName: 'b', endpointUrl: 'https://s3', more: '', json: '' },
    }),
  );
  const { readFile, readdir } = await import('node:fs/promises');
  const folder = `${scheduler.dataDir}/scheduler`;
  for (const name of await readdir(folder)) {
    if (!name.startsWith('capstan.db')) continue;
    t.false((await readFile(`${folder}/${name}`)).includes('needle-in-the-file'), name);
  }
});

test('chunks reach the reader, the rest comes with the end, and then nothing', async (t) => {
  const { scheduler, endpoint, session } = await ready(t);
  const channel = scheduler.channel();
  await channel.ask(endpoint, submit('gen'));
  const { jobId, token } = await session.take('dispatch');
  const chunk = (index: number) =>
    ({ $case: 'chunk', value: { jobId, token, index, data: { body: { $case: 'inline', value: Buffer.from(String(index)) } } } }) as const;
  // As a gateway reads: the position of the last reply shows what arrived.
  const read = (waitMs: number, nextIndex?: number) => {
    const after = nextIndex === undefined ? {} : { after: { token, nextIndex } };
    return channel.ask(endpoint, { $case: 'stream', value: { jobId, waitMs, exact: false, ...after } });
  };
  const reading = read(10_000);
  session.send({ $case: 'started', value: { jobId, token, agoMs: 0 } }, chunk(0));
  t.deepEqual(texts(await reading), ['0']);
  t.deepEqual(texts(await read(0, 1)), []);
  t.is((await session.take('drained')).nextIndex, 1);
  session.send(chunk(1), chunk(2));
  complete(session, { jobId, token } as Dispatch);
  await session.take('ack');
  const rest = await read(0, 1);
  t.deepEqual(texts(rest), ['1', '2']);
  t.is(rest.result?.$case === 'stream' ? rest.result.value.state : '', JobState.COMPLETED);
  t.deepEqual(texts(await read(0, 3)), []);
});

test('purge ends every queued job and leaves the running one', async (t) => {
  const { scheduler, endpoint, session } = await ready(t);
  const channel = scheduler.channel();
  for (const id of ['running', 'q1', 'q2']) await channel.ask(endpoint, submit(id));
  const running = await session.take('dispatch');
  const token = scheduler.bearer(scheduler.secret('gateway-token'));
  const { removed } = await unary<{ removed: number }>((done) => scheduler.jobs.purgeQueue({ endpointId: endpoint }, token, done));
  t.is(removed, 2);
  t.is(jobOf(t, await channel.ask(endpoint, { $case: 'get', value: { jobId: 'q1', waitMs: 0 } })).state, JobState.CANCELLED);
  complete(session, running);
  await session.take('ack');
  t.is(jobOf(t, await channel.ask(endpoint, { $case: 'get', value: { jobId: 'running', waitMs: 0 } })).state, JobState.COMPLETED);
});

test('retry puts a failed job back with the same id and forgets its result', async (t) => {
  const { scheduler, endpoint, session } = await ready(t);
  const channel = scheduler.channel();
  await channel.ask(endpoint, submit('again'));
  complete(session, await session.take('dispatch'), { outcome: AttemptOutcome.FAILED, error: 'boom' });
  await session.take('ack');
  const token = scheduler.bearer(scheduler.secret('gateway-token'));
  t.is(jobOf(t, await channel.ask(endpoint, { $case: 'get', value: { jobId: 'again', waitMs: 0 } })).error, 'boom');
  t.is((await unary<Job>((done) => scheduler.jobs.retry({ endpointId: endpoint, jobId: 'again' }, token, done))).state, JobState.IN_QUEUE);
  const second = await session.take('dispatch');
  t.is(second.token, 3);
  complete(session, second);
  await session.take('ack');
  const job = jobOf(t, await channel.ask(endpoint, { $case: 'get', value: { jobId: 'again', waitMs: 0 } }));
  t.is(job.state, JobState.COMPLETED);
  t.is(job.error, undefined);
  t.is(job.retries, 0);
  const conflict = await t.throwsAsync<CapstanError>(
    unary<Job>((done) => scheduler.jobs.retry({ endpointId: endpoint, jobId: 'again' }, token, done)),
  );
  t.is(conflict.code, 'CONFLICT');
});

test('a job that is retried while its last attempt still holds a slot takes a second one', async (t) => {
  const { scheduler, endpoint, session } = await ready(t, {}, { maxConcurrency: 2, workersMax: 1 });
  const channel = scheduler.channel();
  await channel.ask(endpoint, submit('slow'));
  const first = await session.take('dispatch');
  complete(session, first, { outcome: AttemptOutcome.TIMED_OUT, error: 'executionTimeout exceeded', slotHeld: true });
  await session.take('ack');
  const token = scheduler.bearer(scheduler.secret('gateway-token'));
  await unary<Job>((done) => scheduler.jobs.retry({ endpointId: endpoint, jobId: 'slow' }, token, done));
  const second = await session.take('dispatch');
  t.is(second.jobId, 'slow');
  await channel.ask(endpoint, submit('next'));
  await channel.ask(endpoint, submit('last'));
  session.send({ $case: 'heartbeat', value: {} });
  await session.take('heartbeat');
  t.false(
    session.received.some(({ event }) => event?.$case === 'dispatch'),
    'both slots are held',
  );
  complete(session, second);
  t.is((await session.take('dispatch')).jobId, 'next');
  complete(session, first, { outcome: AttemptOutcome.TIMED_OUT, error: 'executionTimeout exceeded' });
  t.is((await session.take('dispatch')).jobId, 'last');
});
