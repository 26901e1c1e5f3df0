/** The sample endpoint in Python gives what the one in TypeScript gives, and serves like it. */
import { join } from 'node:path';

import { fc, testProp } from '@fast-check/ava';
import test from 'ava';

import { analyze } from '../../examples/text-analysis/analyze.ts';
import { processRuntime } from '../conformance/runtime/hosts.ts';
import { startWorkerOf, type TestWorker } from '../conformance/runtime/worker-under-test.ts';
import { Stack } from '../support/stack.ts';
import { analysisOf, cases } from './text-analysis-cases.ts';

const folder = join(import.meta.dirname, '../../examples/text-analysis-python');
const runtime = processRuntime();
let worker: TestWorker;
let calls = 0;

test.before(async () => {
  const fn = { name: 'analyze', module: 'analyze.py', parameters: [], callStyle: 'CALL_STYLE_UNSPECIFIED' as const };
  worker = startWorkerOf(runtime, folder, 'analyze', { functions: [fn] });
  await worker.hear('loaded');
});
test.after.always(() => runtime.close());

async function analyzeInPython(text: string): Promise<unknown> {
  calls += 1;
  return (await worker.call(String(calls), { text })).value;
}

for (const each of cases) {
  const [text] = each;
  test(`analyze in Python ${JSON.stringify(text.length > 40 ? `${text.slice(0, 40)}…` : text)}`, async (t) => {
    t.deepEqual(await analyzeInPython(text), analysisOf(each));
  });
}

// Whole code points: half a surrogate pair is no text that JSON in UTF-8 could carry.
const unit = fc.oneof(
  fc.constantFrom('a', 'ß', '😀', '.', '!', '?', ' ', '\n', '\u00A0', '\u001C', '\u0085', '\uFEFF'),
  fc.string({ unit: 'binary', minLength: 1, maxLength: 1 }),
);

testProp('any text gives the same in both languages', [fc.string({ unit, maxLength: 200 })], async (t, text) => {
  t.deepEqual(await analyzeInPython(text), analyze(text) as unknown);
});

test('deployed, it answers over HTTP', async (t) => {
  const stack = await Stack.start();
  try {
    const id = (await stack.deploy(folder)).get('text-analysis-python') ?? '';
    const run = async (input: object): Promise<unknown> =>
      (await stack.call(`/v2/${id}/runsync`, { method: 'POST', body: JSON.stringify({ input }) })).json();
    t.like(await run({ text: '😀 hi!' }), { status: 'COMPLETED', output: analyze('😀 hi!') });
    t.like(await run({ txet: '' }), { status: 'FAILED', error: 'unknown argument: txet (the function takes: text)' });
    t.like(await run({ text: 1 }), { status: 'FAILED', error: 'text: must be a string' });
  } finally {
    await stack.close();
  }
});
