/** Bodies in the blob store go soon after their job, and not before (real gRPC; agent and gateway played by the test). */
import { readdirSync } from 'node:fs';
import { join } from 'node:path';

import test, { type ExecutionContext } from 'ava';

import { JobKind } from '../../proto/gen/capstan/v1/common.ts';
import type { Job, JobReply, Submit } from '../../proto/gen/capstan/v1/jobs.ts';
import { AttemptOutcome, type Dispatch } from '../../proto/gen/capstan/v1/nodes.ts';
import { TestScheduler, unary, type TestChannel, type TestSession } from '../support/scheduler-client.ts';
import { until } from '../support/until.ts';

const bytes = Buffer.alloc(100_000, ' ');

interface World {
  readonly scheduler: TestScheduler;
  readonly endpoint: string;
  readonly channel: TestChannel;
  readonly session: TestSession;
}

async function open(t: ExecutionContext, runRetentionMs = 1_800_000, workers = 1): Promise<World> {
  const scheduler = await TestScheduler.open({ runRetentionMs }, { bodyWaitMs: 50 });
  t.teardown(() => scheduler.close());
  const { endpoints } = await scheduler.deploy([{ name: 'echo', workersMin: workers, workersMax: workers }]);
  const session = (await scheduler.join('host')).session();
  if (workers > 0) await session.bringUp();
  return { scheduler, endpoint: endpoints[0]?.id ?? '', channel: scheduler.channel(), session };
}

const body = (id: string) => ({ body: { $case: 'blob', value: { id, size: bytes.length } } }) as const;

function submit(jobId: string, input: string, more: Partial<Submit> = {}): { $case: 'submit'; value: Submit } {
  const value = {
    jobId,
    kind: JobKind.RUN,
    input: body(input),
    webhook: '',
    idempotencyKey: '',
    bodyHash: Buffer.alloc(0),
    waitMs: 0,
    ...more,
  };
  return { $case: 'submit', value };
}

/** Ids of the bodies on the disk. */
function stored({ scheduler }: World): string[] {
  const root = join(scheduler.dataDir, 'scheduler/blobs/body');
  return readdirSync(root)
    .flatMap((fan) => readdirSync(join(root, fan)).map((name) => `body/${name}`))
    .toSorted();
}

const left = (world: World, ids: readonly string[]): Promise<true> =>
  until(`the bodies left are ${ids.length}`, () => stored(world).join() === ids.toSorted().join());

function end({ session }: World, { jobId, token }: Dispatch, output: string, outcome: AttemptOutcome = AttemptOutcome.COMPLETED): void {
  const value = {
    jobId,
    token,
    outcome,
    output: body(output),
    error: 'e',
    executionMs: 5,
    agoMs: 0,
    started: true,
    chunks: 0,
    slotHeld: false,
  };
  session.send({ $case: 'started', value: { jobId, token, agoMs: 0 } }, { $case: 'ended', value });
}

const failureOf = ({ result }: JobReply): string => (result?.$case === 'failure' ? result.value.code : 'none');

test('input, output and chunks go after the retention of their job', async (t) => {
  const world = await open(t, 3_000);
  const { scheduler, endpoint, channel, session } = world;
  const [input, output, chunk, other] = await Promise.all([1, 2, 3, 4].map(() => scheduler.putBody(bytes)));
  await channel.ask(endpoint, submit('a', input ?? ''));
  const dispatch = await session.take('dispatch');
  session.send({ $case: 'started', value: { jobId: 'a', token: dispatch.token, agoMs: 0 } });
  session.send({ $case: 'chunk', value: { jobId: 'a', token: dispatch.token, index: 0, data: body(chunk ?? '') } });
  end(world, dispatch, output ?? '');
  await session.take('ack');
  t.is(stored(world).length, 4);
  await until(
    'the job is gone',
    async () => failureOf(await channel.ask(endpoint, { $case: 'get', value: { jobId: 'a', waitMs: 0 } })) === 'NOT_FOUND',
  );
  // What was put and is not in a row yet is left to the sweep of orphans.
  await left(world, [other ?? '']);
});

test('a retried job keeps its input and loses its output', async (t) => {
  const world = await open(t);
  const { scheduler, endpoint, channel, session } = world;
  const [input, first, second] = await Promise.all([1, 2, 3].map(() => scheduler.putBody(bytes)));
  await channel.ask(endpoint, submit('a', input ?? ''));
  end(world, await session.take('dispatch'), first ?? '', AttemptOutcome.FAILED);
  await session.take('ack');
  await unary<Job>((done) =>
    scheduler.jobs.retry({ endpointId: endpoint, jobId: 'a' }, scheduler.bearer(scheduler.secret('gateway-token')), done),
  );
  end(world, await session.take('dispatch'), second ?? '');
  await session.take('ack');
  await left(world, [input ?? '', second ?? '']);
  t.pass();
});

test('the bodies of refused submissions and of late results go; those that a row names stay', async (t) => {
  const world = await open(t);
  const { scheduler, endpoint, channel, session } = world;
  const [first, again, unknown, loopback, output, late] = await Promise.all([1, 2, 3, 4, 5, 6].map(() => scheduler.putBody(bytes)));
  const key = { idempotencyKey: 'k', bodyHash: Buffer.alloc(32, 1) };
  await channel.ask(endpoint, submit('a', first ?? '', key));
  await channel.ask(endpoint, submit('b', again ?? '', key));
  t.is(failureOf(await channel.ask('unknown', submit('c', unknown ?? ''))), 'NOT_FOUND');
  t.is(failureOf(await channel.ask(endpoint, submit('d', loopback ?? '', { webhook: 'http://127.0.0.1/' }))), 'INVALID_ARGUMENT');
  // The same submission again, whatever the gateway says of it: the row names its body.
  await channel.ask(endpoint, submit('a', first ?? '', key));
  await channel.ask(endpoint, submit('a', first ?? '', key), true);
  const dispatch = await session.take('dispatch');
  end(world, dispatch, output ?? '');
  await session.take('ack');
  end(world, dispatch, late ?? '');
  end(world, dispatch, output ?? '');
  await session.take('ack');
  await left(world, [first ?? '', output ?? '']);
  t.pass();
});

test('a submission that is sent again keeps its body, or learns that it is gone', async (t) => {
  const world = await open(t, 1_800_000, 0);
  const { scheduler, endpoint, channel } = world;
  const refused = await scheduler.putBody(bytes);
  await channel.ask('unknown', submit('a', refused));
  await left(world, []);
  t.is(failureOf(await channel.ask(endpoint, submit('a', refused), true)), 'NOT_FOUND');
  const kept = await scheduler.putBody(bytes);
  t.is(failureOf(await channel.ask(endpoint, submit('b', kept), true)), 'none');
  await channel.ask(endpoint, submit('c', await scheduler.putBody(bytes), { policy: { ttlMs: 1, lowPriority: false } }));
  await left(world, [kept]);
});
