/** Requests for log lines that wait until a matching line is printed. */
import test, { type ExecutionContext } from 'ava';

import { LogStore, type PrintedLine } from '../../agent/logs/log-store.ts';
import { LogWaits } from '../../agent/logs/log-waits.ts';
import type { LogFilter } from '../../proto/gen/capstan/v1/common.ts';
import type { LogsReply, LogsRequest } from '../../proto/gen/capstan/v1/nodes.ts';
import { folderOf } from '../support/folder.ts';
import { until } from '../support/until.ts';

const FILTER: LogFilter = { jobId: '', releaseId: '', stream: '', level: '', contains: '', pattern: '', oldestFirst: true };
const LONG_MS = 30_000;

interface World {
  readonly waits: LogWaits;
  readonly replies: LogsReply[];
  readonly print: (text: string, more?: Partial<PrintedLine>) => void;
  readonly request: (requestId: number, filter?: Partial<LogFilter>, waitMs?: number) => void;
  /** Texts of the reply to a request, waiting for it. */
  readonly reply: (requestId: number) => Promise<string[]>;
}

async function open(t: ExecutionContext): Promise<World> {
  const replies: LogsReply[] = [];
  const logs = await new LogStore({
    folder: await folderOf(t),
    ...{ segmentBytes: 100_000, endpointBytes: 10_000_000, accountBytes: 100_000_000, keptMs: 86_400_000 },
    accountOf: () => '',
    log: { warn: (fields: unknown) => t.log(fields) },
    onLine: (line) => waits.lineAdded(line),
  }).open();
  const waits = new LogWaits(logs, { warn: (fields: unknown) => t.log(fields) }, (reply) => replies.push(reply));
  t.teardown(async () => {
    waits.forgetAll();
    await logs.close();
  });
  return {
    waits,
    replies,
    print: (text, more) =>
      logs.add({
        ...{ endpointId: 'ep1', workerId: 'w1', releaseId: 'r1', jobId: '', attempt: 0, stream: 'stdout', text },
        ...more,
      }),
    request: (requestId, filter = {}, waitMs = LONG_MS) => {
      const value: LogsRequest = { requestId, endpointId: 'ep1', workerId: '', limit: 10, afterMs: 0n, filter: { ...FILTER, ...filter } };
      waits.request({ ...value, waitMs });
    },
    reply: async (requestId) => {
      const found = await until(`request ${requestId} is answered`, () => replies.find((each) => each.requestId === requestId));
      return found.lines.map(({ text }) => text);
    },
  };
}

test('a request with matching lines is answered at once, and so is one that does not wait', async (t) => {
  const { print, request, reply } = await open(t);
  print('there');
  request(1);
  t.deepEqual(await reply(1), ['there']);
  request(2, { contains: 'nothing' }, 0);
  t.deepEqual(await reply(2), []);
});

test('a request without matching lines is answered when one is printed', async (t) => {
  const { print, request, reply, replies } = await open(t);
  print('before');
  request(1, { jobId: 'j1' });
  request(2, { pattern: '^wanted' });
  request(3, { level: 'error' });
  print('of another endpoint, wanted', { endpointId: 'ep2', jobId: 'j1' });
  print('not wanted');
  print('of the job', { jobId: 'j1' });
  t.deepEqual(await reply(1), ['of the job']);
  print('wanted');
  t.deepEqual(await reply(2), ['wanted']);
  print('ERROR: bad');
  t.deepEqual(await reply(3), ['ERROR: bad']);
  t.deepEqual(
    replies.map(({ requestId, knowsWait }) => [requestId, knowsWait]),
    [
      [1, true],
      [2, true],
      [3, true],
    ],
  );
});

test('a wait ends with an empty reply', async (t) => {
  const { request, reply } = await open(t);
  request(1, {}, 1);
  t.deepEqual(await reply(1), []);
});

test('a second request with the id replaces the one that waits', async (t) => {
  const { print, request, reply, replies } = await open(t);
  request(1, { contains: 'a' });
  request(1, { contains: 'a' }, 0);
  t.deepEqual(await reply(1), []);
  print('a');
  request(2);
  t.deepEqual(await reply(2), ['a']);
  t.is(replies.length, 2);
});

test('a bad pattern is refused at once', async (t) => {
  const { request, reply, replies } = await open(t);
  request(1, { pattern: '(' });
  await reply(1);
  t.regex(replies[0]?.error ?? '', /^pattern: not a valid RE2 expression/);
});

test('requests beyond the limit do not wait, and those of an ended session are forgotten', async (t) => {
  const { waits, print, request, reply, replies } = await open(t);
  for (let id = 0; id < 32; id += 1) request(id);
  request(1_000);
  t.deepEqual(await reply(1_000), []);
  waits.forgetAll();
  print('a');
  request(1_001);
  t.deepEqual(await reply(1_001), ['a']);
  t.is(replies.length, 2);
});
