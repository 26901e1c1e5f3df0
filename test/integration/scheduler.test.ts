/** The scheduler over real gRPC, its agent and gateway played by the test. */
import test, { type ExecutionContext } from 'ava';

import { JobKind, JobState, WorkerState } from '../../proto/gen/capstan/v1/common.ts';
import type { Job, JobReply, Submit } from '../../proto/gen/capstan/v1/jobs.ts';
import {
  AttemptOutcome,
  CallStyle,
  RefusalReason,
  StopReason,
  type Dispatch,
  type FunctionSpec,
  WorkerStatus,
} from '../../proto/gen/capstan/v1/nodes.ts';
import type { CapstanError } from '../../lib/errors.ts';
import { fromServiceError } from '../../lib/grpc-errors.ts';
import { readConfig } from '../../scheduler/config.ts';
import { until } from '../support/until.ts';
import { TestScheduler, unary, type TestNode, type TestSession } from '../support/scheduler-client.ts';
import type { GatewayNotice } from '../../proto/gen/capstan/v1/invoke.ts';

async function open(t: ExecutionContext, settings: Record<string, unknown> = {}): Promise<TestScheduler> {
  const scheduler = await TestScheduler.open(settings);
  t.teardown(() => scheduler.close());
  return scheduler;
}

function submit(jobId: string, more: Partial<Submit> = {}): { $case: 'submit'; value: Submit } {
  const input = { body: { $case: 'inline', value: Buffer.from('{"n":1}') } } as const;
  return {
    $case: 'submit',
    value: { jobId, kind: JobKind.RUN, input, webhook: '', idempotencyKey: '', bodyHash: Buffer.alloc(0), waitMs: 0, ...more },
  };
}

function jobOf(t: ExecutionContext, reply: JobReply): Job {
  if (reply.result?.$case === 'job') return reply.result.value;
  t.fail(`not a job: ${JSON.stringify(reply.result)}`);
  throw new Error('not a job');
}

function complete(session: TestSession, { jobId, token }: Dispatch, more: Record<string, unknown> = {}): void {
  const output = { body: { $case: 'inline', value: Buffer.from('"done"') } } as const;
  session.send(
    { $case: 'started', value: { jobId, token, agoMs: 0 } },
    {
      $case: 'ended',
      value: {
        jobId,
        token,
        outcome: AttemptOutcome.COMPLETED,
        output,
        error: '',
        executionMs: 5,
        agoMs: 0,
        started: true,
        chunks: 0,
        slotHeld: false,
        ...more,
      },
    },
  );
}

/** A scheduler with one endpoint, one node and one ready worker. */
async function ready(
  t: ExecutionContext,
  settings: Record<string, unknown> = {},
  spec = {},
): Promise<{ scheduler: TestScheduler; endpoint: string; node: TestNode; session: TestSession; worker: string }> {
  const scheduler = await open(t, settings);
  const { endpoints } = await scheduler.deploy([{ name: 'echo', workersMin: 1, ...spec }]);
  const endpoint = endpoints[0]?.id ?? '';
  const node = await scheduler.join('host');
  const session = node.session();
  const [status] = await session.bringUp();
  return { scheduler, endpoint, node, session, worker: status?.workerId ?? '' };
}

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

test('two live agents with one identity: the second is refused', async (t) => {
  const { node, session } = await ready(t);
  const second = node.session({ incarnation: 'another' });
  t.is(((await second.ended) as CapstanError).code, 'ALREADY_EXISTS');
  session.send({ $case: 'heartbeat', value: {} });
  t.pass();
});

test('a heartbeat is answered, so that an idle session is heard on both sides', async (t) => {
  const { session } = await ready(t);
  session.send({ $case: 'heartbeat', value: {} });
  await session.take('heartbeat');
  t.pass();
});

/** A gateway's session: what it is told of removed nodes, one notice after another. */
function removedNodes(scheduler: TestScheduler): () => Promise<string[]> {
  const call = scheduler.gateways.session(scheduler.bearer(scheduler.secret('gateway-token')));
  call.on('error', () => undefined);
  const notices = (call as AsyncIterable<GatewayNotice>)[Symbol.asyncIterator]();
  call.write({ invokeAddress: '', httpUrl: '', levels: [], routes: [] });
  return async () => ((await notices.next()) as IteratorYieldResult<GatewayNotice>).value.removedNodes;
}

test('a removed node is told so by its own error, gateways by its id; another agent with its identity is refused while the first lives', async (t) => {
  const { scheduler, node, session } = await ready(t);
  const twin = node.session({ incarnation: 'another' });
  t.is(fromServiceError(await twin.ended).code, 'ALREADY_EXISTS');
  const key = scheduler.bearer(scheduler.secret('api-key'));
  const told = removedNodes(scheduler);
  t.deepEqual(await told(), []);
  const refused = await t.throwsAsync<CapstanError>(
    unary((done) => scheduler.control.removeNode({ nodeId: node.id, force: false }, key, done)),
  );
  t.is(refused.code, 'CONFLICT');
  await unary((done) => scheduler.control.removeNode({ nodeId: node.id, force: true }, key, done));
  await session.ended;
  t.deepEqual(await told(), [node.id]);
  const back = fromServiceError(await node.session().ended);
  t.deepEqual([back.code, back.message], ['NODE_REMOVED', 'the node host was removed']);
  await scheduler.restart();
  t.is(fromServiceError(await node.session().ended).code, 'NODE_REMOVED');
  // Also one that comes later: a token of the node may still be good.
  t.deepEqual(await removedNodes(scheduler)(), [node.id]);
});

test('join tokens are listed by id, never by their text, and can be used up and revoked', async (t) => {
  const scheduler = await open(t);
  const key = scheduler.bearer(scheduler.secret('api-key'));
  const { joinToken, id } = await unary<{ joinToken: string; id: string }>((done) =>
    scheduler.control.createJoinToken({ name: 'rack', expiresInS: 60, maxUses: 1, neverExpires: false }, key, done),
  );
  await unary((done) => scheduler.nodes.join({ joinToken, name: 'x' }, done));
  const again = await t.throwsAsync<CapstanError>(unary((done) => scheduler.nodes.join({ joinToken, name: 'y' }, done)));
  t.is(again.code, 'UNAUTHENTICATED');
  const { tokens } = await unary<{ tokens: { id: string; uses: number }[] }>((done) =>
    scheduler.control.listJoinTokens({ afterId: '', limit: 0 }, key, done),
  );
  t.is(tokens.find((token) => token.id === id)?.uses, 1);
  t.false(JSON.stringify(tokens, (_key, value: unknown) => (typeof value === 'bigint' ? Number(value) : value)).includes(joinToken));
  await unary((done) => scheduler.control.revokeJoinToken({ id }, key, done));
  const after = await unary<{ tokens: { id: string }[] }>((done) => scheduler.control.listJoinTokens({ afterId: '', limit: 0 }, key, done));
  t.false(after.tokens.some((token) => token.id === id));
});

test('nothing is served without the right credential', async (t) => {
  const scheduler = await open(t);
  const calls = [
    () => unary((done) => scheduler.control.listEndpoints({ environment: '' }, scheduler.bearer('wrong'), done)),
    () => unary((done) => scheduler.jobs.getHealth({ endpointId: 'x' }, scheduler.bearer(scheduler.secret('api-key')), done)),
    () => unary((done) => scheduler.nodes.join({ joinToken: 'wrong', name: 'x' }, done)),
  ];
  const codes: string[] = [];
  for (const call of calls) codes.push((await t.throwsAsync<CapstanError>(call())).code);
  t.deepEqual(codes, ['UNAUTHENTICATED', 'PERMISSION_DENIED', 'UNAUTHENTICATED']);
});

test('rate limits are settings of the account and of an endpoint, and a refusal says when to come back', async (t) => {
  const { scheduler, endpoint } = await ready(t, { rateLimits: 'run=2/0', requestsPerWorker: 0 });
  const { endpoints } = await scheduler.deploy([{ name: 'open', rateLimits: { run: { requests: 0, concurrent: 0 } } }]);
  const channel = scheduler.channel();
  for (const id of ['a', 'b']) t.is(jobOf(t, await channel.ask(endpoint, submit(id))).id, id);
  const refused = await channel.ask(endpoint, submit('c'));
  if (refused.result?.$case !== 'failure') return t.fail('the third was let in');
  t.is(refused.result.value.code, 'RATE_LIMITED');
  t.true(refused.result.value.retryAfterMs > 0 && refused.result.value.retryAfterMs <= 10_000);
  for (const id of ['d', 'e', 'f']) t.is(jobOf(t, await channel.ask(endpoints[0]?.id ?? '', submit(id))).id, id);
});

test('a wrong rate limit is refused by name', (t) => {
  for (const value of ['run', 'run=1', 'walk=1/1', 'run=-1/2']) {
    const error = t.throws(() => readConfig({ dataDir: '.' }, { CAPSTAN_RATE_LIMITS: value }));
    t.regex(error.message, /^CAPSTAN_RATE_LIMITS: .* must be <operation>=<requests>\/<concurrent>/);
  }
});

test('a deployment past the quota changes nothing and says by how much', async (t) => {
  const scheduler = await open(t, { workerQuota: 5 });
  await scheduler.deploy([{ name: 'one', workersMax: 3 }]);
  const error = await t.throwsAsync<CapstanError>(
    scheduler.deploy([
      { name: 'two', workersMax: 2 },
      { name: 'three', workersMax: 1 },
    ]),
  );
  t.is(error.code, 'QUOTA_EXCEEDED');
  t.regex(error.message, /would be 6, the account's quota is 5/);
  const { endpoints } = await unary<{ endpoints: unknown[] }>((done) =>
    scheduler.control.listEndpoints({ environment: '' }, scheduler.bearer(scheduler.secret('api-key')), done),
  );
  t.is(endpoints.length, 1);
});

test('a deployment that breaks a rule is refused by field and rule', async (t) => {
  const scheduler = await open(t);
  const fn: FunctionSpec = { name: 'f', module: 'm', parameters: [], callStyle: CallStyle.WHOLE };
  const tooLarge = { name: 'p', required: true, type: 'object', schema: 'x'.repeat(65_537) };
  const cases: [Parameters<TestScheduler['deploy']>[0], RegExp][] = [
    [[], /endpoints: must contain at least one/],
    [[{ name: 'bad name' }], /"bad name" must be 1 to 64/],
    [[{ name: 'a' }, { name: 'a' }], /a: is listed twice/],
    [[{ name: 'a', functions: [fn, { ...fn, name: 'g' }] }], /exactly one function, not 2/],
    [
      [
        { name: 'a', functions: [fn] },
        { name: 'b', functions: [fn] },
      ],
      /function f is also defined by a/,
    ],
    [
      [{ name: 'a', functions: [{ ...fn, classSpec: { methods: [{ name: 'm', callStyle: CallStyle.WHOLE, parameters: [tooLarge] }] } }] }],
      /^a.functions: must have schemas of at most 65536 characters for each parameter/,
    ],
    [[{ name: 'a', workersMin: 3, workersMax: 2 }], /a.workersMin: must be at most workersMax/],
    [[{ name: 'a', gpuIds: 'ANY', cpu: 'cpu3c-4-8' }], /^a.cpu: gpuIds and cpu are mutually exclusive/],
    [[{ name: 'a', env: { 'A=B': 'x' } }], /^a.env\["A=B"\]: must be a name of letters, digits and underscores$/],
    [[{ name: 'a', env: { '': 'x' } }], /^a.env\[""\]: must be a name of letters, digits and underscores$/],
    [[{ name: 'a', env: { A: 's3cret\0' } }], /^a.env.A: must not contain the character NUL$/],
    [[{ name: 'a', env: { A: 's'.repeat(131_070) } }], /^a.env.A: must have at most 131070 bytes, including its name$/],
    [
      [{ name: 'a', env: Object.fromEntries(Array.from({ length: 11 }, (_, i) => [`A${i}`, 's'.repeat(100_000)])) }],
      /^a.env: must have at most 1048576 bytes in total$/,
    ],
    [[{ name: 'a', idleTimeoutS: 0 }], /^a.idleTimeout: must be an integer between 1 and 3600 s, not 0$/],
    [
      [{ name: 'a', executionTimeoutMs: 4_999 }],
      /^a.executionTimeoutMs: must be 0 \(the service's default\) or between 5000 and 604800000 ms, not 4999$/,
    ],
    [[{ name: 'a', scalerValue: 10_001 }], /^a.scalerValue: must be an integer between 1 and 10000, not 10001$/],
    [[{ name: 'a', requestsPerWorker: 1_000_001 }], /^a.requestsPerWorker: must be an integer between 0 and 1000000, not 1000001$/],
    [
      [{ name: 'a', rateLimits: { run: { requests: 1, concurrent: 1_000_001 } } }],
      /^a.rateLimits.run.concurrent: must be an integer between 0 and 1000000, not 1000001$/,
    ],
  ];
  for (const [endpoints, message] of cases) {
    const error = await t.throwsAsync<CapstanError>(scheduler.deploy(endpoints));
    t.is(error.code, 'INVALID_ARGUMENT');
    t.regex(error.message, message);
  }
});

function texts(reply: JobReply): string[] {
  if (reply.result?.$case !== 'stream') throw new Error(`not a stream: ${JSON.stringify(reply.result)}`);
  return reply.result.value.chunks.map(({ body }) => (body?.$case === 'inline' ? body.value.toString() : ''));
}

function statusOf(workerId: string, endpointId: string): WorkerStatus {
  return WorkerStatus.fromPartial({ workerId, endpointId, state: WorkerState.IDLE });
}

/** Opens a session, again while the scheduler has not noticed yet that the last one is gone. */
async function reopen(node: TestNode, hello: Parameters<TestNode['session']>[0]): Promise<TestSession> {
  for (;;) {
    const session = node.session(hello);
    const first = await Promise.race([session.take('welcome').then(() => true), session.ended.then(() => false)]);
    if (first) return session;
  }
}
