/** The reference application in both languages, over HTTP, with its exact shapes and roundings; its GPU is a fake one. */
import { cp, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';

import test from 'ava';

import { run } from '../cli/fakes/run.ts';
import { writeFakeSmi } from '../agent/fake-nvidia-smi.ts';
import { Stack } from '../support/stack.ts';
import { analysisOf, cases } from './text-analysis-cases.ts';
import { folderOf } from '../support/folder.ts';
import { ownFolder } from '../support/own-folder.ts';

const examples = join(import.meta.dirname, '../../examples');
let stack: Stack;
let folder: string;
const ids = new Map<string, string>();

test.before(async () => {
  folder = await ownFolder('capstan-smi');
  // One for each language.
  const gpus = ['1', '2'].map((digit) => ({ uuid: `GPU-${digit.repeat(8)}-2222-3333-4444-555555555555`, name: 'NVIDIA RTX 4090' }));
  const smi = await writeFakeSmi(folder, { gpus });
  stack = await Stack.start({ CAPSTAN_NVIDIA_SMI: smi });
  for (const example of ['reference', 'reference-python']) {
    for (const [name, id] of await stack.deploy(join(examples, example))) ids.set(name, id);
  }
});
test.after.always(async () => {
  await stack?.close();
  await rm(folder, { recursive: true, force: true });
});

const call = async (endpoint: string, path: string, body?: object): Promise<unknown> => {
  const init = body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) };
  return (await stack.call(`/lb/${ids.get(endpoint) ?? endpoint}${path}`, init)).json();
};

for (const [language, main, gpu] of [
  ['TypeScript', 'reference', 'reference-sentiment'],
  ['Python', 'reference-python', 'reference-python-sentiment'],
] as const) {
  test(`${language}: GET /health`, async (t) => {
    t.deepEqual(await call(main, '/health'), { status: 'healthy', service: 'text-service', version: '1.0.0' });
  });

  test(`${language}: GET /info`, async (t) => {
    const info = (await call(main, '/info')) as { endpoints: object[] };
    t.like(info, { name: 'text-service', version: '1.0.0' });
    t.is(info.endpoints.length, 4);
    for (const each of info.endpoints) t.deepEqual(Object.keys(each), ['method', 'path', 'description']);
  });

  test(`${language}: POST /analyze counts and rounds`, async (t) => {
    for (const each of cases) t.deepEqual(await call(main, '/analyze', { text: each[0] }), analysisOf(each));
    t.deepEqual(await call(main, '/analyze', { text: 1 }), { error: 'Bad Request', detail: 'text: must be a string' });
  });

  test(`${language}: the routes are described from the signatures of their functions`, async (t) => {
    const { paths } = (await call(main, '/openapi.json')) as { paths: Record<string, Record<string, object>> };
    t.deepEqual(Object.keys(paths).sort(), ['/analyze', '/health', '/info']);
    const schema = { type: 'object', properties: { text: { type: 'string' } }, required: ['text'], additionalProperties: false };
    t.like(paths['/analyze']?.['post'], {
      summary: 'analyze',
      requestBody: { required: true, content: { 'application/json': { schema } } },
    });
  });

  test(`${language}: POST /sentiment says label, score and device`, async (t) => {
    const of = (text: string, label: string, score: number): object => ({ text, sentiment: { label, score }, device: 'GPU' });
    t.deepEqual(await call(gpu, '/sentiment', { text: 'I love it' }), of('I love it', 'POSITIVE', 1));
    t.deepEqual(await call(gpu, '/sentiment', { text: 'Good, great, bad.' }), of('Good, great, bad.', 'POSITIVE', 0.6667));
    t.deepEqual(await call(gpu, '/sentiment', { text: 'A table.' }), of('A table.', 'NEUTRAL', 0.5));
  });
}

for (const [language, example, ending] of [
  ['TypeScript', 'reference', 'ts'],
  ['Python', 'reference-python', 'py'],
] as const) {
  test(`${language}: capstan run serves it as it is declared`, async (t) => {
    const folder = join(await folderOf(t), example);
    await cp(join(examples, example), folder, { recursive: true });
    const running = run([join(import.meta.dirname, '../../cli/main.ts'), 'run', folder, '--port', '0'], { cwd: folder });
    t.teardown(async () => {
      running.child.kill('SIGTERM');
      await running.ended;
    });
    const [, base = ''] = await running.hear(/development server: (http:\S+)/);
    const post = (text: unknown): RequestInit => ({
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ text }),
    });
    const json = async (path: string, init: RequestInit = {}): Promise<unknown> => (await fetch(`${base}${path}`, init)).json();
    t.deepEqual(await json('/service/health'), { status: 'healthy', service: 'text-service', version: '1.0.0' });
    const [first] = cases;
    if (first !== undefined) t.deepEqual(await json('/service/analyze', post(first[0])), analysisOf(first));
    t.like(await json('/sentiment/sentiment', post('I love it')), { sentiment: { label: 'POSITIVE', score: 1 }, device: 'CPU' });
    t.like(await json('/service/analyze', post(1)), { detail: 'text: must be a string' });
    // What the tutorial shows of it is what stands there.
    const tutorial = await readFile(join(examples, '../docs/tutorial.md'), 'utf8');
    const blocks = [...tutorial.matchAll(/^```(?:ts|python)\n(.*?)^```$/gms)].map(([, block = '']) => block);
    const shown = blocks.find((block) => block.includes(`"${example}"`) || block.includes(`'${example}'`)) ?? '';
    const source = await readFile(join(folder, `service.${ending}`), 'utf8');
    t.true(shown.split('\n').length > 4);
    for (const line of shown.split('\n')) t.true(source.includes(line), line);
  });
}
