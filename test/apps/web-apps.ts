/** The web applications of examples/, deployed with the real packages of PyPI and npm, and called over HTTP. */
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';

import test, { type ExecutionContext } from 'ava';
import { WebSocket } from 'undici';

import { folderOf } from '../support/folder.ts';
import { sharedStack } from '../support/shared-stack.ts';
import type { Stack } from '../support/stack.ts';
import { until } from '../support/until.ts';

const examples = join(import.meta.dirname, '../../examples');

/** Why a registry cannot be used here; null when it can. */
const missing = {
  pypi: spawnSync('python3', ['-m', 'pip', 'index', 'versions', 'waitress']).status === 0 ? null : 'there is no package index',
  npm: spawnSync('npm', ['view', 'hono', 'version']).status === 0 ? null : 'there is no npm registry',
};

const start = sharedStack(test, { CAPSTAN_LB_HOLD_MS: '60000' });
let stack: Stack;
test.before(async () => {
  stack = await start();
});

/** A test that is skipped, with the reason, without the registry. */
function withRegistry(registry: keyof typeof missing, title: string, run: (t: ExecutionContext) => Promise<void>): void {
  const reason = missing[registry];
  if (reason === null) test.serial(title, run);
  else test.skip(`${title} (${reason})`, run);
}

/** The answer of a WebSocket to one message. */
async function echoed(url: string, text: string): Promise<unknown> {
  const socket = new WebSocket(url.replace(/^http/, 'ws'), { headers: { authorization: `Bearer ${stack.apiKey}` } });
  const { promise, resolve, reject } = Promise.withResolvers<unknown>();
  socket.addEventListener('open', () => socket.send(text));
  socket.addEventListener('message', ({ data }) => resolve(data));
  socket.addEventListener('error', ({ message }) => reject(new Error(message)));
  socket.addEventListener('close', ({ code }) => reject(new Error(`closed with ${code}`)));
  return promise;
}

interface Call {
  (path: string, body?: unknown): Promise<Response>;
  readonly url: string;
}

/** Deploys an example; returns a function that requests a path of its endpoint. */
async function deployed(name: string, folder = name): Promise<Call> {
  const ids = await stack.deploy(join(examples, folder));
  const id = ids.get(name) ?? '';
  const call = (path: string, body?: unknown): Promise<Response> =>
    stack.call(`/lb/${id}${path}`, body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) });
  return Object.assign(call, { url: `${stack.url}/lb/${id}` });
}

async function json(answer: Promise<Response>): Promise<unknown> {
  return (await answer).json();
}

withRegistry('pypi', 'FastAPI: validation, lifespan, a stream, several requests at once, a WebSocket', async (t) => {
  const call = await deployed('fastapi');
  t.deepEqual(await json(call('/')), { framework: 'FastAPI' });
  t.deepEqual(await json(call('/greet', { name: 'Ada', times: 2 })), { text: 'Hello, Ada! Hello, Ada!' });
  const refused = await call('/greet', { times: 'x' });
  t.is(refused.status, 422);
  t.is(await (await call('/count?to=4')).text(), '0\n1\n2\n3\n');
  // One worker at most: all of them are answered by the one that serves.
  const answers = await Promise.all(Array.from({ length: 20 }, () => json(call('/'))));
  t.is(new Set(answers.map((each) => JSON.stringify(each))).size, 1);
  t.is(await echoed(`${call.url}/echo`, 'hello'), 'echo: hello');
  const paths = (await json(call('/openapi.json'))) as { paths: object };
  t.deepEqual(Object.keys(paths.paths), ['/', '/greet', '/count']);
  const page = await (await call('/docs')).text();
  t.true(page.includes(`'${new URL(call.url).pathname}/openapi.json'`), 'the page of FastAPI finds its document');
});

withRegistry('pypi', 'Flask', async (t) => {
  const call = await deployed('flask');
  t.deepEqual(await json(call('/')), { framework: 'Flask' });
  t.deepEqual(await json(call('/sum', { numbers: [1, 2, 3] })), { sum: 6 });
  t.is(await (await call('/count')).text(), '0\n1\n2\n');
  t.is((await call('/none')).status, 404);
});

withRegistry('pypi', 'Django, by the name of its application', async (t) => {
  const call = await deployed('django');
  t.deepEqual(await json(call('/')), { framework: 'Django' });
  t.deepEqual(await json(call('/items/7/')), { item: 7, method: 'GET' });
});

withRegistry('pypi', 'a command finds the programs of the packages', async (t) => {
  const call = await deployed('starlette', 'starlette-command');
  t.deepEqual(await json(call('/')), { framework: 'Starlette' });
});

for (const [name, framework] of [
  ['express', 'Express'],
  ['fastify', 'Fastify'],
  ['hono', 'Hono'],
] as const) {
  withRegistry('npm', framework, async (t) => {
    const call = await deployed(name);
    t.deepEqual(await json(call('/')), { framework });
    t.deepEqual(await json(call('/sum', { numbers: [1, 2, 3] })), { sum: 6 });
    if (name === 'hono') t.is(await (await call('/count')).text(), '0\n1\n2\n');
  });
}

test.serial('a file that listens itself, without any package', async (t) => {
  const call = await deployed('node-http');
  t.deepEqual(await json(call('/')), { framework: 'node:http' });
});

const broken = {
  'endpoints.py': `from capstan import Endpoint
Endpoint(name="broken", command=["python3", "broken.py"])
Endpoint(name="deaf", command=["python3", "deaf.py"], start_timeout=2)
Endpoint(name="patient", command=["python3", "deaf.py"])
`,
  'broken.py': 'import no_such_module\n',
  'deaf.py': 'import time\nprint("listening nowhere", flush=True)\nwhile True: time.sleep(1)\n',
};

test.serial('a server that ends or never listens is a failed start, with what was tried and what it printed', async (t) => {
  const folder = await folderOf(t, broken);
  const ids = await stack.deploy(folder);
  interface Shown {
    readonly queueReason: string;
    readonly queueDetail: string;
    readonly failedStarts: number;
    readonly lastStartError: string;
    readonly workerList: readonly { readonly detail: string }[];
  }
  const shown = async (name: string): Promise<Shown> => JSON.parse(await stack.tool('endpoints', 'get', name, '--json')) as Shown;
  // Held until a worker serves: the reason that is shown meanwhile is what these tests are about.
  const stop = new AbortController();
  const held = [...ids.values()].map((id) => stack.call(`/lb/${id}/`, { signal: stop.signal }).catch(() => undefined));
  const starting = await until('the start is explained', async () => {
    // Its start does not fail while this is looked at.
    const found = await shown('patient');
    return found.queueDetail.includes('its last output') ? found : null;
  });
  t.is(starting.queueReason, 'WORKER_INITIALIZING');
  t.regex(starting.queueDetail, /GET \/ping on port \d+: connect ECONNREFUSED 127\.0\.0\.1:\d+; its last output: listening nowhere$/);
  const deaf = await until('the start failed', async () => {
    const found = await shown('deaf');
    return found.failedStarts > 0 ? found : null;
  });
  t.regex(
    deaf.lastStartError,
    /not ready after 2000 ms: GET \/ping on port \d+: connect ECONNREFUSED 127\.0\.0\.1:\d+; its last output: listening nowhere$/,
  );
  const dead = await until('three starts failed', async () => {
    const found = await shown('broken');
    return found.queueReason === 'CRASH_LOOP' && found.failedStarts >= 3 ? found : null;
  });
  t.regex(dead.lastStartError, /exited with code 1; its last output: .*ModuleNotFoundError: No module named 'no_such_module'/);
  stop.abort();
  await Promise.all(held);
});
