/** Hostile messages on every stream that the scheduler reads: they end their own stream at most, and it serves on. */
import { Client, credentials, type Metadata } from '@grpc/grpc-js';
import test, { type ExecutionContext } from 'ava';
import { pino } from 'pino';

import { JobKind, JobState } from '../../../proto/gen/capstan/v1/common.ts';
import { AgentMessage, AttemptOutcome } from '../../../proto/gen/capstan/v1/nodes.ts';
import { HostileMessages, seedOf } from '../../support/hostile-messages.ts';
import { TestScheduler, unary, type TestNode, type TestSession } from '../../support/scheduler-client.ts';

/** Messages of each branch. */
const COUNT = 60;
/** A scheduler that no longer dispatches fails its test instead of keeping the run. */
const LIMIT_MS = 90_000;

interface World {
  readonly scheduler: TestScheduler;
  readonly endpoint: string;
  readonly node: TestNode;
  /** Lines of the log at the level error. */
  readonly errors: string[];
  /** Failures of the store, which end the process. */
  readonly fatal: unknown[];
  readonly client: Client;
}

async function world(t: ExecutionContext): Promise<World> {
  const errors: string[] = [];
  const log = pino({ level: 'error' }, { write: (line: string) => void errors.push(line) });
  const fatal: unknown[] = [];
  const scheduler = await TestScheduler.open({}, { log, onFatal: (error) => void fatal.push(error) });
  const client = new Client(scheduler.handle.address, credentials.createInsecure());
  t.teardown(async () => {
    client.close();
    await scheduler.close();
  });
  const { endpoints } = await scheduler.deploy([{ name: 'echo', workersMin: 1, workersMax: 2 }]);
  const node = await scheduler.join('honest');
  return { scheduler, endpoint: endpoints[0]?.id ?? '', node, errors, fatal, client };
}

/** One raw stream; resolves when the scheduler has ended it or has read what was sent. */
function send(client: Client, path: string, metadata: Metadata, messages: readonly Buffer[]): Promise<void> {
  return new Promise((resolve) => {
    const call = client.makeBidiStreamRequest(
      path,
      (same: Buffer) => same,
      (same: Buffer) => same,
      metadata,
    );
    call.on('data', () => undefined);
    call.on('error', () => undefined);
    call.once('status', () => resolve());
    for (const message of messages) call.write(message);
    call.end();
  });
}

/** Everything that operators and callers read still answers, and a job still runs from end to end. */
async function serves(t: ExecutionContext, { scheduler, endpoint, node, errors, fatal }: World, what: string): Promise<void> {
  t.deepEqual(fatal, []);
  t.deepEqual(errors, []);
  const key = scheduler.bearer(scheduler.secret('api-key'));
  const gateway = scheduler.bearer(scheduler.secret('gateway-token'));
  await unary((done) => scheduler.control.listNodes({ afterId: '', limit: 0 }, key, done));
  await unary((done) => scheduler.control.listWorkers({ endpointId: '' }, key, done));
  await unary((done) => scheduler.control.listEndpoints({ environment: '' }, key, done));
  await unary((done) => scheduler.control.getEndpoint({ endpointId: endpoint }, key, done));
  await unary((done) => scheduler.control.getMetrics({}, gateway, done));
  await unary((done) => scheduler.jobs.getHealth({ endpointId: endpoint }, gateway, done));
  const session = node.session();
  const channel = scheduler.channel();
  try {
    await session.bringUp();
    const reply = await runJob(channel, session, endpoint, `after-${what}-${Math.random()}`);
    t.is(reply, JobState.COMPLETED, what);
  } finally {
    session.close();
    channel.end();
  }
}

async function runJob(
  channel: ReturnType<TestScheduler['channel']>,
  session: TestSession,
  endpoint: string,
  jobId: string,
): Promise<unknown> {
  const answered = channel.ask(endpoint, { $case: 'submit', value: submitOf(jobId, 60_000) });
  const dispatch = await session.take('dispatch');
  session.send({
    $case: 'ended',
    value: {
      jobId: dispatch.jobId,
      token: dispatch.token,
      outcome: AttemptOutcome.COMPLETED,
      output: { body: { $case: 'inline', value: Buffer.from('1') } },
      error: '',
      executionMs: 1,
      agoMs: 0,
      started: true,
      chunks: 0,
      slotHeld: false,
    },
  });
  const { result } = await answered;
  return result?.$case === 'job' ? result.value.state : result;
}

function submitOf(jobId: string, waitMs: number) {
  return {
    jobId,
    kind: JobKind.RUNSYNC,
    input: { body: { $case: 'inline' as const, value: Buffer.from('{}') } },
    webhook: '',
    idempotencyKey: '',
    bodyHash: Buffer.alloc(0),
    waitMs,
  };
}

test('gateways', async (t) => {
  t.timeout(LIMIT_MS);
  const here = await world(t);
  const { scheduler, endpoint, client } = here;
  const messages = new HostileMessages(
    seedOf((text) => t.log(text)),
    [endpoint, here.node.id, 'job-1', 'after'],
  );
  const gateway = scheduler.bearer(scheduler.secret('gateway-token'));
  for (const path of ['/capstan.v1.JobService/Channel', '/capstan.v1.GatewayService/Session']) {
    const all = [...messages.of(path, 'client', COUNT)].map(({ bytes }) => bytes);
    await send(client, path, gateway, all);
    // One stream each, too: none is kept from being read by the one before it.
    for (const bytes of all.slice(0, COUNT)) await send(client, path, gateway, [bytes]);
    // Endpoints that do not exist have no queue; those that do have jobs now, which are not waited for.
    await unary((done) => scheduler.jobs.purgeQueue({ endpointId: endpoint }, gateway, done));
    await serves(t, here, path);
  }
});

test('uploads', async (t) => {
  t.timeout(LIMIT_MS);
  const here = await world(t);
  const messages = new HostileMessages(
    seedOf((text) => t.log(text)),
    [],
  );
  const path = '/capstan.v1.BlobService/Put';
  const all = [...messages.of(path, 'client', COUNT)].map(({ bytes }) => bytes);
  const gateway = here.scheduler.bearer(here.scheduler.secret('gateway-token'));
  for (let at = 0; at < all.length; at += 1) await send(here.client, path, gateway, all.slice(at, at + 3));
  await serves(t, here, path);
});

test('nodes', async (t) => {
  t.timeout(LIMIT_MS);
  const here = await world(t);
  const { scheduler, endpoint, client } = here;
  const path = '/capstan.v1.NodeService/Session';
  const hostile = await scheduler.join('hostile');
  const channel = scheduler.channel();
  t.teardown(() => channel.end());
  for (let round = 0; round < 4; round += 1) {
    // A worker, and jobs that are leased to it, so that the messages speak of what is there.
    const session = hostile.session({ incarnation: `round-${round}` });
    const [worker] = await session.bringUp();
    const jobId = `held-${round}`;
    void channel.ask(endpoint, { $case: 'submit', value: submitOf(jobId, 60_000) });
    const { token } = await session.take('dispatch');
    void channel.ask(endpoint, { $case: 'stream', value: { jobId, waitMs: 60_000, exact: false } });
    const messages = new HostileMessages(
      seedOf((text) => t.log(text)),
      [jobId, jobId, worker?.workerId ?? '', worker?.releaseId ?? '', endpoint, hostile.id, `round-${round}`],
    );
    t.is(token, 1);
    const all = [...messages.of(path, 'client', COUNT)];
    // Within the honest session first: it speaks for the lease.
    for (const { bytes } of all) session.call.write(decoded(bytes));
    session.call.end();
    await session.ended;
    session.close();
    await send(
      client,
      path,
      hostile.credentials,
      all.map(({ bytes }) => bytes),
    );
    for (const { bytes } of all.filter(({ branch }) => branch === 'hello')) await send(client, path, hostile.credentials, [bytes, bytes]);
    const gateway = scheduler.bearer(scheduler.secret('gateway-token'));
    await unary((done) => scheduler.jobs.cancel({ endpointId: endpoint, jobId }, gateway, done)).catch(() => undefined);
  }
  const operator = scheduler.bearer(scheduler.secret('api-key'));
  await unary((done) => scheduler.control.listNodes({ afterId: '', limit: 0 }, operator, done));
  await unary((done) => scheduler.control.removeNode({ nodeId: hostile.id, force: true }, operator, done));
  await serves(t, here, path);
});

/** What the typed session of the test can write; a message that is none becomes one without an event. */
function decoded(bytes: Buffer): AgentMessage {
  try {
    return AgentMessage.decode(bytes);
  } catch {
    return { events: [{}] };
  }
}
