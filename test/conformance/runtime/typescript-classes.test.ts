/** Parameters of a class's methods by TypeScript types: what the tool reads, and what a worker makes of it. */
import test, { type ExecutionContext } from 'ava';

import { specOf } from '../../../compiler/application/application.ts';
import { readManifest } from '../../../compiler/artifact/manifest.ts';
import type { ReadFunction } from '../../../compiler/application/functions.ts';
import { readFunction } from '../../cli/read-function.ts';
import { folderOf } from '../../support/folder.ts';
import { jobsOf, type Run } from './functions-under-test.ts';
import { processRuntime, threadRuntime } from './hosts.ts';

const FILES = {
  'main.ts': `
import { Store, type Item } from './store.ts';
interface Order { items: Item[]; at?: Date }
export class f extends Store {
  #count = 0;
  static made = 0;
  static make(a: string) { return a; }
  price(order: Order, currency: 'EUR' | 'USD' = 'EUR') { this.#count += 1; return [order.items.length, currency, this.#count]; }
  whole(input: { sku: string; tags: string[] }) { return input.sku + input.tags.join('+'); }
  bytes(png: Uint8Array, context: { readonly jobId: string }) { return [png.length, typeof context.jobId]; }
  overloaded(a: string): string;
  overloaded(a: number): number;
  overloaded(a: number | string) { return a; }
  open(a, b = 1) { return [a, b]; }
  get size() { return 0; }
  _own(a: number) { return a; }
}
`,
  'store.ts': `
export interface Item { sku: string; count?: number }
export class Store {
  find(item: Item) { return item.sku; }
  open(a: number) { return a; }
}
`,
};

async function read(t: ExecutionContext, files: Readonly<Record<string, string>>): Promise<ReadFunction> {
  return readFunction(await folderOf(t, { ...files }), 'main.ts');
}

async function run(t: ExecutionContext, runtime: Parameters<typeof jobsOf>[1], files: Readonly<Record<string, string>>): Promise<Run> {
  const fn = await read(t, files);
  const manifest = { resources: { e: { functions: [{ name: 'f', module: 'main.ts' }] } } };
  const [endpoint] = readManifest(JSON.stringify(manifest), 'tool_manifest.json').endpoints;
  if (endpoint === undefined) throw new Error('nothing was read');
  const [spec] = specOf(endpoint, [fn]).functions;
  return jobsOf(t, runtime, files, spec);
}

test('the methods are read from the class and its base classes, with their schemas', async (t) => {
  const { methods = [] } = await read(t, FILES);
  t.deepEqual(
    methods.map(({ name, style, parameters }) => [name, style.replace('CALL_STYLE_', ''), ...parameters.map((each) => each.name)]),
    [
      ['price', 'POSITIONAL', 'order', 'currency'],
      ['whole', 'OBJECT', 'sku', 'tags'],
      ['bytes', 'POSITIONAL', 'png'],
      ['overloaded', 'POSITIONAL', 'a'],
      ['open', 'POSITIONAL', 'a', 'b'],
      ['find', 'OBJECT', 'sku', 'count'],
    ],
  );
  t.deepEqual(JSON.parse(methods[0]?.parameters[1]?.schema ?? ''), { enum: ['EUR', 'USD'] });
});

for (const [name, make] of [
  ['thread', () => threadRuntime()],
  ['process', () => processRuntime()],
] as const) {
  test(`${name}: a method's values are checked by its types, and a refusal names the places`, async (t) => {
    const call = await run(t, make(), FILES);
    t.is(await call('{"method":"price","order":{"items":[{"sku":"x"}]},"currency":"USD"}'), '[1,"USD",1]');
    t.is(
      await call('{"method":"price","order":{"items":[{"sku":"x"},{"count":1}],"at":"soon"}}'),
      'order.items[1].sku: is required; order.at: must be an ISO 8601 date, such as 2026-01-31T12:00:00Z',
    );
    t.is(await call('{"method":"price","order":{"items":[]},"currency":"SEK"}'), 'currency: must be one of "EUR", "USD"');
    t.is(await call('{"method":"whole","sku":"x","tags":["a","b"]}'), '"xa+b"');
    t.is(await call('{"method":"whole","sku":"x","tags":["a",1]}'), 'tags[1]: must be a string');
    t.is(await call('{"method":"bytes","png":"AP8="}'), '[2,"string"]');
    t.is(await call('{"method":"bytes","png":"!"}'), 'png: must be a base64 string');
    t.is(await call('{"method":"overloaded","a":"x"}'), '"x"');
    t.is(await call('{"method":"find","sku":1}'), 'sku: must be a string');
    t.is(await call('{"method":"open","a":[]}'), '[[],1]');
    t.is(await call('{"method":"find","name":"x"}'), 'unknown argument: name (the function takes: sku, count)');
    t.regex(await call('{"order":{"items":[]}}'), /^missing argument: method \(one of: price, /);
  });
}

test('the only method of a class takes the input without the key method', async (t) => {
  const call = await run(t, threadRuntime(), {
    'main.ts': 'export class f { run(order: { id: number }) { return order.id; } }',
  });
  t.is(await call('{"id":5}'), '5');
  t.is(await call('{"method":"run","id":5}'), '5');
  t.is(await call('{"id":"x"}'), 'id: must be a number');
});

test('methods that the sources do not show are read by the worker', async (t) => {
  const call = await run(t, threadRuntime(), {
    'main.ts': `
const mixed = (base) => class extends base { extra(a, b = 2) { return [a, b]; } };
export class f extends mixed(Object) { own(a: number) { return a; } }
`,
  });
  t.is(await call('{"method":"own","a":"x"}'), 'a: must be a number');
  t.is(await call('{"method":"extra","a":"x"}'), '["x",2]');
});
