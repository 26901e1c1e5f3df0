/** The session: joining, Hello, heartbeats, restarts of the scheduler, revoked identities. */
import { readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import test from 'ava';

import { CapstanError } from '../../lib/errors.ts';
import { FakeScheduler, JOIN_TOKEN } from './fake-scheduler.ts';
import { addBuild, functionSpec, startAgent, startScheduler, startWorker } from './fixtures.ts';
import { folderOf } from '../support/folder.ts';

test('a node joins once, keeps its identity to itself, and says hello with all it has', async (t) => {
  const scheduler = await startScheduler(t);
  const dataDir = await folderOf(t);
  const first = await startAgent(t, scheduler, { dataDir });
  const hello = await scheduler.hello();
  t.is(hello.protocol, 1);
  t.deepEqual(hello.attempts, []);
  t.deepEqual(hello.workers, { epoch: 0, workers: [] });
  t.deepEqual(hello.inventory?.runtimes, ['thread', 'process']);
  t.true((hello.inventory?.cpuCount ?? 0) > 0);
  const path = join(dataDir, 'agent', 'node.json');
  t.is((await stat(path)).mode & 0o777, 0o600);
  const stored = JSON.parse(await readFile(path, 'utf8')) as { nodeId: string };
  t.is(first.nodeId, stored.nodeId);
  t.is(await first.joined, stored.nodeId);
  await first.close();

  const second = await startAgent(t, scheduler, { dataDir, joinToken: undefined });
  const again = await scheduler.hello(() => true, scheduler.heard.items.findIndex(({ $case }) => $case === 'hello') + 1);
  t.is(second.nodeId, stored.nodeId);
  t.deepEqual(scheduler.joins, ['test-node']);
  t.not(again.incarnation, hello.incarnation);
});

test('a second agent on one data folder is refused, and the folder is free again with the end of the first', async (t) => {
  const scheduler = await startScheduler(t);
  const dataDir = await folderOf(t);
  const first = await startAgent(t, scheduler, { dataDir });
  await t.throwsAsync(startAgent(t, scheduler, { dataDir }), {
    code: 'CONFLICT',
    message: new RegExp(`another agent is running on the data folder ${dataDir} \\(process ${process.pid}\\)`),
  });
  await first.close();
  await t.notThrowsAsync(startAgent(t, scheduler, { dataDir }));
});

test('heartbeats keep a quiet session alive on both sides', async (t) => {
  const scheduler = await startScheduler(t);
  scheduler.limits = { heartbeatMs: 20, silenceMs: 60_000 };
  await startAgent(t, scheduler);
  await scheduler.hello();
  await scheduler.hear('heartbeat');
  await scheduler.hear('heartbeat', () => true, scheduler.now);
  t.is(scheduler.heard.items.filter(({ $case }) => $case === 'hello').length, 1);
});

test('a scheduler that says nothing for too long is dialled anew', async (t) => {
  const scheduler = await startScheduler(t);
  scheduler.beats = false;
  scheduler.limits = { heartbeatMs: 1_000, silenceMs: 50 };
  await startAgent(t, scheduler);
  await scheduler.hello();
  const first = scheduler.now;
  t.truthy(await scheduler.hello(() => true, first));
});

test('attempts run on while the scheduler restarts; the end comes with the next session', async (t) => {
  const { scheduler, agent } = await startWorker(
    t,
    `import { existsSync } from 'node:fs';
     import { setTimeout as sleep } from 'node:timers/promises';
     export async function waits(path: string) { while (!existsSync(path)) await sleep(5); return 'done'; }`,
    'waits',
  );
  scheduler.acknowledge = false;
  const gate = join(agent.dataDir, 'gate');
  scheduler.dispatch({ jobId: 'j1' }, { path: gate });
  await scheduler.hear('started');
  const before = scheduler.now;
  scheduler.stop();
  await scheduler.listen();
  const hello = await scheduler.hello(() => true, before);
  t.like(hello.attempts[0], { jobId: 'j1', token: 1, workerId: 'w1', started: true });
  t.is(hello.workers?.workers[0]?.workerId, 'w1');
  scheduler.stop();
  await writeFile(gate, '');
  await scheduler.listen();
  const ended = await scheduler.ended('j1', before);
  t.is(ended.outcome, 'ATTEMPT_OUTCOME_COMPLETED');

  // Not acknowledged: it comes again with every session, until it is.
  const again = scheduler.now;
  scheduler.stop();
  await scheduler.listen();
  await scheduler.ended('j1', again);
  scheduler.send({ $case: 'ack', value: { jobId: 'j1', token: 1 } });
  await scheduler.heardAll();
  const last = scheduler.now;
  scheduler.stop();
  await scheduler.listen();
  t.deepEqual((await scheduler.hello(() => true, last)).attempts, []);
});

test('chunks are sent again from where the reader stands', async (t) => {
  const { scheduler } = await startWorker(
    t,
    'export async function* count() { yield 0; yield 1; yield 2; await new Promise(() => setInterval(() => undefined, 1000)); }',
    'count',
  );
  scheduler.dispatch({ jobId: 'j1' });
  await scheduler.hear('chunk', ({ index }) => index === 2);
  scheduler.send({ $case: 'drained', value: { jobId: 'j1', token: 1, nextIndex: 2 } });
  await scheduler.heardAll();
  const before = scheduler.now;
  scheduler.stop();
  await scheduler.listen();
  const first = await scheduler.hear('chunk', () => true, before);
  t.is(first.index, 2);
  t.is(scheduler.valueOf(first.data), 2);
});

test('a node whose identity is unknown joins again with its token', async (t) => {
  const scheduler = await startScheduler(t);
  const agent = await startAgent(t, scheduler);
  await scheduler.hello();
  const before = scheduler.now;
  t.is(agent.nodeId, 'node-1');
  scheduler.nodes.clear();
  scheduler.stop();
  await scheduler.listen();
  await scheduler.hello(() => true, before);
  t.is(agent.nodeId, 'node-2');
});

test('another agent in the session: the node tries on', async (t) => {
  const scheduler = await startScheduler(t);
  scheduler.refuseSession = new CapstanError('ALREADY_EXISTS', 'another agent has the session');
  const agent = await startAgent(t, scheduler);
  await agent.joined;
  t.is(scheduler.heard.items.length, 0);
  scheduler.refuseSession = undefined;
  t.truthy(await scheduler.hello());
});

test('a removed node ends its workers and itself, and does not join again', async (t) => {
  const { scheduler, agent } = await startWorker(
    t,
    'export async function slow() { await new Promise(() => setInterval(() => undefined, 1000)); }',
    'slow',
  );
  scheduler.dispatch({ jobId: 'j1' });
  await scheduler.hear('started');
  scheduler.refuseSession = new CapstanError('NODE_REMOVED', 'the node test-node was removed');
  scheduler.stop();
  await scheduler.listen();
  const reason = await agent.removed;
  t.is(reason.code, 'NODE_REMOVED');
  t.is(reason.message, 'the node test-node was removed');
  t.is(scheduler.joins.length, 1);
});

test('an agent starts without its scheduler, and joins when it comes', async (t) => {
  const scheduler = await FakeScheduler.start();
  t.teardown(() => scheduler.stop());
  scheduler.stop();
  const agent = await startAgent(t, scheduler, { joinToken: JOIN_TOKEN });
  t.is(agent.nodeId, undefined);
  await scheduler.listen();
  t.is(await agent.joined, 'node-1');
});

test('what one turn of the loop produced goes in one message', async (t) => {
  const { scheduler } = await startWorker(t, 'export function echo(input: unknown) { return input; }', 'echo', { maxConcurrency: 50 });
  const before = scheduler.messagesWithRefusals;
  scheduler.send(
    ...Array.from({ length: 40 }, (_, index) => ({
      $case: 'stop' as const,
      value: { jobId: `j${index}`, token: 1, reason: 'STOP_REASON_STALE' as const },
    })),
  );
  await scheduler.refused('j39');
  // A heartbeat may go beside it.
  t.is(scheduler.messagesWithRefusals - before, 1);
});

test('messages are split at 1 MiB', async (t) => {
  const { scheduler } = await startWorker(
    t,
    'export function* chunks() { for (let i = 0; i < 30; i += 1) yield "x".repeat(60_000); }',
    'chunks',
  );
  scheduler.acknowledge = false;
  scheduler.dispatch({ jobId: 'j1' });
  const ended = await scheduler.ended('j1');
  t.is(ended.chunks, 30);
  t.is((scheduler.valueOf(ended.output) as string[]).length, 30);
  const before = scheduler.now;
  const messages = scheduler.messages;
  scheduler.stop();
  await scheduler.listen();
  await scheduler.ended('j1', before);
  // Hello, and 1.8 MB of chunks sent again in at least two.
  t.true(scheduler.messages - messages >= 3);
  t.is(scheduler.heard.items.slice(before).filter(({ $case }) => $case === 'chunk').length, 30);
});

test('a join token may come from a file that appears later', async (t) => {
  const scheduler = await startScheduler(t);
  const dataDir = await folderOf(t);
  const joinTokenFile = join(dataDir, 'join-token');
  await writeFile(joinTokenFile, `${JOIN_TOKEN}\n`);
  const agent = await startAgent(t, scheduler, { dataDir, joinToken: undefined, joinTokenFile });
  t.is(await agent.joined, 'node-1');
});

test('what a worker is told about survives a restart of the scheduler without a new start', async (t) => {
  const scheduler = await startScheduler(t);
  const build = await addBuild(t, scheduler, { 'main.js': 'let calls = 0; export function count() { return ++calls; }' });
  await startAgent(t, scheduler);
  await scheduler.hello();
  const release = { ...build, functions: [functionSpec('count')] };
  scheduler.desire([{}], [release]);
  await scheduler.worker('w1', ({ state }) => state === 'WORKER_STATE_IDLE');
  scheduler.dispatch({ jobId: 'j1' });
  t.is(scheduler.valueOf((await scheduler.ended('j1')).output), 1);
  const before = scheduler.now;
  scheduler.stop();
  await scheduler.listen();
  await scheduler.hello(() => true, before);
  scheduler.desire([{}], [release]);
  scheduler.dispatch({ jobId: 'j2' });
  t.is(scheduler.valueOf((await scheduler.ended('j2')).output), 2);
});
