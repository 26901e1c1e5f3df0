/** The scheduler keeps inputs in memory only for jobs that exist and have not ended (real gRPC; agent and gateway played by the test). */
import test, { type ExecutionContext } from 'ava';

import { JobKind, JobState } from '../../proto/gen/capstan/v1/common.ts';
import type { Job, Submit } from '../../proto/gen/capstan/v1/jobs.ts';
import { AttemptOutcome, type Dispatch } from '../../proto/gen/capstan/v1/nodes.ts';
import { TestScheduler, unary, type TestChannel } from '../support/scheduler-client.ts';
import { until } from '../support/until.ts';

interface World {
  readonly scheduler: TestScheduler;
  readonly endpoint: string;
  readonly channel: TestChannel;
}

async function open(t: ExecutionContext, workersMax: number): Promise<World> {
  const scheduler = await TestScheduler.open();
  t.teardown(() => scheduler.close());
  const { endpoints } = await scheduler.deploy([{ name: 'echo', workersMin: Math.min(1, workersMax), workersMax }]);
  return { scheduler, endpoint: endpoints[0]?.id ?? '', channel: scheduler.channel() };
}

function submit(jobId: string, more: Partial<Submit> = {}): { $case: 'submit'; value: Submit } {
  const input = { body: { $case: 'inline', value: Buffer.from('{"n":1}') } } as const;
  return {
    $case: 'submit',
    value: { jobId, kind: JobKind.RUN, input, webhook: '', idempotencyKey: '', bodyHash: Buffer.alloc(0), waitMs: 0, ...more },
  };
}

/** A gauge of the scheduler, as a gateway reads it. */
async function gauge({ scheduler }: World, name: string): Promise<number> {
  const { text } = await unary<{ text: string }>((done) =>
    scheduler.control.getMetrics({}, scheduler.bearer(scheduler.secret('gateway-token')), done),
  );
  return Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(text)?.[1]);
}

const cached = (world: World): Promise<number> => gauge(world, 'capstan_input_cache_jobs');

function cancel({ scheduler, endpoint }: World, jobId: string): Promise<Job> {
  return unary((done) => scheduler.jobs.cancel({ endpointId: endpoint, jobId }, scheduler.bearer(scheduler.secret('gateway-token')), done));
}

test('the input of a submission that the store refuses is not kept', async (t) => {
  const world = await open(t, 0);
  const { channel, endpoint } = world;
  for (let n = 0; n < 20; n++) {
    const key = { idempotencyKey: `key-${n}`, bodyHash: Buffer.alloc(32, 1) };
    await channel.ask(endpoint, submit(`first-${n}`, key));
    // The key again with the same body, with another body, and with a wait that its caller gives up.
    await channel.ask(endpoint, submit(`again-${n}`, key));
    await channel.ask(endpoint, submit(`other-${n}`, { ...key, bodyHash: Buffer.alloc(32, 2) }));
    await channel.ask(endpoint, submit(`waits-${n}`, { ...key, kind: JobKind.RUNSYNC, waitMs: 1 }));
    // The submission itself, sent again.
    await channel.ask(endpoint, submit(`first-${n}`, key));
  }
  t.is(await cached(world), 20);
  for (let n = 0; n < 20; n++) await cancel(world, `first-${n}`);
  t.is(await cached(world), 0);
  // What is stored is not in the image any more: the store refuses the same id.
  for (let n = 0; n < 20; n++) await channel.ask(endpoint, submit(`first-${n}`));
  t.is(await cached(world), 0);
  t.is(await gauge(world, 'capstan_input_cache_bytes'), 0);
});

test('no end of a job leaves its input behind', async (t) => {
  const world = await open(t, 1);
  const { channel, endpoint, scheduler } = world;
  const session = (await scheduler.join('host')).session();
  await session.bringUp();
  const end = ({ jobId, token }: Dispatch, outcome: AttemptOutcome): void =>
    session.send(
      { $case: 'started', value: { jobId, token, agoMs: 0 } },
      {
        $case: 'ended',
        value: { jobId, token, outcome, error: 'ended', executionMs: 5, agoMs: 0, started: true, chunks: 0, slotHeld: false },
      },
    );
  const answer = (jobId: string, waitMs = 0) => channel.ask(endpoint, { $case: 'get', value: { jobId, waitMs } });
  await channel.ask(endpoint, submit('completes'));
  t.is(await cached(world), 1);
  end(await session.take('dispatch'), AttemptOutcome.COMPLETED);
  await session.take('ack');
  await channel.ask(endpoint, submit('fails'));
  end(await session.take('dispatch'), AttemptOutcome.FAILED);
  await session.take('ack');
  t.is(await cached(world), 0);
  await unary<Job>((done) =>
    scheduler.jobs.retry({ endpointId: endpoint, jobId: 'fails' }, scheduler.bearer(scheduler.secret('gateway-token')), done),
  );
  end(await session.take('dispatch'), AttemptOutcome.FAILED);
  await session.take('ack');
  await channel.ask(endpoint, submit('cancelled'));
  await session.take('dispatch');
  await cancel(world, 'cancelled');
  await session.take('stop');
  const expired = submit('expires', { policy: { ttlMs: 50, lowPriority: false } });
  await channel.ask(endpoint, expired);
  await until('the job has expired', async () => (await answer('expires')).result?.$case === 'failure');
  await until('no input is kept', async () => (await cached(world)) === 0);
  const stored = (await answer('cancelled')).result;
  t.is(stored?.$case === 'job' ? stored.value.state : null, JobState.CANCELLED);
});
