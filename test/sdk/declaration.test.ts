/** Declaring endpoints in TypeScript: what stays callable, what is recorded, what is refused. */
import test from 'ava';
import { z } from 'zod';

import {
  checkApplication,
  Declaration,
  DeclarationError,
  declarationOf,
  declarations,
  endpoint,
  Endpoint,
  EndpointClient,
  forgetDeclarations,
  GpuGroup,
  InputError,
  type EndpointSettings,
  type JobContext,
} from '../../sdk/typescript/sdk.ts';

const context = { jobId: 'j' } as JobContext;

test('a declared function stays itself, and carries its declaration', (t) => {
  const length = (text: string): number => text.length;
  const declared = endpoint({ name: 'length', gpu: GpuGroup.ANY, workers: [0, 3] }, length);
  t.is(declared, length);
  t.is(declared('four'), 4);
  const found = declarationOf(declared);
  t.like(found, { name: 'length', isAsync: false, isClass: false, route: undefined });
  t.regex(found?.place ?? '', /declaration\.test\.ts:\d+$/);
  t.deepEqual(found?.endpoint.resource(), {
    workersMin: 0,
    workersMax: 3,
    idleTimeout: 60,
    keepIdle: false,
    public: false,
    maxConcurrency: 1,
    startTimeout: 0,
    executionTimeoutMs: 0,
    scalerValue: 4,
    gpuIds: 'ANY',
    gpuCount: 1,
    functions: [{ name: 'length', is_async: false, is_class: false }],
  });
});

test('the defaults are those of the tool: workers 0 to 1, idle for 60 s; a number of workers is the maximum', (t) => {
  t.like(new Declaration({ name: 'a' }).settings, { workersMin: 0, workersMax: 1, idleTimeout: 60, gpu: [], gpuCount: 0, cpu: undefined });
  t.like(new Declaration({ name: 'a', workers: 5 }).settings, { workersMin: 0, workersMax: 5 });
});

test('every setting reaches the manifest', (t) => {
  const declared = new Declaration({
    name: 'all',
    description: 'Everything',
    gpu: ['ADA_24', 'NVIDIA L4'],
    gpuCount: 2,
    workers: [1, 2],
    idleTimeout: 300,
    keepIdle: true,
    minCuda: '12.4',
    minDriver: '550.54.15',
    public: false,
    dependencies: ['zod@4'],
    systemDependencies: ['ffmpeg'],
    env: { KEY: 'value' },
    volume: 'models',
    image: 'registry.example/app:1',
    startTimeout: 90,
    executionTimeoutMs: 5000,
    scalerType: 'REQUEST_COUNT',
    scalerValue: 2,
    maxConcurrency: 8,
  });
  t.deepEqual(declared.resource(), {
    description: 'Everything',
    workersMin: 1,
    workersMax: 2,
    idleTimeout: 300,
    keepIdle: true,
    minCuda: '12.4',
    minDriver: '550.54.15',
    public: false,
    maxConcurrency: 8,
    startTimeout: 90,
    executionTimeoutMs: 5000,
    scalerValue: 2,
    gpuIds: 'ADA_24,NVIDIA L4',
    gpuCount: 2,
    imageName: 'registry.example/app:1',
    scalerType: 'REQUEST_COUNT',
    volume: 'models',
    env: { KEY: 'value' },
    dependencies: ['zod@4'],
    systemDependencies: ['ffmpeg'],
    functions: [],
  });
});

const refusals: readonly (readonly [settings: Record<string, unknown>, message: RegExp])[] = [
  [{}, /^name must be/],
  [{ name: '-a' }, /^name must be .*, not "-a"$/],
  [{ name: 'a', gpu: 'ANY', cpu: 'cpu3c-1-2' }, /^endpoint a: gpu and cpu are mutually exclusive/],
  [{ name: 'a', gpu: [] }, /gpu must name at least one/],
  [{ name: 'a', gpu: 4090 }, /gpu must be the name/],
  [{ name: 'a', cpu: '4 cores' }, /cpu must have the form cpu<gen>-<vCPU>-<RAM GB>/],
  [{ name: 'a', workers: [3, 1] }, /workers must have a maximum of at least the minimum, not \[3,1\]/],
  [{ name: 'a', workers: -1 }, /workers must be/],
  [{ name: 'a', idleTimeout: 0 }, /idleTimeout must be an integer between 1 and 3600 s, not 0/],
  [{ name: 'a', idleTimeout: 3601 }, /idleTimeout/],
  [{ name: 'a', executionTimeoutMs: 4999 }, /executionTimeoutMs must be 0/],
  [{ name: 'a', executionTimeoutMs: 604_800_001 }, /executionTimeoutMs/],
  [{ name: 'a', gpuCount: 2 }, /gpuCount requires gpu/],
  [{ name: 'a', dependencies: 'torch' }, /dependencies must be an array of strings/],
  [{ name: 'a', env: { 'A-B': 'x' } }, /env has the name "A-B"/],
  [{ name: 'a', scalerType: 'CPU' }, /scalerType must be QUEUE_DELAY or REQUEST_COUNT/],
  [{ name: 'a', maxConcurrency: 0 }, /maxConcurrency/],
  [{ name: 'a', wrokers: 1 }, /^endpoint a: unknown setting "wrokers" \(did you mean workers\?\)$/],
  [{ name: 'a', somethingElse: 1 }, /^endpoint a: unknown setting "somethingElse"$/],
];

for (const [settings, message] of refusals) {
  test(`refused: ${JSON.stringify(settings)}`, (t) => {
    t.throws(() => new Declaration(settings as unknown as EndpointSettings), { instanceOf: DeclarationError, message });
  });
}

test('a refusal tells no value of env', (t) => {
  const error = t.throws(() => new Declaration({ name: 'a', env: { KEY: 12345 } as never }), { instanceOf: DeclarationError });
  t.is(error.message, 'endpoint a: env must have a string at KEY, not number');
});

test('routes bind functions, which stay themselves', (t) => {
  const api = new Endpoint({ name: 'api', workers: [1, 3] });
  const health = api.get('/health', () => ({ status: 'ok' }));
  const item = api.get('/items/{id}', (id: number) => id);
  api.post('/items', item);
  t.deepEqual(health(), { status: 'ok' });
  t.true(api.isLoadBalanced);
  t.deepEqual(
    api.functions.map(({ route }) => `${route?.method ?? ''} ${route?.path ?? ''}`),
    ['GET /health', 'GET /items/{id}', 'POST /items'],
  );
  t.is((api.resource()['functions'] as unknown[]).length, 2, 'a function that serves two routes is one function');
});

class Model {
  embed(text: string): number {
    return text.length;
  }
}

test('routes keep their rules', (t) => {
  const api = new Endpoint({ name: 'api' });
  const fn = (): number => 1;
  const refuses = (work: () => unknown, message: RegExp): void => void t.throws(work, { instanceOf: DeclarationError, message });
  refuses(() => api.get('health', fn), /the path "health" must start with \//);
  refuses(() => api.get('/a b', fn), /white space/);
  refuses(() => api.get('/a{id}', fn), /a path parameter must be a whole segment/);
  refuses(() => api.get('/{id}/{id}', fn), /twice/);
  api.get('/items/{id}', fn);
  refuses(() => api.get('/items/:key', () => 2), /GET \/items\/:key is already bound \(.*declaration\.test\.ts:\d+\)/);
  refuses(() => api.get('/x', Model), /must have a function/);
  refuses(() => api.get('/x', 7 as never), /must have a function, not number/);
  refuses(() => api.serve(fn, undefined), /already has routes/);
  const queue = new Declaration({ name: 'queue' });
  queue.serve(fn, undefined);
  refuses(() => queue.serve(() => 2, undefined), /already serves fn; a queue-based endpoint must have exactly one function/);
  refuses(() => queue.get('/x', fn), /already serves fn as a queue-based endpoint/);
});

test('a schema checks and changes the input', (t) => {
  const schema = z.object({ text: z.string().trim(), times: z.number().int().default(2) });
  const repeat = endpoint({ name: 'repeat', schema }, ({ text, times }, ctx) => `${ctx.jobId}:${text.repeat(times)}`);
  t.is(repeat({ text: ' ab ' }, context), 'j:abab');
  const error = t.throws(() => repeat({ text: 7, times: 1.5 } as never, context), { instanceOf: InputError });
  t.regex(error.message, /^invalid input: text: .*; times: /);
});

test('a schema that checks asynchronously', async (t) => {
  const schema = z.object({ n: z.number().refine(async (n) => Promise.resolve(n > 0), 'must be positive') });
  const half = endpoint({ name: 'half', schema }, async ({ n }) => Promise.resolve(n / 2));
  t.is(await half({ n: 4 }), 2);
  await t.throwsAsync(half({ n: -1 }), { instanceOf: InputError, message: 'invalid input: n: must be positive' });
});

test('a route with a schema', (t) => {
  const api = new Endpoint({ name: 'api' });
  const analyze = api.post('/analyze', { schema: z.object({ text: z.string() }) }, ({ text }) => text.length);
  t.is(analyze({ text: 'four' }), 4);
  t.throws(() => analyze({} as never), { instanceOf: InputError });
});

test('classes are declared as they are', (t) => {
  t.is(endpoint({ name: 'model' }, Model), Model);
  t.true(declarationOf(Model)?.isClass);
  t.throws(() => new Declaration({ name: 'b' }).serve(Model, z.object({})), { message: /not of a class/ });
});

test('an id is a handle, a name a declaration', (t) => {
  t.true(new Endpoint('abc', { apiKey: 'k' }) instanceof EndpointClient);
  t.is(new Endpoint({ id: 'abc', apiKey: 'k' }).id, 'abc');
  t.true(new Endpoint({ name: 'vllm', image: 'registry.example/vllm:1' }) instanceof Declaration);
  t.throws(() => new Endpoint({ id: 'abc', name: 'x' } as never), { instanceOf: DeclarationError, message: /mutually exclusive/ });
  t.throws(() => new Endpoint(undefined as never), { instanceOf: DeclarationError });
});

test.serial('the declarations of a process, and the rules over all of them', (t) => {
  forgetDeclarations();
  endpoint({ name: 'one' }, function same() {});
  endpoint({ name: 'two' }, function other() {});
  t.deepEqual(
    declarations().map(({ name }) => name),
    ['one', 'two'],
  );
  checkApplication(declarations());
  endpoint({ name: 'three' }, function same() {});
  t.throws(() => checkApplication(declarations()), {
    instanceOf: DeclarationError,
    message: /the function same is defined twice: at .*:\d+ and at .*:\d+/,
  });
  forgetDeclarations();
  endpoint({ name: 'one' }, () => 1);
  endpoint({ name: 'one' }, () => 2);
  t.throws(() => checkApplication(declarations()), { message: /the endpoint one is declared twice: at .* and at .*/ });
});
