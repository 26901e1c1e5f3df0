/** A disk that fills up: new jobs are refused, what was accepted goes on, and nothing ends (real processes, a small file system). */
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';

import test from 'ava';

import { BlobPurpose } from '../../proto/gen/capstan/v1/blobs.ts';
import { JobKind, JobState } from '../../proto/gen/capstan/v1/common.ts';
import type { JobReply, Submit } from '../../proto/gen/capstan/v1/jobs.ts';
import { AttemptOutcome } from '../../proto/gen/capstan/v1/nodes.ts';
import { fromServiceError } from '../../lib/grpc-errors.ts';
import { TestScheduler, unary } from '../support/scheduler-client.ts';
import { smallDisk, whyNoSmallDisk, type SmallDisk } from '../support/small-disk.ts';
import { Stack } from '../support/stack.ts';
import { until } from '../support/until.ts';

const onSmallDisk = whyNoSmallDisk === '' ? test : test.skip;
const app = join(import.meta.dirname, '../contract/app');
const MEBIBYTE = 1024 * 1024;

function submit(jobId: string): { $case: 'submit'; value: Submit } {
  const input = { body: { $case: 'inline', value: Buffer.from('{"n":1}') } } as const;
  return {
    $case: 'submit',
    value: { jobId, kind: JobKind.RUN, input, webhook: '', idempotencyKey: '', bodyHash: Buffer.alloc(0), waitMs: 0 },
  };
}

const refusalOf = ({ result }: JobReply): string => (result?.$case === 'failure' ? `${result.value.code} ${result.value.message}` : '');
const stateOf = ({ result }: JobReply): JobState | null => (result?.$case === 'job' ? result.value.state : null);

onSmallDisk(`below the bound new jobs and bodies are refused; reads, results and ends go on${whyNoSmallDisk}`, async (t) => {
  const disk = await smallDisk(t, '64m');
  const scheduler = await TestScheduler.open({ dataDir: join(disk.path, 'data') });
  t.teardown(() => scheduler.close());
  const { endpoints } = await scheduler.deploy([{ name: 'echo', workersMin: 1 }]);
  const endpoint = endpoints[0]?.id ?? '';
  const node = await scheduler.join('host');
  const session = node.session();
  await session.bringUp();
  const channel = scheduler.channel();
  const get = (jobId: string) => channel.ask(endpoint, { $case: 'get', value: { jobId, waitMs: 0 } });
  const putAsNode = (bytes: Buffer): Promise<unknown> =>
    unary((done) => {
      const call = scheduler.blobs.put(node.credentials, done);
      call.write({ part: { $case: 'header', value: { purpose: BlobPurpose.BODY, size: bytes.length, digest: '' } } });
      call.write({ part: { $case: 'data', value: bytes } });
      call.end();
    });
  await channel.ask(endpoint, submit('before'));
  const dispatch = await session.take('dispatch');

  // Enough for a small body, but it would cross the bound: 5 % of 64 MiB are 3.2.
  disk.fill(4 * MEBIBYTE);
  const codeOf = (sent: Promise<unknown>): Promise<string> =>
    sent.then(
      () => '',
      (error: unknown) => fromServiceError(error).code,
    );
  await until(
    'a body that would cross it is refused',
    async () => (await codeOf(scheduler.putBody(Buffer.alloc(MEBIBYTE)))) === 'DISK_FULL',
  );
  disk.fill(2 * MEBIBYTE);
  let n = 0;
  const refusal = await until('new jobs are refused', async () => refusalOf(await channel.ask(endpoint, submit(`full-${n++}`))) || null);
  t.regex(refusal, /^DISK_FULL the disk of the scheduler's data folder has less than 5 % free space/);
  t.regex(refusalOf(await channel.ask(endpoint, submit('resent'), true)), /^DISK_FULL /);
  t.is(await codeOf(scheduler.putBody(Buffer.alloc(100_000))), 'DISK_FULL');
  t.is(await codeOf(scheduler.putBuild(Buffer.alloc(100_000))), 'DISK_FULL');
  // What was accepted before goes on.
  t.is(stateOf(await get('before')), JobState.IN_QUEUE);
  await putAsNode(Buffer.alloc(100_000));
  const { jobId, token } = dispatch;
  session.send(
    { $case: 'started', value: { jobId, token, agoMs: 0 } },
    {
      $case: 'ended',
      value: {
        jobId,
        token,
        outcome: AttemptOutcome.COMPLETED,
        error: '',
        executionMs: 5,
        agoMs: 0,
        started: true,
        slotHeld: false,
        chunks: 0,
      },
    },
  );
  await session.take('ack');
  t.is(stateOf(await get('before')), JobState.COMPLETED);
  // The very same submission once more: it is stored.
  t.is(stateOf(await channel.ask(endpoint, submit('before'), true)), JobState.COMPLETED);

  disk.free();
  await until('new jobs are accepted', async () => stateOf(await channel.ask(endpoint, submit(`room-${n++}`))) !== null);
  await scheduler.putBody(Buffer.alloc(100_000));
});

onSmallDisk(`a batch that finds the disk full is taken back, and the scheduler goes on once there is room${whyNoSmallDisk}`, async (t) => {
  const disk = await smallDisk(t, '32m');
  const fatal: unknown[] = [];
  const scheduler = await TestScheduler.open(
    { dataDir: join(disk.path, 'data'), minFreePercent: 0 },
    { onFatal: (error) => void fatal.push(error) },
  );
  t.teardown(() => scheduler.close());
  const { endpoints } = await scheduler.deploy([{ name: 'parked', workersMin: 0, workersMax: 0 }]);
  const endpoint = endpoints[0]?.id ?? '';
  const key = scheduler.bearer(scheduler.secret('gateway-token'));
  const first = scheduler.channel();
  await first.ask(endpoint, submit('before'));
  disk.fill();
  // Until the disk is full each job is acknowledged; the one that finds it full is not.
  const acknowledged = ['before'];
  for (let n = 0, broke = false; !broke; n++) {
    const reply = await Promise.race([first.ask(endpoint, submit(`job-${n}`)), first.ended.then(() => null)]);
    if (reply === null || stateOf(reply) === null) broke = true;
    else acknowledged.push(`job-${n}`);
  }
  disk.free();
  const second = await until('the queue is taken over again', async () => {
    const channel = scheduler.channel();
    const reply = await Promise.race([channel.ask(endpoint, submit('after')), channel.ended.then(() => null)]);
    return reply !== null && stateOf(reply) !== null ? channel : null;
  });
  for (const jobId of acknowledged)
    t.is(stateOf(await second.ask(endpoint, { $case: 'get', value: { jobId, waitMs: 0 } })), JobState.IN_QUEUE);
  const { jobsInQueue } = await unary<{ jobsInQueue: number }>((done) => scheduler.jobs.getHealth({ endpointId: endpoint }, key, done));
  t.is(jobsInQueue, acknowledged.length + 1);
  t.deepEqual(fatal, []);
});

onSmallDisk(`capstan up outlives a full disk, and serves by itself once there is room${whyNoSmallDisk}`, async (t) => {
  const disks: SmallDisk[] = [];
  const stack = await Stack.start({ CAPSTAN_DISK_RESERVE_MB: '0' }, async (folder) => {
    await mkdir(join(folder, 'data'));
    // Nodes tell their disks in steps of 256 MiB.
    disks.push(await smallDisk(t, '300m', join(folder, 'data')));
    return {};
  });
  t.teardown(() => stack.close(() => disks[0]?.unmount()));
  const [disk] = disks;
  const endpoints = await stack.deploy(app);
  const echo = endpoints.get('echo') ?? '';
  const done = await stack.run(echo, { n: 1 });
  await stack.ended(echo, done);
  const up = stack.pid('up');
  disk?.fill(5 * MEBIBYTE);
  const body = JSON.stringify({ input: { n: 2 } });
  const refused = await until('new jobs are refused', async () => {
    const response = await stack.call(`/v2/${echo}/run`, { method: 'POST', body });
    const text = await response.text();
    return response.status === 503 && /disk/.test(text) ? { response, text } : null;
  });
  t.regex(refused.response.headers.get('retry-after') ?? '', /^\d+$/);
  t.like(JSON.parse(refused.text), { status: 503, title: 'Service Unavailable' });
  t.regex(refused.text, /the disk of the scheduler's data folder has less than 5 % free space/);
  t.is((await stack.status(echo, done)).status, 'COMPLETED');
  // Now nothing can be written at all: no line of a log, and no part can start.
  disk?.fill();
  for (const role of ['gateway', 'scheduler', 'agent'] as const) stack.signal(role, 'SIGKILL');
  await until('neither can start', async () => {
    const log = await stack.log();
    return /the scheduler ended \(.*disk is full/.test(log) && /the agent ended \(.*disk .*is full/.test(log);
  });
  disk?.free();
  const id = await until('jobs are accepted', async () => {
    const response = await stack.call(`/v2/${echo}/run`, { method: 'POST', body }).catch(() => null);
    return response?.status === 200 ? ((await response.json()) as { id: string }).id : null;
  });
  const ended = await stack.ended(echo, id);
  t.is(ended.status, 'COMPLETED');
  t.is(stack.pid('up'), up);
});
