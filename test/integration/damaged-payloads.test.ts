/**
 * Flipped bits in what the queue keeps: nobody gets altered bytes. The job of a damaged input fails, and who reads a
 * damaged output is told so.
 */
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import test, { type ExecutionContext } from 'ava';
import Database from 'better-sqlite3';

import { JobKind, JobState, type Payload } from '../../proto/gen/capstan/v1/common.ts';
import type { JobReply } from '../../proto/gen/capstan/v1/jobs.ts';
import { AttemptOutcome, RefusalReason, type Dispatch } from '../../proto/gen/capstan/v1/nodes.ts';
import { blobPath } from '../../scheduler/blobs/ids.ts';
import { gatewayOf } from '../support/gateway.ts';
import { Receiver } from '../support/receiver.ts';
import { TestScheduler, type TestChannel, type TestSession } from '../support/scheduler-client.ts';
import { until } from '../support/until.ts';
import { inline, WebhookWorld } from './webhook-world.ts';

const LARGE = Buffer.from(JSON.stringify('large '.repeat(20_000)));
type Body = NonNullable<Payload['body']>;

function submit(channel: TestChannel, endpoint: string, jobId: string, body: Body): Promise<JobReply> {
  const value = { jobId, kind: JobKind.RUN, webhook: '', idempotencyKey: '', bodyHash: Buffer.alloc(0), waitMs: 0, input: { body } };
  return channel.ask(endpoint, { $case: 'submit', value });
}

async function ended(channel: TestChannel, endpoint: string, jobId: string): Promise<{ state: JobState | undefined; error: string }> {
  return until(`job ${jobId} has ended`, async () => {
    const { result } = await channel.ask(endpoint, { $case: 'get', value: { jobId, waitMs: 1_000 } });
    if (result?.$case !== 'job') throw new Error(JSON.stringify(result));
    const { state, error = '' } = result.value;
    return state === JobState.FAILED || state === JobState.COMPLETED ? { state, error } : undefined;
  });
}

function complete(session: TestSession, { jobId, token }: Dispatch, output: Body): void {
  const value = {
    jobId,
    token,
    outcome: AttemptOutcome.COMPLETED,
    error: '',
    executionMs: 5,
    agoMs: 0,
    started: true,
    chunks: 0,
    slotHeld: false,
  };
  session.send({ $case: 'started', value: { jobId, token, agoMs: 0 } }, { $case: 'ended', value: { ...value, output: { body: output } } });
}

/** Flips a bit in the middle of the values that a query selects, while no scheduler has the database. */
function flipRows(dataDir: string, table: string, column: string, where: string): void {
  const db = new Database(join(dataDir, 'scheduler', 'capstan.db'));
  const rows = db.prepare<[], { id: number; value: Buffer }>(`SELECT rowid AS id, ${column} AS value FROM ${table} WHERE ${where}`).all();
  if (rows.length === 0) throw new Error('nothing to damage');
  for (const { id, value } of rows) db.prepare(`UPDATE ${table} SET ${column} = ? WHERE rowid = ?`).run(flipped(value), id);
  db.close();
}

async function flipBlob(dataDir: string, id: string): Promise<void> {
  const path = join(dataDir, 'scheduler', 'blobs', blobPath(id));
  await writeFile(path, flipped(await readFile(path)));
}

function flipped(bytes: Buffer): Buffer {
  const changed = Buffer.from(bytes);
  const middle = changed.length >> 1;
  changed[middle] = (changed[middle] ?? 0) ^ 0x02;
  return changed;
}

async function open(t: ExecutionContext): Promise<{ scheduler: TestScheduler; endpoint: string }> {
  const scheduler = await TestScheduler.open();
  t.teardown(() => scheduler.close());
  const { endpoints } = await scheduler.deploy([{ name: 'echo', workersMin: 1, maxConcurrency: 10 }]);
  return { scheduler, endpoint: endpoints[0]?.id ?? '' };
}

test('a job whose input is damaged fails with PAYLOAD_DAMAGED, and no worker gets it', async (t) => {
  const { scheduler, endpoint } = await open(t);
  const before = scheduler.channel();
  const body = await scheduler.putBody(LARGE);
  await submit(before, endpoint, 'small', { $case: 'inline', value: Buffer.from('{"text":"a small input"}') });
  await submit(before, endpoint, 'large', { $case: 'blob', value: { id: body, size: LARGE.length } });
  await submit(before, endpoint, 'whole', { $case: 'inline', value: Buffer.from('{"text":"this one is whole"}') });
  await scheduler.restart(async () => {
    flipRows(scheduler.dataDir, 'inputs', 'inline', "seq = (SELECT seq FROM jobs WHERE id = 'small')");
    await flipBlob(scheduler.dataDir, body);
  });

  const node = await scheduler.join('host');
  const session = node.session();
  await session.bringUp();
  const channel = scheduler.channel();
  const small = await ended(channel, endpoint, 'small');
  t.is(small.state, JobState.FAILED);
  t.is(small.error, 'PAYLOAD_DAMAGED: the input of job small is damaged in the store: its checksum does not match its bytes');
  const dispatches = [await session.take('dispatch'), await session.take('dispatch')];
  t.deepEqual(dispatches.map(({ jobId }) => jobId).toSorted(), ['large', 'whole']);
  const large = dispatches.find(({ jobId }) => jobId === 'large');
  const read = (): Promise<unknown> =>
    new Promise((resolve, reject) => {
      scheduler.blobs.get({ id: body }, node.credentials).on('error', reject).on('data', resolve);
    });
  const refused = await t.throwsAsync(read);
  t.regex(refused.message, /do not match their SHA-256/);
  const failed = await ended(channel, endpoint, 'large');
  t.is(failed.state, JobState.FAILED);
  t.regex(
    failed.error,
    /^PAYLOAD_DAMAGED: the input of job large is damaged in the store: body\/[0-9a-f]{32} is damaged in the blob store/,
  );
  // The agent gives the slot back, and nothing comes of it.
  session.send({
    $case: 'refused',
    value: { jobId: 'large', token: large?.token ?? 0, reason: RefusalReason.INPUT_UNAVAILABLE, detail: '' },
  });
  const whole = dispatches.find(({ jobId }) => jobId === 'whole');
  if (whole !== undefined) complete(session, whole, inline('1'));
  t.is((await ended(channel, endpoint, 'whole')).state, JobState.COMPLETED);
  t.deepEqual(whole?.input?.body, { $case: 'inline', value: Buffer.from('{"text":"this one is whole"}') });
});

test('a damaged output or chunk is a problem that names it, and never delivered', async (t) => {
  const { scheduler, endpoint } = await open(t);
  const node = await scheduler.join('host');
  const session = node.session();
  await session.bringUp();
  const channel = scheduler.channel();
  const body = await scheduler.putBody(LARGE);
  const outputs: Record<string, Body> = {
    small: inline('{"text":"a small output"}'),
    large: { $case: 'blob', value: { id: body, size: LARGE.length } },
    whole: inline('{"text":"whole"}'),
    streamed: inline('null'),
  };
  for (const [id, output] of Object.entries(outputs)) {
    await submit(channel, endpoint, id, inline('{}'));
    const dispatch = await session.take('dispatch');
    if (id === 'streamed')
      session.send(
        { $case: 'started', value: { jobId: id, token: dispatch.token, agoMs: 0 } },
        { $case: 'chunk', value: { jobId: id, token: dispatch.token, index: 0, data: { body: inline('{"chunk":"of a stream"}') } } },
      );
    complete(session, dispatch, output);
    await ended(channel, endpoint, id);
  }
  await scheduler.restart(async () => {
    flipRows(scheduler.dataDir, 'jobs', 'output', "id = 'small'");
    flipRows(scheduler.dataDir, 'chunks', 'inline', 'true');
    await flipBlob(scheduler.dataDir, body);
  });

  const url = await gatewayOf(t, scheduler);
  const headers = { authorization: `Bearer ${scheduler.secret('api-key')}` };
  const read = async (path: string): Promise<{ status: number; text: string }> => {
    const response = await fetch(`${url}/v2/${endpoint}/${path}`, { headers });
    return { status: response.status, text: await response.text() };
  };
  for (const [path, what] of [
    ['status/small', 'output'],
    ['status/large', 'output'],
    ['stream/streamed', 'stream'],
  ] as const) {
    const { status, text } = await read(path);
    t.is(status, 500, path);
    t.regex(text, new RegExp(`the ${what} of job ${path.split('/')[1] ?? ''} is damaged in the store`), path);
    t.regex(text, /PAYLOAD_DAMAGED/, path);
  }
  t.like(JSON.parse((await read('status/whole')).text), { status: 'COMPLETED', output: { text: 'whole' } });
  const page = JSON.parse((await read('requests')).text) as { requests: { id: string; output?: unknown; error?: string }[] };
  const listed = page.requests.find(({ id }) => id === 'small');
  t.is(listed?.output, undefined);
  t.regex(listed?.error ?? '', /^PAYLOAD_DAMAGED: the output of job small/);
});

test('a delivery whose payload is damaged fails with PAYLOAD_DAMAGED, and its receiver gets nothing', async (t) => {
  const receiver = await Receiver.open(t, [500]);
  const world = await WebhookWorld.open(t);
  const ids = {
    input: await world.completed(receiver.url()),
    output: await world.completed(receiver.url()),
    envelope: await world.completed(receiver.url()),
  };
  for (const id of Object.values(ids)) await world.tried(id, 1);
  const { scheduler } = world;
  await scheduler.restart(async () => {
    const of = (id: string): string => `id = '${id}'`;
    flipRows(scheduler.dataDir, 'hooks', 'input', of(ids.input));
    flipRows(scheduler.dataDir, 'hooks', 'output', of(ids.output));
    const db = new Database(join(scheduler.dataDir, 'scheduler', 'capstan.db'));
    db.exec(`UPDATE hooks SET envelope = replace(envelope, 'COMPLETED', 'COMPLATED') WHERE ${of(ids.envelope)}`);
    db.close();
  });
  const received = receiver.received.length;
  world.clock.advance(11_000);
  for (const id of Object.values(ids)) {
    const { error } = await world.tried(id, 2);
    t.regex(error, /^PAYLOAD_DAMAGED: the (input|output) of the job is damaged in the store: its checksum does not match/, id);
  }
  t.is(receiver.received.length, received);
});
