/** The development server behaves as a deployed stack at the same paths: one list of calls over both, and the clients. */
import { execFile } from 'node:child_process';
import { mkdir, realpath, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

import test from 'ava';
import runpodSdk from 'runpod-sdk';

import { EndpointClient } from '../../sdk/typescript/client.ts';
import { folderOf } from '../support/folder.ts';
import { ownFolder } from '../support/own-folder.ts';
import { Stack } from '../support/stack.ts';
import { run, type Run } from './fakes/run.ts';

const bin = join(import.meta.dirname, '../../cli/main.ts');
const PROJECT = `import { endpoint, Endpoint } from '@capstan/sdk';

export const echo = endpoint({ name: 'echo', workers: [1, 1] }, (input: Record<string, unknown>) => input);
export const failing = endpoint({ name: 'failing', workers: [1, 1] }, (n: number) => { throw new Error(\`no luck with \${n}\`); });
export const words = endpoint({ name: 'words', workers: [1, 1] }, function* (text: string) { yield* text.split(' '); });
export const slow = endpoint({ name: 'slow', workers: [1, 1] }, async (n: number, context: { signal: AbortSignal; progress(value: unknown): void }) => {
  context.progress({ n });
  await new Promise((resolve) => context.signal.addEventListener('abort', resolve, { once: true }));
});
const api = new Endpoint({ name: 'api', workers: [1, 1] });
api.get('/items/{id}', (id: number) => ({ id }));
`;

interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly body: Record<string, unknown>;
}

type Call = (method: string, path: string, options?: { body?: unknown; headers?: Record<string, string> }) => Promise<Answer>;

/** What one of the two services answers, without what differs from run to run. */
async function transcript(call: Call, id: (name: string) => string): Promise<unknown[]> {
  const lines: unknown[] = [];
  const say = (what: string, { status, headers, body }: Answer): Answer => {
    const shown = Object.fromEntries(
      ['content-type', 'allow', 'retry-after', 'cache-control', 'accept'].map((name) => [name, headers.get(name)]),
    );
    lines.push([what, status, shown, JSON.parse(plain(JSON.stringify(body), id))]);
    return { status, headers, body };
  };
  const post = (name: string, path: string, body?: unknown, headers: Record<string, string> = {}): Promise<Answer> =>
    call('POST', `/v2/${id(name)}/${path}`, { body, headers });
  const until = async (name: string, job: unknown, isMet: (status: unknown) => boolean): Promise<Answer> => {
    for (;;) {
      const answer = await call('GET', `/v2/${id(name)}/status-sync/${String(job)}?wait=1000`);
      if (answer.status !== 200 || isMet(answer.body['status'])) return answer;
    }
  };
  const isOver = (status: unknown): boolean => /^(COMPLETED|FAILED|CANCELLED|TIMED_OUT)$/.test(String(status));

  const submitted = say('run', await post('echo', 'run', { input: { a: 1, b: [null, 'ü'] } }));
  await until('echo', submitted.body['id'], isOver);
  for (const method of ['GET', 'POST'])
    say(`status by ${method}`, await call(method, `/v2/${id('echo')}/status/${String(submitted.body['id'])}`));
  say('of another endpoint', await call('GET', `/v2/${id('failing')}/status/${String(submitted.body['id'])}`));
  say('runsync', await post('echo', 'runsync', { input: {}, webhookV2: 'ignored' }));
  say('runsync with a slash', await post('echo', 'runsync/', { input: { x: 1 } }));
  say('a large input', { ...(await post('echo', 'runsync', { input: { text: 'x'.repeat(100_000) } })), body: {} });
  const failed = say('failing', await post('failing', 'runsync', { input: { n: 1 } }));
  say('missing argument', await post('failing', 'runsync', { input: {} }));
  say('retry', await call('POST', `/v2/${id('failing')}/retry/${String(failed.body['id'])}`));
  say('retried', await until('failing', failed.body['id'], isOver));
  say('retry of a completed one', await post('echo', `retry/${String(submitted.body['id'])}`));
  say('cancel of a completed one', await post('echo', 'cancel', { id: submitted.body['id'] }));

  for (const [what, body, headers] of [
    ['no input', {}, {}],
    ['an input that is no object', { input: [] }, {}],
    ['no JSON', '{"input":', {}],
    ['an array', '[]', {}],
    ['no body', undefined, {}],
    ['a short time-out', { input: {}, policy: { executionTimeout: 1 } }, {}],
    ['a webhook without a scheme', { input: {}, webhook: 'example.com' }, {}],
    ['text', '{"input":{}}', { 'content-type': 'text/plain' }],
    ['a form', 'a=1', { 'content-type': 'application/x-www-form-urlencoded' }],
    ['compressed', '{"input":{}}', { 'content-type': 'application/json', 'content-encoding': 'gzip' }],
    ['another charset', '{"input":{}}', { 'content-type': 'application/json; charset=latin1' }],
    ['too large', 'x'.repeat(11 * 1024 * 1024), {}],
    ['a key with spaces', { input: {} }, { 'idempotency-key': 'a b' }],
  ] as const)
    say(`run with ${what}`, await post('echo', 'run', body, headers));
  say('runsync with too large', await post('echo', 'runsync', 'x'.repeat(21 * 1024 * 1024)));
  say('wait', await post('echo', 'runsync?wait=soon', { input: {} }));

  const first = say('with a key', await post('echo', 'runsync', { input: { k: 1 } }, { 'idempotency-key': 'k1' }));
  const again = say('again', await post('echo', 'runsync', { input: { k: 1 } }, { 'idempotency-key': 'k1' }));
  lines.push(['the same job', first.body['id'] === again.body['id']]);
  say('with another body', await post('echo', 'runsync', { input: { k: 2 } }, { 'idempotency-key': 'k1' }));

  const spoken = await post('words', 'run', { input: { text: 'the quick fox' } });
  await until('words', spoken.body['id'], isOver);
  say('stream', await call('GET', `/v2/${id('words')}/stream/${String(spoken.body['id'])}`));
  say('read', await call('GET', `/v2/${id('words')}/stream/${String(spoken.body['id'])}`));
  say('without an id', await call('GET', `/v2/${id('words')}/stream`));
  say('its output', await call('GET', `/v2/${id('words')}/status/${String(spoken.body['id'])}`));

  const jobs = [];
  for (const n of [1, 2, 3]) jobs.push((await post('slow', 'run', { input: { n } })).body['id']);
  for (let status: unknown = ''; status !== 'IN_PROGRESS';)
    ({ status } = (await call('GET', `/v2/${id('slow')}/status/${String(jobs[0])}`)).body as { status: unknown });
  const { workers, jobs: counts } = (await call('GET', `/v2/${id('slow')}/health`)).body as { workers: object; jobs: object };
  lines.push(['health', Object.keys(workers), counts]);
  say('purge', await post('slow', 'purge-queue'));
  say('purged', await call('GET', `/v2/${id('slow')}/status/${String(jobs[1])}`));
  say('cancel', await post('slow', `cancel/${String(jobs[0])}`));
  say('cancelled', await call('GET', `/v2/${id('slow')}/status/${String(jobs[0])}`));
  say('cancel again', await post('slow', `cancel/${String(jobs[0])}`));
  const page = (await call('GET', `/v2/${id('slow')}/requests?status=CANCELLED&limit=2`)).body as { requests: object[] };
  lines.push(['requests', { ...page, requests: page.requests.map((each) => Object.keys(each)) }]);

  for (const [method, path] of [
    ['GET', `/v2/${id('echo')}/run`],
    ['OPTIONS', `/v2/${id('echo')}/status/x`],
    ['DELETE', `/v2/${id('echo')}/health`],
    ['GET', `/v2/${id('echo')}/nothing`],
    ['GET', `/v2/${id('echo')}/status/%20`],
    ['GET', `/v2/${id('echo')}/status/x-u1`],
    ['POST', `/v2/${id('echo')}/cancel`],
    ['GET', '/v2/none/health'],
    ['GET', `/v2/${id('api')}/health`],
    ['GET', `/v2/${id('failing')}/openai/v1/models`],
    ['GET', `/lb/${id('api')}/items/3`],
    ['DELETE', `/lb/${id('api')}/items/3`],
  ] as const)
    say(`${method} ${path.replace(/\/(v2|lb)\/[^/]+/, '/$1/…')}`, await call(method, path));
  return lines;
}

/** Ids, times and workers differ. */
function plain(text: string, id: (name: string) => string): string {
  return ['echo', 'failing', 'words', 'slow', 'api']
    .reduce(
      (shown, name) => shown.replaceAll(`"${id(name)}"`, `"${name}"`).replaceAll(String.raw`\"${id(name)}\"`, String.raw`\"${name}\"`),
      text,
    )
    .replaceAll(/(sync-)?[0-9a-f]{8}-[0-9a-f-]{27}-u1/g, '<$1id>')
    .replaceAll(/"(delayTime|executionTime)":\d+/g, '"$1":0')
    .replaceAll(/"workerId":"[^"]+"/g, '"workerId":"<worker>"');
}

function caller(base: string, key: string | null): Call {
  return async (method, path, { body, headers = {} } = {}) => {
    const response = await fetch(`${base}${path}`, {
      method,
      headers: {
        ...(key === null ? {} : { authorization: `Bearer ${key}` }),
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    });
    const text = await response.text();
    return { status: response.status, headers: response.headers, body: text === '' ? {} : (JSON.parse(text) as Record<string, unknown>) };
  };
}

let stack: Stack | undefined;
let server: Run | undefined;
let base = '';
let folder = '';

test.before(async () => {
  folder = join(await realpath(await ownFolder('capstan-test')), 'project');
  await mkdir(folder);
  await writeFile(join(folder, 'app.ts'), PROJECT);
  server = run([bin, 'run', '--port', '0'], { cwd: folder, env: { TMPDIR: join(folder, '..') } });
  [, base = ''] = await server.hear(/development server: (http:\/\/localhost:\d+)/);
  stack = await Stack.start();
});
test.after.always(async () => {
  server?.child.kill('SIGTERM');
  await Promise.all([stack?.close(), server?.ended]);
});

function needed<T>(value: T | undefined): T {
  if (value === undefined) throw new Error('it has not started');
  return value;
}

test('every call of the queue API has the same answer as on a deployed endpoint', async (t) => {
  const { url, apiKey } = needed(stack);
  const ids = await needed(stack).deploy(folder);
  const [deployed, local] = await Promise.all([
    transcript(caller(url, apiKey), (name) => ids.get(name) ?? name),
    transcript(caller(base, null), (name) => name),
  ]);
  for (const [index, line] of deployed.entries()) t.deepEqual(local[index], line);
  t.is(local.length, deployed.length);
});

test('the SDK for TypeScript calls it', async (t) => {
  const connection = { baseUrl: base, apiKey: 'any' };
  t.deepEqual(await new EndpointClient('echo', connection).runSync({ a: 1 }), { a: 1 });
  const job = await new EndpointClient('words', connection).run({ text: 'one two' });
  const chunks: unknown[] = [];
  for await (const chunk of job.stream()) chunks.push(chunk);
  t.deepEqual(chunks, ['one', 'two']);
  t.deepEqual(await job.output(), ['one', 'two']);
  await t.throwsAsync(new EndpointClient('failing', connection).runSync({ n: 2 }), { message: /no luck with 2/ });
  t.like((await new EndpointClient('echo', connection).health()).workers, { ready: 1 });
});

test('the SDK for Python calls it', async (t) => {
  const program = `import capstan
print(capstan.Endpoint("echo").run_sync({"a": 1}))
job = capstan.Endpoint("words").run({"text": "one two"})
print(list(job.stream()), job.output())`;
  const env = {
    PATH: process.env['PATH'],
    PYTHONPATH: join(import.meta.dirname, '../../sdk/python'),
    CAPSTAN_URL: base,
    SERVICE_API_KEY: 'any',
  };
  const { stdout } = await promisify(execFile)('python3', ['-c', program], { env, cwd: await realpath(await folderOf(t)) });
  t.is(stdout, "{'a': 1}\n['one', 'two'] ['one', 'two']\n");
});

test('capstan call finds it from the folder, and by its address', async (t) => {
  const tool = async (cwd: string, ...args: string[]): Promise<{ code: unknown; out: string; err: string }> => {
    const called = run([bin, 'call', ...args], {
      cwd,
      env: { HOME: folder, CAPSTAN_DATA_DIR: join(folder, '../none'), SERVICE_API_KEY: 'secret' },
    });
    return { code: await called.ended, out: called.stdout(), err: called.stderr() };
  };
  const inside = join(folder, 'inner');
  await mkdir(inside, { recursive: true });
  const here = await tool(inside, 'echo', 'a=1');
  t.deepEqual([here.code, JSON.parse(here.out)], [0, { a: 1 }], here.err);
  t.true(here.err.includes(`=> calling echo of the development server at ${base}`));
  const elsewhere = await realpath(await folderOf(t));
  const streamed = await tool(elsewhere, 'words', 'text=one two', '--stream', '--url', base);
  t.deepEqual([streamed.code, streamed.out], [0, '"one"\n"two"\n'], streamed.err);
  const failed = await tool(folder, 'failing', 'n=3');
  t.is(failed.code, 1);
  t.regex(failed.err, /the job ended FAILED: no luck with 3\nnext: curl http:\/\/localhost:\d+\/v2\/failing\/status\//);
  t.regex((await tool(elsewhere, 'none', '--url', base)).err, /endpoint none not found on the development server\nhint: It serves: echo, /);
  t.regex((await tool(folder, 'api')).err, /api is load-balanced and does not take jobs; call it at .*\/lb\/api\//);
  t.regex((await tool(folder, 'none')).err, /does not respond|no gateway|not found/i, 'unknown here: a deployed one is meant');

  // A project must not name another host, nor a server that is gone.
  for (const file of [
    { pid: process.pid, url: 'http://evil.example:80' },
    { pid: 4_194_303, url: base },
  ]) {
    await mkdir(join(elsewhere, '.tool/dev'), { recursive: true });
    await writeFile(join(elsewhere, '.tool/dev/run.json'), JSON.stringify(file));
    t.notRegex((await tool(elsewhere, 'echo')).err, /development server/);
  }
});

test('the public npm client calls it', async (t) => {
  const client = (name: string): NonNullable<ReturnType<ReturnType<typeof runpodSdk>['endpoint']>> => {
    const endpoint = runpodSdk('any', { baseUrl: `${base}/v2` }).endpoint(name);
    if (endpoint === null) throw new Error('the client made no endpoint');
    return endpoint;
  };
  t.like(await client('echo').runSync({ input: { n: 1 } }), { status: 'COMPLETED', output: { n: 1 } });
  const { id } = await client('words').run({ input: { text: 'one two' } });
  const chunks: unknown[] = [];
  for await (const chunk of client('words').stream(id)) chunks.push(chunk);
  t.deepEqual(chunks, [{ output: 'one' }, { output: 'two' }]);
});

test('a page of another site gets nothing, nor does a name that was rebound to this host', async (t) => {
  const call = caller(base, null);
  for (const headers of [
    { origin: 'https://evil.example' },
    { origin: 'null' },
    { 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'no-cors' },
  ])
    for (const path of ['/v2/echo/runsync', '/app/echo/runsync', '/lb/api/items/1'])
      t.is((await call('POST', path, { body: { input: {} }, headers })).status, 403, JSON.stringify(headers));
  t.is((await call('POST', '/v2/echo/runsync', { body: { input: {} }, headers: { origin: 'http://localhost:3000' } })).status, 200);
});
