/** GraphQL `job`: the attempts that ended and the reasons for which it waited, kept over restarts of the scheduler. */
import test, { type ExecutionContext } from 'ava';

import { readConfig } from '../../gateway/config.ts';
import { start } from '../../gateway/assembly/start.ts';
import { AttemptEnded, AttemptOutcome, AttemptRefused, RefusalReason } from '../../proto/gen/capstan/v1/nodes.ts';
import { folderOf } from '../support/folder.ts';
import { TestScheduler, type TestNode, type TestSession } from '../support/scheduler-client.ts';
import { until } from '../support/until.ts';
import { withPostgres } from '../support/with-postgres.ts';

interface Past {
  readonly submittedAt: string;
  readonly attempt: number;
  readonly worker: string | null;
  readonly node: string | null;
  readonly leasedAt: string | null;
  readonly startedAt: string | null;
  readonly endedAt: string;
  readonly reason: string;
  readonly error: string | null;
  readonly count: number;
}

interface Job {
  readonly status: string;
  readonly submittedAt: string;
  readonly attempts: number;
  readonly pastAttempts: readonly Past[];
  readonly queueReasons: readonly {
    readonly at: string;
    readonly until: string | null;
    readonly reason: string;
    readonly detail: string | null;
  }[];
}

const FIELDS = `status submittedAt attempts pastAttempts { submittedAt attempt worker node leasedAt startedAt endedAt reason error count }
  queueReasons { at until reason detail }`;
const HOSTILE = `<b>\u0000\u001b[31m${'x'.repeat(300)}`;

async function open(t: ExecutionContext, settings: Record<string, unknown>) {
  // Long enough that a restart is over, short enough that a node is lost within the test.
  const scheduler = await TestScheduler.open({ nodeGraceMs: 1_000, ...settings });
  t.teardown(() => scheduler.close());
  const own = { scheduler: scheduler.handle.address, token: scheduler.secret('gateway-token'), closeGraceMs: 0 };
  const gateway = await start(readConfig({ ...own, port: 0, logLevel: 'silent', graphqlPerSecond: 1_000 }, {}));
  t.teardown(() => gateway.close());
  const [endpoint = ''] = (await scheduler.deploy([{ name: 'echo', maxAttempts: 2 }])).endpoints.map(({ id }) => id);
  const headers = { 'content-type': 'application/json', authorization: `Bearer ${scheduler.secret('api-key')}` };
  const post = async <T>(path: string, body: unknown): Promise<T> =>
    (await (await fetch(`${gateway.url}${path}`, { method: 'POST', headers, body: JSON.stringify(body) })).json()) as T;
  let id = '';
  await until('a job is accepted', async () => {
    const reply = await post<{ id?: string }>(`/v2/${endpoint}/run`, { input: {} });
    id = reply.id ?? '';
    return id !== '';
  });
  const job = async (when: (job: Job) => boolean): Promise<Job> =>
    until('the job is so', async () => {
      const query = `{ job(endpoint: "${endpoint}", id: "${id}") { ${FIELDS} } }`;
      const { data } = await post<{ data?: { job: Job | null } }>('/graphql', { query });
      return data?.job != null && when(data.job) ? data.job : null;
    });
  return { scheduler, endpoint, id, job, post };
}

/** Takes the job that the scheduler sends. */
async function take(session: TestSession): Promise<{ jobId: string; token: number }> {
  const { jobId, token } = await session.take('dispatch');
  return { jobId, token };
}

async function session(t: ExecutionContext, node: TestNode, incarnation: string): Promise<TestSession> {
  const opened = node.session({ incarnation });
  t.teardown(() => opened.close());
  await opened.bringUp();
  return opened;
}

await withPostgres('a timeline in postgres', (server) => {
  test('postgres: attempts that ended and former reasons are there after restarts, losses and a retry', async (t) => {
    await lives(t, { store: await server.newDatabase(), blobDir: await folderOf(t) });
  });
});

test('sqlite: attempts that ended and former reasons are there after restarts, losses and a retry', (t) => lives(t, {}));

/** A job that waits, loses its worker and its node, fails and is retried; its scheduler restarts in between. */
async function lives(t: ExecutionContext, settings: Record<string, unknown>): Promise<void> {
  const { scheduler, endpoint, id, job, post } = await open(t, settings);
  const waiting = await job(({ queueReasons }) => queueReasons.length > 0);
  t.like(waiting.queueReasons[0], { reason: 'NO_CAPACITY', until: null, detail: 'no node is connected' });
  await scheduler.restart();

  const node = await scheduler.join('node-a');
  const first = await session(t, node, 'first');
  const refused = await take(first);
  first.send({ $case: 'refused', value: AttemptRefused.fromPartial({ ...refused, reason: RefusalReason.NOT_READY, detail: HOSTILE }) });
  const again = await take(first);
  first.send({ $case: 'refused', value: AttemptRefused.fromPartial({ ...again, reason: RefusalReason.NOT_READY, detail: 'last' }) });
  const one = await take(first);
  first.send({ $case: 'started', value: { ...one, agoMs: 0 } });
  const outcome = AttemptOutcome.WORKER_LOST;
  first.send({ $case: 'ended', value: AttemptEnded.fromPartial({ ...one, outcome, error: HOSTILE, started: true }) });
  await first.take('ack');
  await scheduler.restart();

  const lost = await job(({ pastAttempts }) => pastAttempts.length === 2);
  const [unstarted, died] = lost.pastAttempts;
  t.like(unstarted, { attempt: 1, reason: 'REFUSED', startedAt: null, count: 2, node: node.id, error: 'NOT_READY: last' });
  t.like(died, { attempt: 1, reason: 'WORKER_LOST', submittedAt: lost.submittedAt, count: 1, node: node.id, error: HOSTILE.slice(0, 200) });
  t.true(died?.worker !== null && died?.leasedAt !== null && died?.startedAt !== null);
  const [capacity, ...others] = lost.queueReasons;
  t.is(capacity?.reason, 'NO_CAPACITY');
  t.true((capacity?.until ?? '') > (capacity?.at ?? ''), 'it ended with the restart in between');
  t.is(capacity?.at, waiting.queueReasons[0]?.at);
  t.true(others.every(({ at, until: end }) => end === null || end > at));

  // The agent restarts, and its node is lost with the last attempt.
  const second = await session(t, node, 'second');
  const two = await take(second);
  second.send({ $case: 'started', value: { ...two, agoMs: 0 } });
  await job(({ status, attempts }) => status === 'IN_PROGRESS' && attempts === 2);
  second.close();
  const failed = await job(({ status }) => status === 'FAILED');
  // It was assigned again at once, under the first incarnation; the last attempt is that of the job.
  t.is(failed.pastAttempts.length, 3);
  t.like(failed.pastAttempts[2], { attempt: 2, reason: 'NODE_LOST', startedAt: null, leasedAt: null });
  // Lost where the agent's second life comes after the grace, on a busy machine.
  t.regex(String(failed.pastAttempts[2]?.error), /^node node-a (restarted|lost)$/);
  t.is((await post<{ status: string }>(`/v2/${endpoint}/retry/${id}`, {})).status, 'IN_QUEUE');
  await scheduler.restart();

  const retried = await job(({ status, pastAttempts }) => status === 'IN_QUEUE' && pastAttempts.length === 4);
  t.is(retried.attempts, 0);
  const ended = retried.pastAttempts[3];
  t.like(ended, { attempt: 2, reason: 'FAILED', submittedAt: lost.submittedAt, count: 1, error: 'node node-a lost (attempt 2 of 2)' });
  t.true((ended?.startedAt ?? '') >= (died?.endedAt ?? ''));
  t.true(retried.submittedAt >= (ended?.endedAt ?? ''));

  const third = await session(t, node, 'third');
  const three = await take(third);
  third.send({ $case: 'started', value: { ...three, agoMs: 0 } });
  third.send({ $case: 'ended', value: AttemptEnded.fromPartial({ ...three, outcome: AttemptOutcome.COMPLETED, started: true }) });
  const completed = await job(({ status }) => status === 'COMPLETED');
  t.deepEqual(completed.pastAttempts, retried.pastAttempts);
  t.is(completed.attempts, 1);
  t.true(completed.queueReasons.every((reason) => reason.until !== null));
}

test('attempts that were stopped, did not arrive or timed out say so', async (t) => {
  const { scheduler, endpoint, id, job, post } = await open(t, {});
  const node = await scheduler.join('node-a');
  const opened = node.session();
  t.teardown(() => opened.close());
  const workers = await opened.bringUp();
  const stopped = await take(opened);
  opened.send({ $case: 'started', value: { ...stopped, agoMs: 0 } });
  const end = { ...stopped, outcome: AttemptOutcome.STOPPED, started: true, executionMs: 5 };
  opened.send({ $case: 'ended', value: AttemptEnded.fromPartial(end) });
  await take(opened);
  opened.close();
  await opened.ended;

  // The same agent, which does not know the attempt.
  const again = node.session({ workers: { epoch: 99, workers } });
  t.teardown(() => again.close());
  const late = await take(again);
  const timedOut = { ...late, outcome: AttemptOutcome.TIMED_OUT, started: true, executionMs: 7, agoMs: 2 };
  again.send({ $case: 'ended', value: AttemptEnded.fromPartial(timedOut) });
  await job(({ status }) => status === 'TIMED_OUT');
  t.is((await post<{ status: string }>(`/v2/${endpoint}/retry/${id}`, {})).status, 'IN_QUEUE');

  const { pastAttempts } = await job((found) => found.pastAttempts.length === 3);
  t.deepEqual(
    pastAttempts.map(({ reason, attempt, startedAt, error }) => [reason, attempt, startedAt !== null, error]),
    [
      ['STOPPED', 1, true, null],
      ['UNDELIVERED', 1, false, null],
      ['TIMED_OUT', 1, true, 'executionTimeout exceeded'],
    ],
  );
  t.true(pastAttempts.every(({ worker, node: of }) => worker === workers[0]?.workerId && of === node.id));
  const [, , last] = pastAttempts;
  t.is(Date.parse(last?.endedAt ?? '') - Date.parse(last?.startedAt ?? ''), 7);
});
