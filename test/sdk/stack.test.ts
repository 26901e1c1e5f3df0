/**
 * Both SDKs against the real stack: declared functions and classes in real workers, called from outside, and
 * from one another with the worker's own token.
 */
import { execFile, spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';

import test from 'ava';

import { Endpoint, JobCancelledError, JobFailedError, NotFoundError } from '../../sdk/typescript/sdk.ts';
import { Stack } from '../support/stack.ts';
import { until } from '../support/until.ts';
import { folderOf } from '../support/folder.ts';

const sdk = join(import.meta.dirname, '../../sdk');
const found = spawnSync('python3', ['-c', 'import sys; sys.exit(sys.version_info < (3, 8))']).status === 0;
const skipped = found ? '' : ' (skipped: no Python 3.8 or newer)';
const check = { serial: found ? test.serial : test.serial.skip };

let stack: Stack;
test.before(async () => {
  if (found) stack = await Stack.start();
});
test.after.always(() => stack?.close());

const APPLICATION = `
import time
import capstan

@capstan.Endpoint(name="greet", cpu="cpu3c-1-2", max_concurrency=4)
async def greet(name: str, ctx: capstan.Context):
    ctx.progress({"percent": 50})
    return {"greeting": "hello " + name, "attempt": ctx.attempt}

@capstan.Endpoint(name="model")
class Model:
    def __init__(self):
        self.calls = 0

    def embed(self, text):
        self.calls += 1
        return [len(text), self.calls]

    def fail(self):
        raise ValueError("the model is tired")

@capstan.Endpoint(name="count")
def count(to: int):
    for i in range(to):
        yield {"i": i}

@capstan.Endpoint(name="slow")
def slow():
    time.sleep(3600)
`;

const CALLER = `
import asyncio, json, os, sys
import capstan
from capstan import aio

ids = json.loads(sys.argv[1])
greet = capstan.Endpoint(ids["greet"])
job = greet.run({"name": "one"})
assert job.status() in ("IN_QUEUE", "IN_PROGRESS", "COMPLETED"), job
assert job.output(timeout=60) == {"greeting": "hello one", "attempt": 1}, job
assert job.done and job.error is None
assert greet.run_sync({"name": "two"})["greeting"] == "hello two"
assert greet.health()["jobs"]["completed"] >= 2

model = capstan.Endpoint(ids["model"])
assert model.run_sync({"method": "embed", "text": "four"}) == [4, 1]
assert model.run_sync({"method": "embed", "text": "four"}) == [4, 2]
try:
    model.run_sync({"method": "fail"})
    raise AssertionError("it must fail")
except capstan.JobFailed as error:
    assert error.error == "the model is tired", error
    error.job.retry()
    assert error.job.wait().error == "the model is tired"

assert list(capstan.Endpoint(ids["count"]).run({"to": 40}).stream()) == [{"i": i} for i in range(40)]

slow = capstan.Endpoint(ids["slow"])
job = slow.run({})
job.cancel()
try:
    job.output()
    raise AssertionError("it was cancelled")
except capstan.JobCancelled:
    pass
# The cancel of a job that has ended is no error: a caller may cancel in \`finally\`.
job.cancel()
assert job.status() == "CANCELLED", job.status()
assert slow.purge_queue() == 0

for wrong, kind in ((capstan.Endpoint("nowhere"), capstan.NotFound), (capstan.Endpoint(ids["greet"], api_key="wrong"), capstan.AuthenticationError)):
    try:
        wrong.run({})
        raise AssertionError("it must be refused")
    except kind:
        pass

async def main():
    endpoint = aio.Endpoint(ids["greet"])
    answers = await asyncio.gather(*[endpoint.run_sync({"name": str(i)}) for i in range(30)])
    assert [each["greeting"] for each in answers] == ["hello %d" % i for i in range(30)], answers
    job = await aio.Endpoint(ids["count"]).run({"to": 3})
    assert [each async for each in job.stream()] == [{"i": 0}, {"i": 1}, {"i": 2}]
    await aio.close()

asyncio.run(main())
print("all held")
`;

check.serial(`declared functions and classes, called from Python and TypeScript${skipped}`, async (t) => {
  const folder = await folderOf(t, { 'app.py': APPLICATION });
  const outside = await folderOf(t, { 'caller.py': CALLER });
  const stack = await Stack.start();
  t.teardown(() => stack.close());
  const ids = Object.fromEntries(await stack.deploy(folder));

  const env = { PATH: process.env['PATH'] ?? '', PYTHONPATH: join(sdk, 'python'), SERVICE_API_KEY: stack.apiKey, CAPSTAN_URL: stack.url };
  const { stdout } = await promisify(execFile)('python3', [join(outside, 'caller.py'), JSON.stringify(ids)], { env });
  t.is(stdout, 'all held\n');

  const options = { apiKey: stack.apiKey, baseUrl: stack.url };
  const endpoint = (name: string) => new Endpoint(ids[name] ?? '', options);
  t.deepEqual(await endpoint('greet').runSync({ name: 'three' }), { greeting: 'hello three', attempt: 1 });
  const failed = await t.throwsAsync(endpoint('model').runSync({ method: 'fail' }), { instanceOf: JobFailedError });
  t.is(failed.error, 'the model is tired');
  const chunks: unknown[] = [];
  for await (const chunk of (await endpoint('count').run({ to: 2 })).stream()) chunks.push(chunk);
  t.deepEqual(chunks, [{ i: 0 }, { i: 1 }]);
  const job = await endpoint('slow').run({});
  await job.cancel();
  await t.throwsAsync(job.output(), { instanceOf: JobCancelledError });
  await t.throwsAsync(new Endpoint('nowhere', options).health(), { instanceOf: NotFoundError });
});

/** Calls within one language and from one to the other, to a queue's class and to a route. */
const crossing = {
  'model_worker.py': `
import capstan

@capstan.Endpoint(name="model")
class Model:
    def __init__(self):
        self.calls = 0

    def embed(self, text: str):
        if not text:
            raise ValueError("there is no text")
        self.calls += 1
        return {"length": len(text), "calls": self.calls}
`,
  'relay_worker.py': `
import capstan

@capstan.Endpoint(name="relay")
def relay(texts: list):
    from model_worker import Model
    model = Model()
    found = []
    for text in texts:
        try:
            found.append(model.embed(text))
        except capstan.RemoteError as error:
            found.append({"error": str(error), "endpoint": error.endpoint})
    return found

@capstan.Endpoint(name="reads")
def reads(to: int):
    # A route in TypeScript.
    yield from capstan.remote.stub("ticks", parameters=["to"], is_generator=True)(to)

@capstan.Endpoint(name="waits")
def waits():
    from held_worker import hold
    return hold()
`,
  'held_worker.py': `
import time
import capstan

@capstan.Endpoint(name="held")
def hold():
    time.sleep(3600)

steps_api = capstan.Endpoint(name="steps-api")

@steps_api.get("/steps/{to}")
def steps(to: int):
    for i in range(to):
        yield {"step": i}
`,
  'relay_worker.ts': `
import { endpoint, remote, remoteClass, type RemoteError } from '@capstan/sdk';

const Model = remoteClass('Model', { embed: { parameters: ['text'] } });
const words = remote('words', { parameters: ['text'] });

export const relayInThread = endpoint({ name: 'relay-thread' }, async (text: string) => {
  const failed = await words('').catch((error: RemoteError) => error.message);
  return [await new Model()['embed']!(text), await words(text), failed];
});

// A route in Python.
export const readsInThread = endpoint({ name: 'reads-thread' }, async function* readsInThread(to: number) {
  yield* remote('steps', { parameters: ['to'], isGenerator: true })(to);
});

export const waitsInThread = endpoint({ name: 'waits-thread' }, async () => remote('hold', { parameters: [] })());
`,
  'api_worker.ts': `
import { Endpoint } from '@capstan/sdk';

export const api = new Endpoint({ name: 'api' });

api.post('/words', function words(text: string) {
  if (text === '') throw new Error('there are no words');
  return { words: text.split(' ').length };
});

api.get('/ticks', function* ticks(to: number) {
  for (let i = 0; i < to; i += 1) yield 'tick ' + i;
});
`,
};

check.serial(`functions call those of other endpoints${skipped}`, async (t) => {
  const ids = await stack.deploy(await folderOf(t, crossing));
  const call = async (name: string, input: object): Promise<unknown> => {
    const id = ids.get(name) ?? '';
    const { output, error } = await stack.ended(id, await stack.run(id, input), 90_000);
    t.is(error, undefined, `${name}: ${error ?? ''}`);
    return output;
  };
  t.deepEqual(await call('relay', { texts: ['four', '', 'again'] }), [
    { length: 4, calls: 1 },
    { error: 'there is no text', endpoint: 'model' },
    { length: 5, calls: 2 },
  ]);
  const [embedded, counted, failed] = (await call('relay-thread', { text: 'two words' })) as unknown[];
  t.deepEqual(embedded, { length: 9, calls: 3 });
  t.deepEqual(counted, { words: 2 });
  t.is(failed, 'there are no words');

  // What a route yields comes as it was yielded.
  t.deepEqual(await call('reads', { to: 3 }), ['tick 0', 'tick 1', 'tick 2']);
  t.deepEqual(await call('reads-thread', { to: 2 }), [{ step: 0 }, { step: 1 }]);

  // Jobs that are cancelled take those they wait for with them: one runs there, one is in the queue.
  const options = { apiKey: stack.apiKey, baseUrl: stack.url };
  const held = new Endpoint(ids.get('held') ?? '', options);
  const jobs = [];
  for (const name of ['waits', 'waits-thread']) jobs.push(await new Endpoint(ids.get(name) ?? '', options).run({}));
  const open = async (): Promise<number> => {
    const { jobs: counts } = await held.health();
    return counts.inProgress + counts.inQueue;
  };
  await until('both wait', async () => (await open()) === 2, 60_000);
  for (const job of jobs) await job.cancel();
  await until('neither is waited for', async () => (await open()) === 0, 60_000);
});
