/** Operations on many jobs (scheduler/services/bulk-operations.ts): retry, cancel and purge over a filter. */
import test, { type ExecutionContext } from 'ava';

import { setTimeout as pause } from 'node:timers/promises';

import { readConfig } from '../../gateway/config.ts';
import { start } from '../../gateway/assembly/start.ts';
import { AttemptOutcome } from '../../proto/gen/capstan/v1/nodes.ts';
import { TestScheduler } from '../support/scheduler-client.ts';
import { until } from '../support/until.ts';

interface Operation {
  readonly id: string;
  readonly state: string;
  readonly examined: number;
  /** The former name. */
  readonly lookedAt: number;
  readonly changed: number;
  readonly skipped: number;
  readonly error: string | null;
}

interface Reply {
  readonly data?: Readonly<Record<string, unknown>>;
  readonly errors?: readonly { readonly message: string; readonly extensions: { readonly code: string; readonly field?: string } }[];
}

const FIELDS = '{ id state examined lookedAt changed skipped error }';

async function open(t: ExecutionContext, workers = 0) {
  const scheduler = await TestScheduler.open();
  t.teardown(() => scheduler.close());
  const own = { scheduler: scheduler.handle.address, token: scheduler.secret('gateway-token'), closeGraceMs: 0 };
  const gateway = await start(readConfig({ ...own, port: 0, logLevel: 'silent', graphqlPerSecond: 1_000 }, {}));
  t.teardown(() => gateway.close());
  const [endpoint = '', other = ''] = (
    await scheduler.deploy([{ name: 'echo', workersMin: workers, workersMax: 1 }, { name: 'other' }])
  ).endpoints.map(({ id }) => id);
  const key = scheduler.secret('api-key');
  const post = async (path: string, body: unknown, by = key): Promise<Response> =>
    fetch(`${gateway.url}${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: `Bearer ${by}` },
      body: JSON.stringify(body),
    });
  const submit = async (input: object, to = endpoint, policy: object = {}): Promise<string> => {
    for (;;) {
      const response = await post(`/v2/${to}/run`, { input, policy });
      if (response.ok) return ((await response.json()) as { id: string }).id;
      // More requests than an endpoint takes within 10 s.
      t.is(response.status, 429);
      await response.body?.cancel();
      await pause(1_000);
    }
  };
  const ask = async (query: string, by?: string): Promise<Reply> => (await (await post('/graphql', { query }, by)).json()) as Reply;
  const count = async (args: string): Promise<unknown> =>
    (await ask(`{ countJobs(endpoint: "${endpoint}", ${args}) { count incomplete } }`)).data?.['countJobs'];
  const begin = async (args: string): Promise<string> => {
    const { data, errors } = await ask(`mutation { made: startBulkOperation(endpoint: "${endpoint}", ${args}) ${FIELDS} }`);
    t.is(errors, undefined, JSON.stringify(errors));
    return (data?.['made'] as Operation | undefined)?.id ?? '';
  };
  const list = async (): Promise<readonly Operation[]> =>
    (await ask(`{ bulkOperations(endpoint: "${endpoint}") ${FIELDS} }`)).data?.['bulkOperations'] as readonly Operation[];
  const ended = async (id: string): Promise<Operation | undefined> => {
    let found: Operation | undefined;
    await until('the operation ended', async () => {
      found = (await list()).find((each) => each.id === id);
      return found?.state !== 'RUNNING';
    });
    return found;
  };
  const states = async (of = endpoint): Promise<Record<string, number>> => {
    const sums: Record<string, number> = {};
    for (let cursor: string | null = ''; cursor !== null;) {
      const { data } = await ask(`{ jobs(endpoint: "${of}", limit: 100, cursor: "${cursor}") { jobs { status } cursor } }`);
      const page = data?.['jobs'] as { jobs: { status: string }[]; cursor: string | null };
      for (const { status } of page.jobs) sums[status] = (sums[status] ?? 0) + 1;
      ({ cursor } = page);
    }
    return sums;
  };
  await until('jobs are accepted', async () => (await post(`/v2/${endpoint}/purge-queue`, {})).ok);
  return { scheduler, endpoint, other, submit, ask, count, begin, list, ended, states, key };
}

test('cancels what a filter admits, beyond the window of the queue, and nothing else', async (t) => {
  const { submit, other, count, begin, ended, states } = await open(t);
  await submit({ n: 'elsewhere' }, other);
  await Promise.all(Array.from({ length: 1_250 }, (_, n) => submit({ group: n % 5 === 0 ? 'red' : 'blue' })));
  t.deepEqual(await count('action: CANCEL, filter: { text: "red" }'), { count: 250, incomplete: false });
  t.deepEqual(await count('action: RETRY'), { count: 0, incomplete: false });
  const operation = await ended(await begin('action: CANCEL, filter: { text: "RED" }'));
  t.like(operation, { state: 'DONE', examined: 1_250, lookedAt: 1_250, changed: 250, skipped: 0, error: null });
  t.deepEqual(await states(), { CANCELLED: 250, IN_QUEUE: 1_000 });
  t.deepEqual(await states(other), { IN_QUEUE: 1 });
  t.like(await ended(await begin('action: PURGE')), { state: 'DONE', changed: 1_000 });
  t.deepEqual(await states(), { CANCELLED: 1_250 });
});

test('retries what failed, once each, while others are left alone', async (t) => {
  const { scheduler, endpoint, submit, begin, ended, states, count, ask } = await open(t, 1);
  const session = (await scheduler.join('host')).session();
  await session.bringUp();
  const jobs = [await submit({ n: 1 }), await submit({ n: 2 }), await submit({ n: 3 })];
  for (let i = 0; i < 3; i += 1) {
    const { jobId, token } = await session.take('dispatch');
    const outcome = i === 1 ? AttemptOutcome.COMPLETED : AttemptOutcome.FAILED;
    const value = { jobId, token, outcome, error: 'out of luck', executionMs: 5, agoMs: 0, started: true, chunks: 0, slotHeld: false };
    session.send({ $case: 'started', value: { jobId, token, agoMs: 0 } }, { $case: 'ended', value: { ...value, output: undefined } });
  }
  await until('all have ended', async () => (await states())['FAILED'] === 2);
  t.deepEqual(await count('action: RETRY, filter: { text: "luck" }'), { count: 2, incomplete: false });
  t.deepEqual(await count('action: RETRY, filter: { status: [TIMED_OUT] }'), { count: 0, incomplete: false });
  t.like(await ended(await begin('action: RETRY')), { state: 'DONE', examined: 2, changed: 2 });
  t.deepEqual(await states(), { COMPLETED: 1, IN_QUEUE: 2 });
  const again = await session.take('dispatch');
  t.true(jobs.includes(again.jobId));
  session.send({ $case: 'started', value: { jobId: again.jobId, token: again.token, agoMs: 0 } });
  await until('it runs', async () => (await states())['IN_PROGRESS'] === 1);
  t.like(await ended(await begin('action: PURGE')), { state: 'DONE', changed: 1 }, 'what runs goes on');
  t.deepEqual(await states(), { COMPLETED: 1, IN_PROGRESS: 1, CANCELLED: 1 });
  t.is((await ask(`{ jobs(endpoint: "${endpoint}") { incomplete } }`)).errors, undefined);
});

test('one at a time for each endpoint; it can be stopped, and is seen by its account alone', async (t) => {
  const { scheduler, submit, endpoint, ask, begin, ended, list, states } = await open(t);
  await Promise.all(Array.from({ length: 600 }, (_, n) => submit({ n })));
  const id = await begin('action: CANCEL');
  const second = await ask(`mutation { startBulkOperation(endpoint: "${endpoint}", action: PURGE) { id } }`);
  const stopped = await ask(`mutation { stopBulkOperation(id: "${id}") { id } }`);
  t.is(stopped.errors, undefined);
  const operation = await ended(id);
  t.true(operation?.state === 'STOPPED' || operation?.state === 'DONE');
  if (second.errors !== undefined) t.is(second.errors[0]?.extensions.code, 'CONFLICT');
  const left = (await states())['IN_QUEUE'] ?? 0;
  t.is(left + (operation?.changed ?? 0), 600);
  t.true((await list()).some((each) => each.id === id));
  const { data } = await ask('mutation { createAccount(id: "team") { keyText } }');
  const foreign = (data?.['createAccount'] as { keyText: string } | undefined)?.keyText ?? '';
  let answer: Reply = {};
  await until('the new key is known', async () => {
    answer = await ask('{ bulkOperations { id } }', foreign);
    return answer.data !== undefined;
  });
  t.deepEqual(answer.data?.['bulkOperations'], []);
  t.is((await ask(`mutation { stopBulkOperation(id: "${id}") { id } }`, foreign)).errors?.[0]?.extensions.code, 'NOT_FOUND');
  t.is((await ask(`{ countJobs(endpoint: "${endpoint}", action: PURGE) { count } }`, foreign)).errors?.[0]?.extensions.code, 'NOT_FOUND');
  const stops = (await scheduler.audited()).filter(({ action }) => action === 'stopBulkOperation');
  t.deepEqual(
    stops.map(({ object }) => object),
    [id],
    'the audit log has the stop that was permitted',
  );
});

test('refusals name the field', async (t) => {
  const { endpoint, ask } = await open(t);
  for (const [args, code, field] of [
    [`endpoint: "none", action: PURGE`, 'NOT_FOUND', undefined],
    [`endpoint: "${endpoint}", action: PURGE, filter: { status: [FAILED] }`, 'INVALID_ARGUMENT', 'filter.status'],
    [`endpoint: "${endpoint}", action: CANCEL, filter: { sinceMs: -1 }`, 'INVALID_ARGUMENT', 'filter.sinceMs'],
    [`endpoint: "${endpoint}", action: CANCEL, filter: { text: "${'x'.repeat(1_001)}" }`, 'INVALID_ARGUMENT', 'text'],
  ] as const)
    for (const query of [`{ countJobs(${args}) { count } }`, `mutation { startBulkOperation(${args}) { id } }`]) {
      const { errors } = await ask(query);
      t.is(errors?.[0]?.extensions.code, code, query);
      t.is(errors?.[0]?.extensions.field, field, query);
    }
});
