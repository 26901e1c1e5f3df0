/** GraphQL `jobs` and `job`: pages that filters narrow, and one job with its input (scheduler/services/job-search.ts). */
import test, { type ExecutionContext } from 'ava';

import { readConfig } from '../../gateway/config.ts';
import { start } from '../../gateway/assembly/start.ts';
import { TestScheduler } from '../support/scheduler-client.ts';

interface Job {
  readonly id: string;
  readonly status: string;
  readonly input: string | null;
  readonly inputBytes: number | null;
}

interface Page {
  readonly jobs: readonly Job[];
  readonly cursor: string | null;
  readonly incomplete: boolean;
}

async function open(t: ExecutionContext) {
  const scheduler = await TestScheduler.open();
  t.teardown(() => scheduler.close());
  const own = { scheduler: scheduler.handle.address, token: scheduler.secret('gateway-token'), closeGraceMs: 0 };
  const gateway = await start(readConfig({ ...own, port: 0, logLevel: 'silent', graphqlPerSecond: 1_000 }, {}));
  t.teardown(() => gateway.close());
  const [endpoint = ''] = (await scheduler.deploy([{ name: 'echo' }])).endpoints.map(({ id }) => id);
  const post = async (path: string, body: unknown, key = scheduler.secret('api-key')): Promise<unknown> => {
    const headers = { 'content-type': 'application/json', authorization: `Bearer ${key}` };
    return (await fetch(`${gateway.url}${path}`, { method: 'POST', headers, body: JSON.stringify(body) })).json();
  };
  while (((await post(`/v2/${endpoint}/purge-queue`, {})) as { status: unknown }).status !== 'completed');
  const submit = async (input: object): Promise<string> => ((await post(`/v2/${endpoint}/run`, { input })) as { id: string }).id;
  const ask = async <T>(query: string, key?: string): Promise<T> => (await post('/graphql', { query }, key)) as T;
  const search = async (given = ''): Promise<Page> => {
    const fields = '{ jobs { id status input inputBytes } cursor incomplete }';
    const reply = await ask<{ data?: { jobs: Page }; errors?: unknown }>(`{ jobs(endpoint: "${endpoint}" ${given}) ${fields} }`);
    t.is(reply.errors, undefined, JSON.stringify(reply.errors));
    return reply.data?.jobs ?? { jobs: [], cursor: null, incomplete: false };
  };
  return { endpoint, post, submit, ask, search };
}

const idsOf = ({ jobs }: Page): string[] => jobs.map(({ id }) => id);

test('pages go on where they ended, newest first, whatever is submitted meanwhile', async (t) => {
  const { submit, search } = await open(t);
  const ids: string[] = [];
  for (let n = 0; n < 7; n += 1) ids.unshift(await submit({ n }));
  const first = await search('limit: 3');
  t.deepEqual(idsOf(first), ids.slice(0, 3));
  await submit({ late: true });
  const second = await search(`limit: 3, cursor: "${first.cursor ?? ''}"`);
  t.deepEqual(idsOf(second), ids.slice(3, 6));
  const last = await search(`limit: 3, cursor: "${second.cursor ?? ''}"`);
  t.deepEqual([idsOf(last), last.cursor, last.incomplete], [ids.slice(6), null, false]);
});

test('filters: status, time, and text in id, error and input', async (t) => {
  const { endpoint, post, submit, search } = await open(t);
  const red = await submit({ prompt: 'a RED fox' });
  const between = Date.now() + 1;
  while (Date.now() <= between);
  const blue = await submit({ prompt: 'a blue fox' });
  await post(`/v2/${endpoint}/cancel/${red}`, {});
  t.deepEqual(idsOf(await search()), [blue, red]);
  t.deepEqual(idsOf(await search('filter: { status: [CANCELLED] }')), [red]);
  t.deepEqual(idsOf(await search('filter: { status: [IN_QUEUE] }')), [blue]);
  t.deepEqual(idsOf(await search('filter: { status: [IN_QUEUE, CANCELLED] }')), [blue, red]);
  t.deepEqual(idsOf(await search('filter: { status: [COMPLETED] }')), []);
  t.deepEqual(idsOf(await search(`filter: { sinceMs: ${between} }`)), [blue]);
  t.deepEqual(idsOf(await search(`filter: { untilMs: ${between} }`)), [red]);
  t.deepEqual(idsOf(await search('filter: { text: "BLUE" }')), [blue]);
  t.deepEqual(idsOf(await search(`filter: { text: "${red.slice(0, 20)}" }`)), [red]);
  t.deepEqual(idsOf(await search('filter: { text: "no such text" }')), []);
});

test('jobs are found by their tags, and tags that break a rule are refused', async (t) => {
  const { endpoint, post, search, ask } = await open(t);
  const submit = async (tags: unknown): Promise<{ id: string; error?: string; title?: string; detail?: string }> =>
    (await post(`/v2/${endpoint}/run`, { input: {}, tags })) as { id: string };
  const { id: ada } = await submit(['customer:ada', 'nightly', 'nightly']);
  const { id: grace } = await submit(['customer:grace', 'nightly']);
  const { id: none } = await submit(null);
  const found = async (tag: string): Promise<string[]> => idsOf(await search(`filter: { tag: "${tag}" }`));
  t.deepEqual(await found('nightly'), [grace, ada]);
  t.deepEqual(await found('customer:ada'), [ada]);
  t.deepEqual(await found('customer'), [], 'a part of a tag is none');
  const { data } = await ask<{ data: Record<string, { tags: string[] }> }>(
    `{ a: job(endpoint: "${endpoint}", id: "${ada}") { tags } n: job(endpoint: "${endpoint}", id: "${none}") { tags } }`,
  );
  t.deepEqual(data, { a: { tags: ['customer:ada', 'nightly'] }, n: { tags: [] } });
  for (const [tags, rule] of [
    ['nightly', /tags: must be an array/],
    [[1], /tags\.0: must be a string|tags\[0\]: must be a string/],
    [['two words'], /tags.*must have 1 to 64 letters/],
    [[''], /tags.*must have 1 to 64 letters/],
    [Array.from({ length: 9 }, (_, n) => `t${n}`), /tags: must have at most 8 items/],
  ] as const)
    t.regex(JSON.stringify(await submit(tags)), rule);
  const { errors } = await ask<{ errors: { message: string }[] }>(
    `{ jobs(endpoint: "${endpoint}", filter: { tag: "two words" }) { cursor } }`,
  );
  t.regex(errors[0]?.message ?? '', /^tag: must have 1 to 64 letters/);
});

test('a job names the key that submitted it, also when that is revoked, and is found by it', async (t) => {
  const { endpoint, post, search, ask } = await open(t);
  const created = await ask<{ data: { createApiKey: { plaintext: string; key: { id: string } } } }>(
    'mutation { createApiKey(name: "other", scope: ALL) { plaintext key { id } } }',
  );
  const { plaintext, key } = created.data.createApiKey;
  const submitWith = async (by?: string): Promise<string> => ((await post(`/v2/${endpoint}/run`, { input: {} }, by)) as { id: string }).id;
  const [own, other] = [await submitWith(), await submitWith(plaintext)];
  await ask(`mutation { revokeApiKey(id: "${key.id}") }`);
  const { data } = await ask<{ data: Record<string, { submittedBy: string }> }>(
    `{ own: job(endpoint: "${endpoint}", id: "${own}") { submittedBy } other: job(endpoint: "${endpoint}", id: "${other}") { submittedBy } }`,
  );
  t.is(data['other']?.submittedBy, key.id);
  t.regex(String(data['own']?.submittedBy), /^[0-9a-f]{12}$/);
  t.not(data['own']?.submittedBy, key.id);
  t.deepEqual(idsOf(await search(`filter: { submittedBy: "${key.id}" }`)), [other]);
  t.deepEqual(idsOf(await search('filter: { submittedBy: "000000000000" }')), []);
  const { errors } = await ask<{ errors: { message: string }[] }>(
    `{ jobs(endpoint: "${endpoint}", filter: { submittedBy: "%" }) { cursor } }`,
  );
  t.regex(errors[0]?.message ?? '', /^submittedBy: must be the id of an API key, 12 hexadecimal digits/);
});

test('a job has its input, also a large one by its size; jobs of others and unknown ones are not shown', async (t) => {
  const { endpoint, submit, ask } = await open(t);
  const id = await submit({ a: '\u202e<script>' });
  const large = await submit({ text: 'x'.repeat(100_000) });
  const job = async (of: string, key?: string) =>
    ask<{ data?: { job: Job | null }; errors?: { message: string }[] }>(
      `{ job(endpoint: "${endpoint}", id: "${of}") { id status input inputBytes } }`,
      key,
    );
  t.like((await job(id)).data, { job: { id, status: 'IN_QUEUE', input: '{"a":"\u202e<script>"}' } });
  t.like((await job(large)).data?.job, { input: null, inputBytes: 100_011 });
  t.deepEqual((await job('none')).data, { job: null });
  const made = await ask<{ data: { createAccount: { keyText: string } } }>('mutation { createAccount(id: "team") { keyText } }');
  const team = made.data.createAccount.keyText;
  t.deepEqual((await job(id, team)).data, { job: null });
  t.regex(
    (await ask<{ errors: { message: string }[] }>(`{ jobs(endpoint: "${endpoint}") { cursor } }`, team)).errors[0]?.message ?? '',
    /does not exist|not found/i,
  );
});

test('bad arguments are refused by name', async (t) => {
  const { endpoint, ask } = await open(t);
  for (const [given, rule] of [
    ['limit: 101', 'limit: must be at most 100'],
    ['limit: -1', 'limit: must not be negative'],
    ['cursor: "x"', 'cursor: must be the cursor of an earlier page'],
    ['filter: { sinceMs: -1 }', 'filter.sinceMs: must be a time in ms since the Unix epoch'],
    [`filter: { text: "${'x'.repeat(1001)}" }`, 'text: must be at most 1000 characters'],
  ] as const) {
    const { errors } = await ask<{ errors: { message: string; extensions: { code: string } }[] }>(
      `{ jobs(endpoint: "${endpoint}", ${given}) { cursor } }`,
    );
    t.deepEqual([errors[0]?.message, errors[0]?.extensions.code], [rule, 'INVALID_ARGUMENT']);
  }
});
