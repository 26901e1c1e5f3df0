/**
 * Calls of other endpoints' functions from real workers of every runtime, in both languages: the
 * manifest in the build, the worker's environment, the state manager, the targets.
 */
import { cp, mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';

import test, { type ExecutionContext } from 'ava';

import type { Runtime } from '../../agent/runtimes/runtime.ts';
import { nodeSdk } from '../../compiler/build/sdk-files.ts';
import { processRuntime, threadRuntime } from '../conformance/runtime/hosts.ts';
import { startWorkerOf, type TestWorker } from '../conformance/runtime/worker-under-test.ts';
import { fakePeers, type Asked, type FakePeers } from './fake-peers.ts';
import { folderOf } from '../support/folder.ts';

const sdk = join(import.meta.dirname, '../../sdk');

const manifest = JSON.stringify({
  resources: {
    gpu: { functions: [{ name: 'embed', module: 'gpu_worker' }] },
    api: { is_load_balanced: true, functions: [{ name: 'item', module: 'lb_worker' }] },
  },
  routes: { api: { 'GET /items/{id}': 'item', 'POST /items/{id}/notes': 'note', 'GET /lines': 'lines', 'GET /lines/held': 'held' } },
  function_registry: { embed: 'gpu', Model: 'gpu', item: 'api', note: 'api', lines: 'api', held: 'api', lost: 'gone' },
});

const TYPESCRIPT = `
import { endpoint, Endpoint, remote, remoteClass } from '@capstan/sdk';

const embed = remote('embed', { parameters: ['text', 'size'] });
const declared = endpoint({ name: 'gpu', gpu: 'ANY' }, async function embed(text: string, size = 1) { throw new Error('not its worker: ' + text + size); });
const own = endpoint({ name: 'cpu' }, (text: string) => text + '!');
class Model { constructor() { throw new Error('not its worker'); } embed(text: string): string { return text; } }
const Declared = endpoint({ name: 'gpu' }, Model);
const api = new Endpoint({ name: 'api' });
const item = api.get('/items/{id}', (id: string, full = false) => ({ id, full }));
const note = remote('note', { parameters: ['id', 'text'] });
const told = async (work: Promise<unknown>) => { try { return await work; } catch (error: any) { return { name: error.name, message: error.message, endpoint: error.endpointName, status: error.status }; } };

export async function viaStub(text: string) { return embed(text, 2); }
export async function viaDeclaration(text: string) { return declared(text, 3); }
export async function viaClass(text: string) { return [await new Declared().embed(text), await new (remoteClass('Model', { embed: { parameters: ['text'] } }))().embed(text)]; }
export async function ownFunction(text: string) { return own(text); }
const image = new Endpoint({ name: 'gpu', image: 'registry.test/llm:1' });
export async function byName(text: string) { return [await image.runSync({ text }), await (await image.deployed()).runSync({ text }), await told(image.runSync({ text: 'bad' }))]; }
export async function wrongKind() { const server = new Endpoint({ name: 'api', image: 'registry.test/server:1', loadBalanced: true }); return [await server.url(), await told(server.runSync({}))]; }
export async function failing() { return told(embed('bad')); }
export async function* streaming() { yield* remote('embed', { parameters: [], isGenerator: true })(); }
export async function viaRoute(id: string) { return [await item(id, true), await note(id, 'hi')]; }
export async function failingRoute() { return told(item('bad') as any); }
export async function missing() { return told(remote('lost', { parameters: [] })()); }
export async function* lines() { yield* remote('lines', { parameters: [], isGenerator: true })(); }
export async function left() { for await (const chunk of remote('held', { parameters: [], isGenerator: true })()) return chunk; }
export async function* held(text: string) { yield* remote('embed', { parameters: ['text'], isGenerator: true })(text); }
export async function wrong() { return told(embed('a', 1, 2)); }
`;

const PYTHON = `
import capstan
from capstan import remote

embed = remote.stub("embed", parameters=("text", "size"))

@capstan.Endpoint(name="gpu", gpu="ANY")
async def declared(text: str, size: int = 1): raise Exception("not its worker")

@capstan.Endpoint(name="cpu")
def own(text: str): return text + "!"

@capstan.Endpoint(name="gpu")
class Model:
    def __init__(self): raise Exception("not its worker")
    def embed(self, text: str): return text

api = capstan.Endpoint(name="api")

@api.get("/items/{id}")
def item(id: str, full: bool = False): return {"id": id, "full": full}

note = remote.stub("note", parameters=("id", "text"), is_async=True)

def told(work):
    try:
        return work()
    except Exception as error:
        return {"name": type(error).__name__, "message": str(error), "endpoint": getattr(error, "endpoint", None), "status": getattr(error, "status", None)}

def viaStub(text): return embed(text, 2)
async def viaDeclaration(text): return await declared(text, size=3)
def viaClass(text): return [Model().embed(text), remote.stub_class("Model", {"embed": {"parameters": ["text"]}})().embed(text)]
def ownFunction(text): return own(text)
image = capstan.Endpoint(name="gpu", image="registry.test/llm:1")
async def byName(text): return [await capstan.aio.run_sync(image, {"text": text}), image.deployed().run_sync({"text": text}), told(lambda: image.run_sync({"text": "bad"}))]
def wrongKind():
    server = capstan.Endpoint(name="api", image="registry.test/server:1", load_balanced=True)
    return [server.url(), told(lambda: server.run_sync({}))]
def failing(): return told(lambda: embed("bad"))
def streaming(): yield from remote.stub("embed", parameters=(), is_generator=True)()
async def viaRoute(id): return [item(id, full=True), await note(id, "hi")]
def failingRoute(): return told(lambda: item("bad"))
def missing(): return told(remote.stub("lost", parameters=()))
def lines(): yield from remote.stub("lines", parameters=(), is_generator=True)()
def left():
    for chunk in remote.stub("held", parameters=(), is_generator=True)(): return chunk
async def held(text):
    async for chunk in remote.stub("embed", parameters=("text",), is_generator=True, is_async=True)(text): yield chunk
async def linesAsync():
    async for chunk in remote.stub("lines", parameters=(), is_generator=True, is_async=True)(): yield chunk
def wrong(): return told(lambda: embed("a", 1, 2))
`;

/** The SDK as builds carry it, in JavaScript; made once, since each build has the same. */
const packages = await mkdtemp(join(tmpdir(), 'capstan-sdk-'));
for (const { path, content } of await nodeSdk()) {
  await mkdir(dirname(join(packages, path)), { recursive: true });
  await writeFile(join(packages, path), content);
}
test.after.always(() => rm(packages, { recursive: true, force: true }));

interface Kind {
  readonly name: string;
  readonly files: Readonly<Record<string, string>>;
  make(): Runtime;
}

const kinds: readonly Kind[] = [
  { name: 'thread', files: { 'main.ts': TYPESCRIPT }, make: () => threadRuntime() },
  {
    name: 'process/node',
    files: { 'main.ts': TYPESCRIPT },

    make: () => processRuntime(),
  },
  {
    name: 'process/python',
    files: { 'main.py': PYTHON },

    make: () => processRuntime(),
  },
];

for (const kind of kinds) {
  const start = async (
    t: ExecutionContext,
    fn: string,
    maxConcurrency = 1,
  ): Promise<{ readonly worker: TestWorker; readonly asked: Asked[]; readonly heard: FakePeers['heard'] }> => {
    const { url, asked, heard } = await fakePeers(t);
    const folder = await folderOf(t, { ...kind.files, 'tool_manifest.json': manifest });
    if (kind.name === 'process/python') await cp(join(sdk, 'python/capstan'), join(folder, 'python_packages/capstan'), { recursive: true });
    else await symlink(join(packages, 'node_modules'), join(folder, 'node_modules'));
    const runtime = kind.make();
    t.teardown(() => runtime.close());
    const env = {
      CAPSTAN_URL: url,
      CAPSTAN_WORKER_TOKEN: 'the-token',
      CAPSTAN_ENVIRONMENT: 'staging',
      CAPSTAN_ENDPOINT_NAME: 'cpu',
    };
    const worker = startWorkerOf(runtime, folder, fn, { env, maxConcurrency });
    const first = await worker.said.next(({ say }) => say === 'loaded' || say === 'load-failed');
    t.is(first.say, 'loaded', JSON.stringify(worker.said.items));
    return { worker, asked, heard };
  };
  const says = (title: string, body: (t: ExecutionContext) => Promise<void>): void => test(`${kind.name}: ${title}`, body);

  says('a stub runs the function at its endpoint, and asks for the address once', async (t) => {
    const { worker, asked } = await start(t, 'viaStub');
    t.deepEqual((await worker.call('1', { text: 'hello' })).value, { text: 'hello', size: 2 });
    t.deepEqual((await worker.call('2', { text: 'again' })).value, { text: 'again', size: 2 });
    t.deepEqual(
      asked.map(({ request }) => request.replace(/\?.*/, '')),
      ['POST /graphql', 'POST /v2/id-gpu/runsync', 'POST /v2/id-gpu/runsync'],
    );
    t.like(asked[0]?.body, { variables: { environment: 'staging', name: 'gpu' } });
    t.true(asked.every(({ authorization }) => authorization === 'Bearer the-token'));
  });

  says('a function that another endpoint declares runs there, the own one here', async (t) => {
    const { worker } = await start(t, 'viaDeclaration');
    t.deepEqual((await worker.call('1', { text: 'hello' })).value, { text: 'hello', size: 3 });
    const own = await start(t, 'ownFunction');
    t.is((await own.worker.call('1', { text: 'hello' })).value, 'hello!');
    t.deepEqual(own.asked, []);
  });

  says('an image that serves by itself is called by its name', async (t) => {
    const { worker, asked } = await start(t, 'byName');
    const [first, second, failed] = (await worker.call('1', { text: 'hello' })).value as unknown[];
    t.deepEqual([first, second], [{ text: 'hello' }, { text: 'hello' }]);
    t.like(failed, { name: 'RemoteError', message: 'the text is bad', endpoint: 'gpu' });
    t.is(asked.filter(({ request }) => request === 'POST /graphql').length, 1);
    const other = await start(t, 'wrongKind');
    const [url, refusal] = (await other.worker.call('1')).value as [string, object];
    t.regex(url, /\/lb\/api$/);
    t.like(refusal, { name: 'DispatchError', message: `the endpoint api is load-balanced: it serves requests at ${url}, not jobs` });
  });

  says('methods of a class at another endpoint', async (t) => {
    const { worker } = await start(t, 'viaClass');
    const sent = { method: 'embed', text: 'hello' };
    t.deepEqual((await worker.call('1', { text: 'hello' })).value, [sent, sent]);
  });

  says("the function's error is an exception with its message", async (t) => {
    const { worker } = await start(t, 'failing');
    t.like((await worker.call('1')).value, { name: 'RemoteError', message: 'the text is bad', endpoint: 'gpu' });
  });

  says('a generator gives its chunks', async (t) => {
    const { worker } = await start(t, 'streaming');
    t.deepEqual((await worker.call('1')).value, ['a', 'b']);
  });

  says('routes of a load-balanced endpoint', async (t) => {
    const { worker } = await start(t, 'viaRoute');
    t.deepEqual((await worker.call('1', { id: 'a b' })).value, [
      { method: 'GET', url: '/lb/api/items/a%20b?full=true', body: null },
      { method: 'POST', url: '/lb/api/items/a%20b/notes', body: { text: 'hi' } },
    ]);
    const failing = await start(t, 'failingRoute');
    t.like((await failing.worker.call('1')).value, {
      name: 'RemoteError',
      message: 'id: must be a number',
      endpoint: 'api',
      status: 422,
    });
  });

  says('what is missing, and what does not fit, is told', async (t) => {
    const { worker } = await start(t, 'missing');
    t.like((await worker.call('1')).value, {
      name: 'DispatchError',
      message: 'the endpoint gone does not exist in the environment staging',
    });
    const wrong = await start(t, 'wrong');
    t.like((await wrong.worker.call('1')).value, { name: 'TypeError' });
    t.deepEqual(wrong.asked, []);
  });

  says('what a route yields comes chunk by chunk, as it was yielded; a stream that is left ends there', async (t) => {
    for (const fn of kind.name === 'process/python' ? ['lines', 'linesAsync'] : ['lines']) {
      const { worker, asked } = await start(t, fn);
      t.deepEqual((await worker.call('1')).value, ['a', { n: 1 }]);
      t.regex(asked[1]?.accept ?? '', /^application\/x-ndjson/);
    }
    const { worker, heard } = await start(t, 'left');
    t.is((await worker.call('1')).value, 'a');
    await heard('LEFT');
  });

  // In threads of Python, too, where nothing interrupts a call that waits.
  for (const atOnce of kind.name === 'process/python' ? [1, 2] : [1]) {
    says(`a job that is stopped cancels the one it waits for (${atOnce} at once)`, async (t) => {
      const { worker, asked, heard } = await start(t, 'viaStub', atOnce);
      worker.run('1', { text: 'held' });
      const waiting = await heard('POST /v2/id-gpu/runsync');
      worker.worker.cancel('1');
      await heard('POST /v2/id-gpu/cancel/job-held');
      // The id was not known yet: the same submission told it.
      const again = asked.find(({ request }) => request === 'POST /v2/id-gpu/run');
      t.deepEqual([again?.idempotencyKey, again?.body], [waiting.idempotencyKey, waiting.body]);
    });
  }

  says('a job that is stopped cancels the one whose stream it reads', async (t) => {
    const { worker, heard } = await start(t, 'held');
    worker.run('1', { text: 'held' });
    await worker.hear('chunk');
    worker.worker.cancel('1');
    await heard('POST /v2/id-gpu/cancel/job-held');
    t.is((await worker.ended('1')).result.kind, 'stopped');
  });
}
