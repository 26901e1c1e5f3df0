/** docs/tutorial.md, step by step, in both languages, on the real stack. */
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import test, { type ExecutionContext } from 'ava';

import { sharedStack } from '../support/shared-stack.ts';
import type { Stack } from '../support/stack.ts';

const start = sharedStack(test);
let stack: Stack;
test.before(async () => {
  stack = await start();
});

interface Row {
  readonly id: string;
  readonly name: string;
}

async function deploy(folder: string): Promise<ReadonlyMap<string, string>> {
  const rows = JSON.parse(await stack.tool('deploy', folder, '--json')) as Row[];
  return new Map(rows.map(({ name, id }) => [name, id]));
}

async function call(t: ExecutionContext, id: string | undefined, input: object): Promise<unknown> {
  const response = await stack.call(`/v2/${id ?? ''}/runsync`, { method: 'POST', body: JSON.stringify({ input }) });
  const document = (await response.json()) as { status: string; output: unknown; error?: string };
  t.is(document.status, 'COMPLETED', JSON.stringify(document));
  return document.output;
}

for (const { language, ending, from, to } of [
  {
    language: 'python',
    ending: 'py',
    from: '"best": max(documents, key=likeness)',
    to: '"best": max(documents, key=likeness), "version": 2',
  },
  { language: 'typescript', ending: 'ts', from: 'best: best.document }', to: 'best: best.document, version: 2 }' },
]) {
  test(`from init to a call across endpoints, and to new code, in ${language}`, async (t) => {
    const name = `fruit-${ending}`;
    const begun = performance.now();
    await stack.tool('init', name, '--language', language);
    // Where the stack's tool works.
    const folder = join(stack.dataDir, '..', name);
    const ids = await deploy(folder);
    t.deepEqual([...ids.keys()].sort(), [`${name}-api`, `${name}-embed`, `${name}-search`]);
    const first = await call(t, ids.get(`${name}-embed`), { text: 'abba' });
    t.log(`init to the first answer: ${Math.round(performance.now() - begun)} ms`);
    t.deepEqual((first as { vector: number[] }).vector.slice(0, 3), [2, 2, 0]);
    t.deepEqual(await call(t, ids.get(`${name}-search`), { query: 'pear' }), { query: 'pear', best: 'pear tree' });

    const health = await stack.call(`/lb/${ids.get(`${name}-api`) ?? ''}/health`);
    t.deepEqual(await health.json(), { status: 'ok', service: name });
    const counted = await stack.call(`/lb/${ids.get(`${name}-api`) ?? ''}/count`, {
      method: 'POST',
      body: JSON.stringify({ text: 'one two' }),
    });
    t.deepEqual(await counted.json(), { text: 'one two', words: 2 });

    const file = join(folder, `cpu_worker.${ending}`);
    await writeFile(file, (await readFile(file, 'utf8')).replace(from, to));
    const again = performance.now();
    t.deepEqual(await deploy(folder), ids);
    t.like(await call(t, ids.get(`${name}-search`), { query: 'plum' }), { best: 'plum jam', version: 2 });
    t.log(`redeploy to the first answer of new code: ${Math.round(performance.now() - again)} ms`);
  });
}
