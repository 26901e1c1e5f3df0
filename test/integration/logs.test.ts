/** Searches of log lines as the scheduler puts them to agents, whose part the test plays. */
import test, { type ExecutionContext } from 'ava';
import { pino } from 'pino';

import type { LogFilter } from '../../proto/gen/capstan/v1/common.ts';
import {
  CreateKeyRequest,
  KeyScope,
  type CreateKeyResponse,
  type GetLogsRequest,
  type GetLogsResponse,
} from '../../proto/gen/capstan/v1/control.ts';
import type { LogLine, LogsReply } from '../../proto/gen/capstan/v1/nodes.ts';
import { readConfig } from '../../gateway/config.ts';
import { start } from '../../gateway/assembly/start.ts';
import { TestScheduler, unary, type TestSession } from '../support/scheduler-client.ts';

const FILTER: LogFilter = { jobId: '', releaseId: '', stream: '', level: '', contains: '', pattern: '', oldestFirst: false };

interface World {
  readonly scheduler: TestScheduler;
  readonly endpointId: string;
  readonly node: string;
  readonly session: TestSession;
  readonly line: (text: string, us: bigint) => LogLine;
  readonly search: (request: Partial<GetLogsRequest>, key?: string) => Promise<GetLogsResponse>;
  /** Answers the next request of the scheduler. */
  readonly answer: (lines: readonly LogLine[], more?: Partial<LogsReply>) => Promise<void>;
}

async function open(t: ExecutionContext): Promise<World> {
  const scheduler = await TestScheduler.open({});
  t.teardown(() => scheduler.close());
  const [endpoint] = (await scheduler.deploy([{ workersMin: 1 }])).endpoints;
  const endpointId = endpoint?.id ?? '';
  const joined = await scheduler.join('one');
  const session = joined.session({});
  const workerId = (await session.bringUp())[0]?.workerId ?? '';
  return {
    scheduler,
    endpointId,
    node: joined.id,
    session,
    line: (text, us) => ({
      ...{ atMs: 5n, atUs: us, workerId, releaseId: '', jobId: '', attempt: 0, stream: 'stdout', level: '', text, fields: '' },
      endpointId,
    }),
    search: (request, key = scheduler.secret('api-key')) =>
      unary((done) =>
        scheduler.control.getLogs({ endpointId, workerId: '', limit: 10, afterMs: 0n, ...request }, scheduler.bearer(key), done),
      ),
    answer: async (lines, more = {}) => {
      const { requestId } = await session.take('logs');
      session.send({ $case: 'logs', value: { requestId, lines: [...lines], stoppedAtUs: 0n, error: '', failed: false, ...more } });
    },
  };
}

const EMPTY = { lines: [], stoppedAtUs: 0n, error: '', failed: false, knowsWait: true };
const textsOf = ({ lines }: GetLogsResponse): string[] => lines.map(({ text }) => text);

test('an agent that does not know filters is named, and its lines are left out', async (t) => {
  const { node, line, search, answer } = await open(t);
  const [filtered] = await Promise.all([search({ filter: { ...FILTER, level: 'error' } }), answer([line('not an error', 0n)])]);
  t.deepEqual(filtered.lines, []);
  t.deepEqual(filtered.unfilteredNodes, [node]);
  t.deepEqual(filtered.missingNodes, []);
  const [all] = await Promise.all([search({ filter: FILTER }), answer([line('anything', 0n)])]);
  t.deepEqual(
    all.lines.map(({ text, atUs }) => [text, atUs]),
    [['anything', 5_000n]],
  );
  t.deepEqual(all.unfilteredNodes, []);
});

const OLDEST = { filter: { ...FILTER, oldestFirst: true }, waitMs: 20_000 };

test('a search that waits is put to the agent with its wait, and its lines are the reply', async (t) => {
  const { session, line, search } = await open(t);
  const found = search(OLDEST);
  const { requestId, waitMs } = await session.take('logs');
  t.is(waitMs, 20_000);
  session.send({ $case: 'logs', value: { ...EMPTY, requestId, lines: [line('printed', 5_001n)] } });
  t.deepEqual(textsOf(await found), ['printed']);
});

test('an agent that does not wait is not waited for', async (t) => {
  const { search, answer } = await open(t);
  const [{ lines }] = await Promise.all([search(OLDEST), answer([], { knowsWait: undefined })]);
  t.deepEqual(lines, []);
});

test('a search that waits ends when another node gets a worker, and when one has lines the others reply with theirs', async (t) => {
  const { scheduler, node, session, line, search } = await open(t);
  const other = (await scheduler.join('two')).session({});
  await other.take('welcome');

  const first = search(OLDEST);
  const held = await session.take('logs');
  await unary((done) => scheduler.control.drainNode({ nodeId: node }, scheduler.bearer(scheduler.secret('api-key')), done));
  const [second] = await other.bringUp();
  const ended = await session.take('logs');
  t.deepEqual([ended.requestId, ended.waitMs], [held.requestId, 0]);
  session.send({ $case: 'logs', value: { ...EMPTY, requestId: ended.requestId } });
  t.deepEqual(textsOf(await first), []);

  const both = search(OLDEST);
  const [mine, its] = [await session.take('logs'), await other.take('logs')];
  t.is(its.waitMs, 20_000);
  const printed = { ...line('second', 5_002n), workerId: second?.workerId ?? '' };
  other.send({ $case: 'logs', value: { ...EMPTY, requestId: its.requestId, lines: [printed] } });
  t.deepEqual(await session.take('logs'), { ...mine, waitMs: 0 });
  session.send({ $case: 'logs', value: { ...EMPTY, requestId: mine.requestId, lines: [line('first', 5_001n)] } });
  t.deepEqual(textsOf(await both), ['first', 'second']);
});

test('a key that is revoked during the wait reads nothing', async (t) => {
  const { scheduler, session, line, search } = await open(t);
  const admin = scheduler.bearer(scheduler.secret('api-key'));
  const { text, key } = await unary<CreateKeyResponse>((done) =>
    scheduler.control.createKey(CreateKeyRequest.fromPartial({ name: 'reader', scope: KeyScope.READ_ONLY }), admin, done),
  );
  const found = search(OLDEST, text);
  const { requestId } = await session.take('logs');
  await unary((done) => scheduler.control.revokeKey({ id: key?.id ?? '', account: '' }, admin, done));
  session.send({ $case: 'logs', value: { ...EMPTY, requestId, lines: [line('secret', 5_001n)] } });
  await t.throwsAsync(found, { code: 'UNAUTHENTICATED' });
});

test('at most 16 searches of an account wait', async (t) => {
  const { session, search } = await open(t);
  const waiting = Array.from({ length: 17 }, () => search(OLDEST));
  const waits: (number | undefined)[] = [];
  for (const _each of waiting) {
    const { requestId, waitMs } = await session.take('logs');
    waits.push(waitMs);
    session.send({ $case: 'logs', value: { ...EMPTY, requestId } });
  }
  await Promise.all(waiting);
  t.is(waits.filter((waitMs) => waitMs === 20_000).length, 16);
});

test('a follower over HTTP gets each line when it is printed, by requests that wait', async (t) => {
  const { scheduler, endpointId, session, line, answer } = await open(t);
  const settings = { port: 0, scheduler: scheduler.handle.address, token: scheduler.secret('gateway-token'), closeGraceMs: 0 };
  const gateway = await start(readConfig(settings, {}), { log: pino({ level: 'silent' }) });
  t.teardown(() => gateway.close());
  const following = fetch(`${gateway.url}/v2/${endpointId}/logs?follow=true`, {
    headers: { authorization: `Bearer ${scheduler.secret('api-key')}` },
  });
  await answer([line('before', 5_001n)]);
  const reader = (await following).body?.pipeThrough(new TextDecoderStream()).getReader();
  t.regex((await reader?.read())?.value ?? '', /"text":"before"/);
  for (const us of [5_002n, 5_003n]) {
    const { requestId, waitMs, filter } = await session.take('logs');
    t.is(waitMs, 5_000);
    t.is(filter?.after?.atUs, us - 1n);
    session.send({ $case: 'logs', value: { ...EMPTY, requestId, lines: [line(`printed at ${us}`, us)] } });
    t.regex((await reader?.read())?.value ?? '', new RegExp(`"text":"printed at ${us}"`));
  }
  t.is((await session.take('logs')).waitMs, 5_000);
  // The gateway does not wait for the search when it closes.
  await gateway.close();
  t.true((await reader?.read())?.done);
});
