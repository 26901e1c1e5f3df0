/** Searches of log lines as the scheduler puts them to agents, whose part the test plays. */
import test, { type ExecutionContext } from 'ava';

import type { LogFilter } from '../../proto/gen/capstan/v1/common.ts';
import type { GetLogsRequest, GetLogsResponse } from '../../proto/gen/capstan/v1/control.ts';
import type { LogLine, LogsReply } from '../../proto/gen/capstan/v1/nodes.ts';
import { endpointSpec, TestScheduler, unary, type TestSession } from '../support/scheduler-client.ts';

const FILTER: LogFilter = { jobId: '', releaseId: '', stream: '', level: '', contains: '', pattern: '', oldestFirst: false };

interface World {
  readonly node: string;
  readonly session: TestSession;
  readonly line: (text: string, us: bigint) => LogLine;
  readonly search: (request: Partial<GetLogsRequest>) => Promise<GetLogsResponse>;
  /** Answers the next request of the scheduler. */
  readonly answer: (lines: readonly LogLine[], more?: Partial<LogsReply>) => Promise<void>;
}

async function open(t: ExecutionContext): Promise<World> {
  const scheduler = await TestScheduler.open({});
  t.teardown(() => scheduler.close());
  const [endpoint] = (await scheduler.deploy([endpointSpec({ workersMin: 1 })])).endpoints;
  const endpointId = endpoint?.id ?? '';
  const joined = await scheduler.join('one');
  const session = joined.session({});
  const workerId = (await session.bringUp())[0]?.workerId ?? '';
  const metadata = scheduler.bearer(scheduler.secret('api-key'));
  return {
    node: joined.id,
    session,
    line: (text, us) => ({
      ...{ atMs: 5n, atUs: us, workerId, releaseId: '', jobId: '', attempt: 0, stream: 'stdout', level: '', text, fields: '' },
      endpointId,
    }),
    search: (request) =>
      unary((done) => scheduler.control.getLogs({ endpointId, workerId: '', limit: 10, afterMs: 0n, ...request }, metadata, done)),
    answer: async (lines, more = {}) => {
      const { requestId } = await session.take('logs');
      session.send({ $case: 'logs', value: { requestId, lines: [...lines], stoppedAtUs: 0n, error: '', failed: false, ...more } });
    },
  };
}

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
