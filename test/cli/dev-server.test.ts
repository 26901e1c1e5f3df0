/** `capstan run`: a new project served on this machine, changed while it is served, in both languages. */
import { mkdir, readdir, readFile, realpath, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import test from 'ava';

import { processesOf } from '../support/processes.ts';
import { until } from '../support/until.ts';
import { run } from './fakes/run.ts';
import { folderOf } from '../support/folder.ts';

const bin = join(import.meta.dirname, '../../cli/main.ts');

interface Answer {
  readonly status: number;
  readonly body: unknown;
}

for (const { language, ending, from, to, broken, more } of [
  {
    language: 'python',
    ending: 'py',
    from: '{"status": "ok"',
    to: '{"status": "changed"',
    broken: 'def broken(:\n',
    more: `from capstan import Endpoint

@Endpoint(name="more")
class Counter:
    def __init__(self):
        self.count = 0
    async def add(self, by: int):
        self.count += by
        return self.count

@Endpoint(name="failing")
def failing(text: str):
    yield text
    raise ValueError("no more")
`,
  },
  {
    language: 'typescript',
    ending: 'ts',
    from: "{ status: 'ok'",
    to: "{ status: 'changed'",
    broken: 'const = 1;\n',
    more: `import { endpoint } from '@capstan/sdk';

export const Counter = endpoint({ name: 'more' }, class {
  count = 0;
  async add(by: number) { this.count += by; return this.count; }
});

export const failing = endpoint({ name: 'failing' }, function* (text: string) {
  yield text;
  throw new Error('no more');
});
`,
  },
]) {
  test(`serves a new project, and what becomes of it, in ${language}`, async (t) => {
    const root = await realpath(await folderOf(t));
    const made = run([bin, 'init', 'fruit', '--language', language], { cwd: root });
    t.is(await made.ended, 0, made.stderr());
    const folder = join(root, 'fruit');
    // The mark by which what it starts is found.
    const server = run([bin, 'run', '--port', '0'], { cwd: folder, env: { TMPDIR: root } });
    t.teardown(() => server.child.kill('SIGKILL'));
    const [, base = ''] = await server.hear(/development server: (http:\/\/localhost:\d+)/);
    const call = async (path: string, body?: object): Promise<Answer> => {
      const init =
        body === undefined ? {} : { method: 'POST', body: JSON.stringify(body), headers: { 'content-type': 'application/json' } };
      const response = await fetch(`${base}${path}`, init);
      return { status: response.status, body: await response.json() };
    };

    t.deepEqual(await call('/lb_worker/health'), { status: 200, body: { status: 'ok', service: 'fruit' } });
    t.like(await call('/cpu_worker/runsync', { input: { query: 'pear' } }), {
      status: 200,
      body: { status: 'COMPLETED', output: { query: 'pear', best: 'pear tree' } },
    });
    t.like(await call('/cpu_worker/search/runsync', { input: { query: 'plum' } }), { body: { output: { best: 'plum jam' } } });
    t.deepEqual(await call('/lb_worker/count', { text: 1 }), {
      status: 422,
      body: { error: 'Unprocessable Content', detail: 'text: must be a string' },
    });
    t.like(await call('/lb_worker/count', {}), { status: 422, body: { detail: 'missing argument: text' } });
    t.like(await call('/gpu_worker/runsync', { text: 'a' }), {
      status: 422,
      body: { detail: 'the body must be an object with the key input, which must be an object' },
    });
    t.is((await call('/nowhere')).status, 404);
    const { body: document } = (await call('/openapi.json')) as { body: { paths: Record<string, unknown> } };
    t.deepEqual(Object.keys(document.paths).sort(), [
      '/cpu_worker/runsync',
      '/cpu_worker/search/runsync',
      '/gpu_worker/embed/runsync',
      '/gpu_worker/runsync',
      '/lb_worker/count',
      '/lb_worker/health',
    ]);
    t.is((await fetch(`${base}/docs/`)).status, 200);

    const file = join(folder, `lb_worker.${ending}`);
    await writeFile(file, (await readFile(file, 'utf8')).replace(from, to));
    await until('the change is served', async () => JSON.stringify((await call('/lb_worker/health')).body).includes('changed'), 10_000);

    await writeFile(join(folder, `more.${ending}`), more);
    await until('the new file is served', async () => (await call('/more/Counter/runsync', { input: { by: 2 } })).status === 200, 10_000);
    t.like(await call('/more/Counter/runsync', { input: { by: 2 } }), { body: { output: 4 } });
    t.like(await call('/more/failing/runsync', { input: { text: 'x' } }), { status: 200, body: { status: 'FAILED', error: 'no more' } });

    // Ignore files count as they are now.
    await writeFile(join(folder, '.gitignore'), `more.${ending}\n`);
    const statusOfMore = async (): Promise<number> => (await call('/more/Counter/runsync', { input: { by: 2 } })).status;
    await until('the ignored file is no longer served', async () => (await statusOfMore()) === 404, 10_000);
    await rename(join(folder, '.gitignore'), join(folder, '.toolignore'));
    await writeFile(join(folder, '.toolignore'), '');
    await until('it is served again', async () => (await statusOfMore()) === 200, 10_000);

    const mention = language === 'python' ? 'import capstan\n' : "import '@capstan/sdk';\n";
    await writeFile(join(folder, `bad.${ending}`), mention + broken);
    const fault = await until(
      'the fault is shown',
      async () => {
        const answer = await call('/bad/run');
        return answer.status === 500 ? answer : null;
      },
      10_000,
    );
    t.regex(JSON.stringify(fault.body), new RegExp(`bad\\.${ending}:2:\\d+: `));
    t.is((await call('/lb_worker/health')).status, 200, 'the other files are served');
    await server.hear(new RegExp(`✗ bad\\.${ending}:2:\\d+: .*\n *1 \\| .*\n *> 2 \\| ${broken.trim().replaceAll('(', '\\(')}`));
    await rm(join(folder, `bad.${ending}`));
    await until('it is forgotten', async () => (await call('/bad/run')).status === 404, 10_000);

    // An endpoint whose file breaks says so by its name, too, until the file is mended.
    await writeFile(join(folder, `more.${ending}`), mention + broken);
    const bad = { status: 500, title: 'Syntax error' };
    await until('it is broken', async () => (await call('/v2/more/health')).status === 500, 10_000);
    t.like(await call('/v2/more/runsync', { input: { by: 1 } }), { body: bad });
    t.is((await call('/v2/failing/health')).status, 500, 'of the same file');
    t.is((await call('/v2/none/health')).status, 404);
    await writeFile(join(folder, `more.${ending}`), more);
    await until('it is served again', async () => (await call('/v2/more/health')).status === 200, 10_000);
    t.like(await call('/v2/more/runsync', { input: { by: 3 } }), { body: { status: 'COMPLETED', output: 3 } });
    await server.hear(new RegExp(`reloaded more\\.${ending} in \\d+ ms`));
    await server.hear(/POST \/v2\/more\/runsync 200 \d+ ms/);

    // A terminal's Ctrl+C right after a change, passed on once more by whoever started it.
    await writeFile(join(folder, 'late.json'), '{}');
    server.child.kill('SIGINT');
    server.child.kill('SIGINT');
    t.is(await server.ended, 0, server.stderr());
    // Its own end is no news.
    t.notRegex(server.stderr(), /killed/);
    t.deepEqual(processesOf(root), []);
  });
}

const PYTHON = `import os, time
from capstan import Endpoint

api = Endpoint(name="py-api")

@api.get("/items/{id}")
def item(id: int, full: bool = False):
    return {"id": id, "full": full}

@api.get("/events")
def events(until: str):
    yield {"n": 1}
    while not os.path.exists(until):
        time.sleep(0.01)
    yield {"n": 2}

@api.get("/held")
def held(until: str):
    while not os.path.exists(until):
        time.sleep(0.01)
    return "old"

@api.post("/failing")
def failing():
    raise ValueError("no <more>")

@Endpoint(name="py-queue", execution_timeout_ms=5000)
def spin(turns: int):
    while turns:
        time.sleep(0.01)
    return "done"
`;

const TYPESCRIPT = `import { endpoint, Endpoint } from '@capstan/sdk';

export const ids = endpoint({ name: 'ts-ids' }, (id: bigint, more: unknown) => [id, more]);

const api = new Endpoint({ name: 'ts-api' });
api.post('/echo', async (request: Request) => new Response(request.body, {
  status: 201,
  headers: { 'content-type': 'text/csv', 'x-path': new URL(request.url).pathname, 'x-sent': request.headers.get('content-type') ?? '' },
}));
api.get('/invalid', () => new Response('x', { headers: { 'transfer-encoding': 'gzip' } }));
`;

test('routes get and give what deployed ones do, in a project of two languages', async (t) => {
  const root = await realpath(await folderOf(t));
  const folder = join(root, 'project');
  const [first, second, held] = [join(root, 'first'), join(root, 'second'), join(root, 'held')];
  await mkdir(folder);
  await writeFile(join(folder, 'api.py'), PYTHON);
  await writeFile(join(folder, 'web.ts'), TYPESCRIPT);
  const server = run([bin, 'run', '--port', '0'], { cwd: folder, env: { TMPDIR: root } });
  t.teardown(() => server.child.kill('SIGKILL'));
  const [, base = ''] = await server.hear(/development server: (http:\/\/localhost:\d+)/);

  // A function that takes the request reads its body and answers as it likes.
  const echoed = await fetch(`${base}/web/echo`, { method: 'POST', body: 'a,b', headers: { 'content-type': 'text/plain' } });
  t.is(echoed.status, 201);
  t.deepEqual(
    [echoed.headers.get('content-type'), echoed.headers.get('x-path'), echoed.headers.get('x-sent')],
    ['text/csv', '/echo', 'text/plain'],
  );
  t.is(await echoed.text(), 'a,b');
  t.deepEqual(await (await fetch(`${base}/api/items/3?full=true&stray=1`)).json(), { id: 3, full: true });
  t.is((await fetch(`${base}/api/items/3/`)).status, 404);
  t.is((await fetch(`${base}/api/items/3`, { method: 'HEAD' })).status, 200);
  const refused = await fetch(`${base}/api/items/3`, { method: 'PUT' });
  t.deepEqual([refused.status, refused.headers.get('allow')], [405, 'GET']);
  t.is((await fetch(`${base}/api/items/three`)).status, 422);

  // A response that no caller would get when it is deployed is none here either.
  const invalid = await fetch(`${base}/web/invalid`);
  t.is(invalid.status, 500);
  const detail = 'the header transfer-encoding must be absent or chunked';
  t.deepEqual(await invalid.json(), { error: 'Internal Server Error', detail });
  await server.hear(/the response to GET \/invalid is invalid/);

  // Chunks come when they are there.
  const events = await fetch(`${base}/api/events?until=${first}`, { headers: { accept: 'text/event-stream' } });
  const reader = events.body?.pipeThrough(new TextDecoderStream()).getReader();
  t.is((await reader?.read())?.value, 'data: {"n":1}\n\n');
  await writeFile(first, '');
  t.is((await reader?.read())?.value, 'data: {"n":2}\n\n');

  // People get a page where programs get `{error, detail}`.
  const failed = async (accept: string): Promise<Response> => fetch(`${base}/api/failing`, { method: 'POST', headers: { accept } });
  t.deepEqual(await (await failed('*/*')).json(), { error: 'Internal Server Error', detail: 'no <more>' });
  const page = await (await failed('text/html')).text();
  t.regex(page, /<pre>no &lt;more&gt;<\/pre>/);
  t.regex(page, /in failing/, 'what the worker printed');
  t.regex(await (await fetch(`${base}/nowhere`, { headers: { accept: 'text/html' } })).text(), /GET \/api\/items\/\{id\}/);

  const json = { 'content-type': 'application/json' };
  t.is((await fetch(`${base}/api/runsync`, { method: 'POST', body: '{"input":{"turns":1}}' })).status, 415, 'as on a deployed endpoint');
  const job = await fetch(`${base}/api/runsync`, { method: 'POST', body: '{"input":{"turns":1}}', headers: json });
  t.like(await job.json(), { status: 'TIMED_OUT', error: 'executionTimeout exceeded' });

  const digits = '1970670598291982291';
  const ids = await fetch(`${base}/web/runsync`, { method: 'POST', body: `{"input":{"id":${digits},"more":[${digits}]}}`, headers: json });
  t.true((await ids.text()).endsWith(`"output":[${digits},[${digits}]]}`));

  // A call in flight ends on the code it began with.
  const call = fetch(`${base}/api/held?until=${held}`);
  const other = await fetch(`${base}/api/events?until=${second}`);
  await writeFile(join(folder, 'api.py'), PYTHON.replace('"old"', '"new"').replace('"full": full', '"whole": full'));
  await until('the change is served', async () => (await (await fetch(`${base}/api/items/3`)).text()).includes('whole'), 10_000);
  await writeFile(held, '');
  t.is(await (await call).json(), 'old');
  t.is(await (await fetch(`${base}/api/held?until=${held}`)).json(), 'new');

  // Editors put a new file in the old one's place, again and again.
  for (const key of ['first', 'second', 'third']) {
    await writeFile(join(folder, 'sedX1'), PYTHON.replace('"full": full', `"${key}": full`));
    await rename(join(folder, 'sedX1'), join(folder, 'api.py'));
    await until('it is served', async () => (await (await fetch(`${base}/api/items/3`)).text()).includes(key), 10_000);
  }

  // What is still running ends with the server.
  server.child.kill('SIGINT');
  t.is(await server.ended, 0, server.stderr());
  await t.throwsAsync(other.text());
  t.deepEqual(processesOf(root), []);
  t.deepEqual((await readdir(folder)).sort(), ['api.py', 'web.ts']);
});

test('the Python that a script requires is checked again once its header has changed', async (t) => {
  const source = (version: string): string =>
    `# /// script\n# requires-python = "${version}"\n# ///\nfrom capstan import Endpoint\n@Endpoint(name="one")\ndef one(): return 1\n`;
  const folder = await folderOf(t, { 'main.py': source('>=3.99') });
  const server = run([bin, 'run', '--port', '0'], { cwd: folder });
  t.teardown(() => server.child.kill('SIGKILL'));
  const [, base = ''] = await server.hear(/development server: (http:\/\/localhost:\d+)/);
  const json = { method: 'POST', body: '{"input":{}}', headers: { 'content-type': 'application/json' } };
  const call = async (): Promise<string> => (await fetch(`${base}/main/runsync`, json)).text();
  t.regex(await call(), /requires Python >=3\.99/);
  await writeFile(join(folder, 'main.py'), source('>=3.8'));
  await until('the job runs', async () => (await call()).includes('COMPLETED'));
  server.child.kill('SIGINT');
  t.is(await server.ended, 0);
});
