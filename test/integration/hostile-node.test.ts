/** A node that joined with a valid token and then asserts what it was not given: it affects only what the scheduler placed on it. */
import { createHash } from 'node:crypto';

import type { Metadata } from '@grpc/grpc-js';
import test, { type ExecutionContext } from 'ava';
import { pino } from 'pino';
import { Agent } from 'undici';

import { readConfig } from '../../gateway/config.ts';
import { start } from '../../gateway/assembly/start.ts';
import type { CapstanError } from '../../lib/errors.ts';
import { BlobPurpose } from '../../proto/gen/capstan/v1/blobs.ts';
import { EndpointPatch } from '../../proto/gen/capstan/v1/control.ts';
import { EndpointKind, JobKind, JobState } from '../../proto/gen/capstan/v1/common.ts';
import { Submit, type JobReply } from '../../proto/gen/capstan/v1/jobs.ts';
import {
  AttemptEnded,
  AttemptOutcome,
  CallStyle,
  RefusalReason,
  WorkerStatus,
  type FunctionSpec,
  type LogLine,
} from '../../proto/gen/capstan/v1/nodes.ts';
import { FakeAgent } from '../gateway/fake-agent.ts';
import { answerTo, type HttpReply } from '../support/http-answer.ts';
import { buildDigest, TestScheduler, unary, type TestNode, type TestSession } from '../support/scheduler-client.ts';
import { until } from '../support/until.ts';

const fn: FunctionSpec = { name: 'fn', module: 'm.ts', parameters: [], callStyle: CallStyle.WHOLE };
const web = {
  kind: EndpointKind.LOAD_BALANCED,
  functions: [fn],
  routes: { 'GET /fn': 'fn' },
  maxConcurrency: 2,
};

interface World {
  readonly scheduler: TestScheduler;
  readonly lines: string[];
  call(endpoint: string): Promise<HttpReply>;
}

async function open(t: ExecutionContext): Promise<World> {
  const scheduler = await TestScheduler.open();
  t.teardown(() => scheduler.close());
  const lines: string[] = [];
  const log = pino({ level: 'warn' }, { write: (line: string) => void lines.push(line) });
  const settings = {
    port: 0,
    scheduler: scheduler.handle.address,
    token: scheduler.secret('gateway-token'),
    closeGraceMs: 0,
    lbHoldMs: 500,
  };
  const gateway = await start(readConfig(settings, {}), { log });
  t.teardown(async () => gateway.close());
  const dispatcher = new Agent();
  t.teardown(async () => dispatcher.destroy());
  const headers = { authorization: `Bearer ${scheduler.secret('api-key')}` };
  const call: World['call'] = async (endpoint) => answerTo(`${gateway.url}/lb/${endpoint}/fn`, { method: 'GET', headers, dispatcher });
  return { scheduler, lines, call };
}

interface Joined {
  readonly node: TestNode;
  readonly session: TestSession;
  readonly agent: FakeAgent;
}

/** A node with its session and its stream to the gateway, by the token that the scheduler gave it. */
async function join(t: ExecutionContext, scheduler: TestScheduler, name: string): Promise<Joined> {
  const node = await scheduler.join(name);
  const session = node.session();
  for (;;) {
    const { gateways } = await session.take('gateways');
    const [gateway] = gateways;
    if (gateway === undefined) continue;
    const agent = new FakeAgent(t, gateway.address, node.id, gateway.token);
    return { node, session, agent };
  }
}

test('a node that announces an endpoint it was not given gets none of its requests, and is logged once', async (t) => {
  const { scheduler, lines, call } = await open(t);
  const { endpoints } = await scheduler.deploy([{ ...web, name: 'victim', workersMax: 1 }]);
  const victim = endpoints[0]?.id ?? '';
  const honest = await join(t, scheduler, 'honest');
  const waiting = until('the honest node serves', async () => (await call(victim)).status === 200);
  const [worker] = await honest.session.bringUp();
  const release = worker?.releaseId ?? '';
  honest.agent.onRequest = ({ answer }) => answer(200, 'honest');
  honest.agent.announceWorkers([{ workerId: worker?.workerId ?? '', endpointId: victim, releaseId: release, slots: 2, functions: ['fn'] }]);
  await waiting;

  const hostile = await join(t, scheduler, 'hostile');
  hostile.agent.onRequest = ({ answer }) => answer(200, 'hostile');
  const claim = { endpointId: victim, releaseId: release, slots: 1_000, functions: ['fn'] };
  // A worker of its own invention, and the one of the other node.
  for (const workers of [[{ ...claim, workerId: 'invented' }], [{ ...claim, workerId: worker?.workerId ?? '' }]]) {
    for (let again = 0; again < 3; again += 1) hostile.agent.announceWorkers(workers);
    for (let each = 0; each < 20; each += 1) t.is((await call(victim)).text, 'honest');
  }
  t.is(hostile.agent.taken.items.length, 0);
  const rejections = (): string[] => lines.filter((line) => line.includes('announced worker rejected'));
  await until('the claim to the worker of another node is logged', () => rejections().length > 0);
  t.is(rejections().length, 1, rejections().join(''));
  t.true(rejections()[0]?.includes(hostile.node.id));

  // The endpoint has no worker any more: its requests wait, and no other node is asked.
  honest.agent.break();
  hostile.agent.announceWorkers([{ ...claim, workerId: 'invented' }]);
  t.is((await call(victim)).status, 503);
  t.is(hostile.agent.taken.items.length, 0);
});

const spec = { name: 'queue', functions: [fn], workersMax: 1, workersMin: 1 };

/** A scheduler with two nodes; the worker of the endpoint is on the first. */
async function twoNodes(t: ExecutionContext): Promise<Pair> {
  const scheduler = await TestScheduler.open();
  t.teardown(() => scheduler.close());
  const { endpoints } = await scheduler.deploy([spec]);
  const honest = await scheduler.join('honest');
  const session = honest.session();
  const [worker] = await session.bringUp();
  const hostile = await scheduler.join('hostile');
  const other = hostile.session();
  await other.take('welcome');
  return { scheduler, endpoint: endpoints[0]?.id ?? '', worker: worker?.workerId ?? '', honest, session, hostile, other };
}

interface Pair {
  readonly scheduler: TestScheduler;
  readonly endpoint: string;
  readonly worker: string;
  readonly honest: TestNode;
  readonly session: TestSession;
  readonly hostile: TestNode;
  readonly other: TestSession;
}

/** Resolves when the scheduler has handled everything sent on the session before. */
async function handled(session: TestSession): Promise<void> {
  session.send({ $case: 'heartbeat', value: {} });
  await session.take('heartbeat');
}

function submit(scheduler: TestScheduler, endpointId: string, jobId: string, input: Buffer, waitMs = 0): Promise<JobReply> {
  const body = { body: { $case: 'inline', value: input } } as const;
  return scheduler
    .channel()
    .ask(endpointId, { $case: 'submit', value: Submit.fromPartial({ jobId, kind: JobKind.RUN, input: body, waitMs }) });
}

test('attempts, starts, ends and chunks of a job that another node has change nothing', async (t) => {
  const { scheduler, endpoint, worker, session, hostile, other } = await twoNodes(t);
  const jobId = 'job-1';
  await submit(scheduler, endpoint, jobId, Buffer.from('1'));
  const { token } = await session.take('dispatch');
  const forged = { body: { $case: 'inline', value: Buffer.from('"forged"') } } as const;
  const attempt = { jobId, token };
  other.send(
    { $case: 'started', value: { ...attempt, agoMs: 0 } },
    { $case: 'chunk', value: { ...attempt, index: 0, data: forged } },
    { $case: 'progress', value: { ...attempt, data: forged } },
    { $case: 'refused', value: { ...attempt, reason: RefusalReason.DRAINING, detail: '' } },
    { $case: 'ended', value: AttemptEnded.fromPartial({ ...attempt, outcome: AttemptOutcome.COMPLETED, output: forged, started: true }) },
    {
      $case: 'workers',
      value: { epoch: 99, workers: [WorkerStatus.fromPartial({ workerId: worker, endpointId: endpoint, failures: 9 })] },
    },
  );
  await handled(other);
  // A session that claims attempts on the worker of another node fills no slot of it.
  other.close();
  const attempts = ['a', 'b', 'c'].map((id) => ({ jobId: id, token: 1, workerId: worker, started: true, startedAgoMs: 0 }));
  const again = hostile.session({ attempts });
  await handled(again);
  const view = await scheduler.channel().ask(endpoint, { $case: 'get', value: { jobId, waitMs: 0 } });
  t.like(view.result, { $case: 'job', value: { state: JobState.IN_QUEUE } });
  const output = { body: { $case: 'inline', value: Buffer.from('"right"') } } as const;
  session.send({
    $case: 'ended',
    value: AttemptEnded.fromPartial({ ...attempt, outcome: AttemptOutcome.COMPLETED, output, started: true }),
  });
  await session.take('ack');
  await submit(scheduler, endpoint, 'job-2', Buffer.from('2'));
  t.is((await session.take('dispatch')).jobId, 'job-2');
});

test('an output that names a build, or a large one inline, fails its job', async (t) => {
  const { scheduler, endpoint, session } = await twoNodes(t);
  const outputs = [
    { body: { $case: 'blob', value: { id: `build/${buildDigest}`, size: 10 } } },
    { body: { $case: 'inline', value: Buffer.alloc(1024 * 1024, 0x31) } },
  ] as const;
  for (const [index, output] of outputs.entries()) {
    const jobId = `job-${index}`;
    const answered = submit(scheduler, endpoint, jobId, Buffer.from('1'), 20_000);
    const { token } = await session.take('dispatch');
    const ended = AttemptEnded.fromPartial({ jobId, token, outcome: AttemptOutcome.COMPLETED, output, started: true });
    session.send({ $case: 'ended', value: ended });
    const { result } = await answered;
    t.like(result, { $case: 'job', value: { state: JobState.FAILED, error: 'the agent reported an invalid output' } });
  }
});

test('a node reads the builds of its workers and the inputs of its jobs, and no other blob; it writes bodies alone', async (t) => {
  const { scheduler, endpoint, session, honest, hostile } = await twoNodes(t);
  const stat = async ({ credentials }: TestNode, id: string): Promise<string> =>
    unary<{ exists: boolean }>((done) => scheduler.blobs.stat({ id }, credentials, done)).then(
      ({ exists }) => String(exists),
      (error: CapstanError) => error.code,
    );
  const put = async (credentials: Metadata, purpose: BlobPurpose): Promise<string> => {
    const digest = createHash('sha256').update('{}').digest('hex');
    const reply = unary<{ id: string }>((done) => {
      const call = scheduler.blobs.put(credentials, done);
      call.on('error', () => undefined);
      call.write({ part: { $case: 'header', value: { purpose, size: 2, digest } } });
      call.end({ part: { $case: 'data', value: Buffer.from('{}') } });
    });
    return reply.then(
      ({ id }) => id,
      (error: CapstanError) => error.code,
    );
  };
  const build = `build/${buildDigest}`;
  t.is(await stat(honest, build), 'true');
  t.is(await stat(hostile, build), 'PERMISSION_DENIED');
  t.is(await put(hostile.credentials, BlobPurpose.BUILD), 'PERMISSION_DENIED');
  t.regex(await put(hostile.credentials, BlobPurpose.BODY), /^body\//);

  const id = await put(scheduler.bearer(scheduler.secret('gateway-token')), BlobPurpose.BODY);
  t.is(await stat(honest, id), 'PERMISSION_DENIED');
  const input = { body: { $case: 'blob', value: { id, size: 2 } } } as const;
  const value = Submit.fromPartial({ jobId: 'job-1', kind: JobKind.RUN, input });
  await scheduler.channel().ask(endpoint, { $case: 'submit', value });
  const { token } = await session.take('dispatch');
  t.is(await stat(honest, id), 'true');
  t.is(await stat(hostile, id), 'PERMISSION_DENIED');
  const ended = AttemptEnded.fromPartial({ jobId: 'job-1', token, outcome: AttemptOutcome.COMPLETED, started: true });
  session.send({ $case: 'ended', value: ended });
  await session.take('ack');
  t.is(await stat(honest, id), 'PERMISSION_DENIED');
});

test('logs are requested from nodes that run the endpoint, or ran it, and only lines of its workers there are shown', async (t) => {
  const { scheduler, endpoint, worker, session, honest, other } = await twoNodes(t);
  const metadata = scheduler.bearer(scheduler.secret('api-key'));
  const read = (workerId = '', limit = 5): Promise<string[]> =>
    unary<{ lines: LogLine[] }>((done) =>
      scheduler.control.getLogs({ endpointId: endpoint, workerId, limit, afterMs: 0n }, metadata, done),
    ).then(({ lines }) => lines.map(({ text }) => text));
  const line = (text: string, more: Partial<LogLine> = {}): LogLine => ({
    atMs: 1n,
    workerId: worker,
    jobId: '',
    stream: 'stdout',
    text,
    endpointId: endpoint,
    ...{ atUs: 1_000n, releaseId: '', attempt: 0, level: '', fields: '' },
    ...more,
  });
  const whole = { stoppedAtUs: 0n, error: '', failed: false };
  const answer = async (from: TestSession, lines: LogLine[]): Promise<void> => {
    const { requestId } = await from.take('logs');
    // Another node answers the same request first, and the right one answers twice.
    other.send({ $case: 'logs', value: { requestId, ...whole, lines: [line('forged')] } });
    await handled(other);
    from.send(
      { $case: 'logs', value: { requestId, ...whole, lines } },
      { $case: 'logs', value: { requestId, ...whole, lines: [line('again')] } },
    );
  };
  const [shown] = await Promise.all([
    read(),
    answer(session, [
      line('another endpoint', { endpointId: 'other' }),
      line('no such stream', { stream: 'x' }),
      line('no such time', { atMs: 9_000_000_000_000_000_000n }),
      line('right'),
      line(`\ud800${'x'.repeat(100_000)}`),
    ]),
  ]);
  t.is(shown[0], 'right');
  t.is(shown.length, 2);
  t.true(shown[1]?.isWellFormed() === true && shown[1].length < 20_000);
  const [many] = await Promise.all([
    read(worker, 3),
    answer(
      session,
      ['1', '2', '3', '4'].map((text) => line(text)),
    ),
  ]);
  t.deepEqual(many, ['2', '3', '4']);
  t.deepEqual(await read('invented'), []);
  t.false(
    other.received.some(({ event }) => event?.$case === 'logs'),
    'the node without the endpoint was asked',
  );

  // The worker is gone, and the scheduler was started again: its node still has the lines.
  await unary((done) =>
    scheduler.control.updateEndpoint(
      { endpointId: endpoint, patch: EndpointPatch.fromPartial({ workersMin: 0, workersMax: 0 }) },
      metadata,
      done,
    ),
  );
  for (;;) {
    const { epoch, workers } = await session.take('desired');
    if (!workers.every(({ drain }) => drain)) continue;
    session.send({ $case: 'workers', value: { epoch, workers: [] } });
    if (workers.length === 0) break;
  }
  await handled(session);
  await scheduler.restart();
  const later = honest.session({ incarnation: 'second' });
  await later.take('welcome');
  const [past] = await Promise.all([
    read(),
    later.take('logs').then(({ requestId }) => later.send({ $case: 'logs', value: { requestId, ...whole, lines: [line('past')] } })),
  ]);
  t.deepEqual(past, ['past']);
});
