/** Schemas of the real zod: what the tool reads from the source, and what a worker refuses. */
import { mkdir, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

import test, { type ExecutionContext } from 'ava';

import { withoutSamples } from '../../compiler/signatures/parameters.ts';
import { discover } from '../../compiler/discovery/discover.ts';
import type { FunctionSpec } from '../../proto/gen/capstan/v1/nodes.ts';
import { processRuntime, threadRuntime } from '../conformance/runtime/hosts.ts';
import { answered, ask } from '../conformance/runtime/http-suite.ts';
import { startWorkerOf } from '../conformance/runtime/worker-under-test.ts';
import { folderOf } from '../support/folder.ts';

const root = join(import.meta.dirname, '../..');
const SDK = JSON.stringify(pathToFileURL(join(root, 'sdk/typescript/sdk.ts')).href);

const SHARED = `
import { z } from 'zod';
export const Item = z.object({ sku: z.string().min(2), count: z.number().int().positive().default(1) });
`;
const MAIN = `
import { endpoint, Endpoint } from '@capstan/sdk';
import { z } from 'zod';
import { Item } from './shared.ts';

const Tree = z.object({ name: z.string(), kids: z.lazy(() => z.array(Tree)).optional() });
const Req = z.strictObject({
  text: z.string().regex(/^(a+)+$/).describe('what to read'),
  mode: z.enum(['fast', 'slow']).optional(),
  items: z.array(Item).max(3).default([]),
  either: z.union([z.string(), z.number().min(-1)]).nullable(),
  at: z.iso.datetime().transform((text) => new Date(text)),
  tree: Tree.optional(),
  more: z.record(z.string(), z.boolean()).optional(),
});
export const f = endpoint({ name: 'f', schema: Req }, (input) => input);
const api = new Endpoint({ name: 'api' });
export const add = api.post('/add', { schema: Item.extend({ dry: z.coerce.boolean().optional() }) }, (input) => input);
`;

async function project(t: ExecutionContext): Promise<{ folder: string; specs: Map<string, FunctionSpec> }> {
  const folder = await folderOf(t, { 'main.ts': MAIN, 'shared.ts': SHARED });
  await mkdir(join(folder, 'node_modules'));
  await symlink(join(root, 'node_modules/zod'), join(folder, 'node_modules/zod'));
  const { endpoints } = await discover(folder, () => undefined);
  const specs = endpoints.flatMap(({ functions }) =>
    functions.map(({ name, reading }): [string, FunctionSpec] => [
      name,
      { name, module: 'main.ts', callStyle: reading.style, parameters: withoutSamples(reading.parameters) },
    ]),
  );
  // A worker gets the SDK with its build.
  await writeFile(join(folder, 'main.ts'), MAIN.replace("'@capstan/sdk'", SDK));
  return { folder, specs: new Map(specs) };
}

test('the schema is read from the source, through constants and files', async (t) => {
  const { specs } = await project(t);
  const [parameter] = specs.get('f')?.parameters ?? [];
  t.like(parameter, { name: 'input', takesBody: true, type: '' });
  const item = {
    type: 'object',
    properties: { sku: { type: 'string', minLength: 2 }, count: { type: 'integer', exclusiveMinimum: 0, default: 1 } },
    required: ['sku'],
  };
  t.deepEqual(JSON.parse(parameter?.schema ?? ''), {
    $ref: '#/$defs/Req',
    $defs: {
      Req: {
        type: 'object',
        properties: {
          text: { type: 'string', description: 'what to read' },
          mode: { enum: ['fast', 'slow'] },
          items: { type: 'array', items: { $ref: '#/$defs/Item' }, maxItems: 3 },
          either: { anyOf: [{ anyOf: [{ type: 'string' }, { type: 'number', minimum: -1 }] }, { type: 'null' }] },
          at: { type: 'string', format: 'date-time' },
          tree: { $ref: '#/$defs/Tree' },
          more: { type: 'object', additionalProperties: { type: 'boolean' } },
        },
        required: ['text', 'either', 'at'],
        additionalProperties: false,
      },
      Item: item,
      Tree: {
        type: 'object',
        properties: { name: { type: 'string' }, kids: { type: 'array', items: { $ref: '#/$defs/Tree' } } },
        required: ['name'],
      },
    },
  });
  const [added] = specs.get('add')?.parameters ?? [];
  t.like(JSON.parse(added?.schema ?? ''), { type: 'object', required: ['sku'] });
});

for (const [name, make] of [
  ['thread', () => threadRuntime()],
  ['process', () => processRuntime()],
] as const) {
  test(`${name}: zod validates, and a refusal names the places`, async (t) => {
    const { folder, specs } = await project(t);
    const runtime = make();
    t.teardown(() => runtime.close());
    const [f, add] = [specs.get('f'), specs.get('add')];
    if (f === undefined || add === undefined) throw new Error('the functions were not found');
    const jobs = startWorkerOf(runtime, folder, 'f', { functions: [f] });
    const routes = startWorkerOf(runtime, folder, '', { functions: [add], servesHttp: true, workerId: 'worker-2' });
    await Promise.all([jobs.hear('loaded'), routes.hear('loaded')]);
    const input = { text: 'aa', either: null, at: '2026-01-31T12:00:00Z', items: [{ sku: 'xy' }] };
    t.deepEqual((await jobs.call('1', input)).value, { ...input, at: '2026-01-31T12:00:00.000Z', items: [{ sku: 'xy', count: 1 }] });
    const { result } = await jobs.call('2', { ...input, items: [{ sku: 'xy' }, { sku: 'x' }], mode: 'no' });
    t.regex(result.kind === 'failed' ? result.error : '', /^invalid input: mode: Invalid option: .*; items\[1\]\.sku: Too small: /);
    const answer = await answered(ask(routes, 'add', { method: 'POST', body: Buffer.from('{"sku":"x"}') }));
    t.is(answer.status, 422);
    t.like(answer.json, { error: 'Unprocessable Content', errors: [{ path: 'sku' }] });
    const fine = await answered(ask(routes, 'add', { method: 'POST', url: 'http://host.test/?dry=1', body: Buffer.from('{"sku":"xy"}') }));
    t.deepEqual(fine.json, { sku: 'xy', count: 1, dry: true });
  });
}
