/** Parameters by TypeScript types: the schema that the tool reads from the sources, and what a worker makes of it. */
import test, { type ExecutionContext } from 'ava';

import type { ReadFunction } from '../../../compiler/application/functions.ts';
import { withoutSamples } from '../../../compiler/signatures/parameters.ts';
import type { FunctionSpec } from '../../../proto/gen/capstan/v1/nodes.ts';
import { inShort, readFunction } from '../../cli/read-function.ts';
import { folderOf } from '../../support/folder.ts';
import { jobsOf, routesOf, type Run } from './functions-under-test.ts';
import { processRuntime, threadRuntime } from './hosts.ts';

const TYPES = `
import type { Item as Thing } from './item.ts';
import { Level } from './item.ts';
type Mode = 'fast' | 'slow';
enum Size { Small = 's', Large = 'l' }
interface Base { id: number }
interface Order extends Base {
  name: string;
  mode?: Mode;
  items: readonly Thing[];
  at?: Date;
  tags?: Record<string, number>;
  pair?: [number, string | null];
}
type Left = { kind: 'left'; inner?: Node };
type Right = { kind: 'right'; inner?: Node };
type Node = Left | Right;
const shown = (value: unknown): unknown => value instanceof Date ? ['Date', value] : value instanceof Set || value instanceof Map ? [value.constructor.name, ...value] : typeof value === 'bigint' || value instanceof URL || value instanceof Uint8Array ? [value.constructor.name, String(value)] : value;
`;
const FILES = { 'item.ts': 'export interface Item { sku: string; count?: number; parts?: Item[] }\nexport enum Level { Low, High }\n' };

async function specOf(
  t: ExecutionContext,
  source: string,
): Promise<{ files: Record<string, string>; spec: FunctionSpec; read: ReadFunction }> {
  const files = { 'main.ts': `${TYPES}${source}`, ...FILES };
  const read = await readFunction(await folderOf(t, files), 'main.ts');
  return { files, read, spec: { name: 'f', module: 'main.ts', callStyle: read.style, parameters: withoutSamples(read.parameters) } };
}

async function worker(t: ExecutionContext, source: string): Promise<Run> {
  const { files, spec } = await specOf(t, source);
  return jobsOf(t, threadRuntime(), files, spec);
}

const LOST = 'must be declared as bigint to hold #, of which a number would lose digits';
const DATE = 'a: must be an ISO 8601 date, such as 2026-01-31T12:00:00Z';
const types: readonly [type: string, ...cases: (readonly [value: string, expected: string])[]][] = [
  ['Mode', ['"fast"', '"fast"'], ['"other"', 'a: must be one of "fast", "slow"'], ['1', 'a: must be a string']],
  ['Size', ['"s"', '"s"'], ['"x"', 'a: must be one of "s", "l"']],
  ['Level', ['1', '1'], ['2', 'a: must be one of 0, 1']],
  [
    'number[]',
    ['[1,2]', '[1,2]'],
    ['[1,"x"]', 'a[1]: must be a number'],
    ['[1,9007199254740993]', `a[1]: ${LOST.replace('#', '9007199254740993')}`],
  ],
  ['[number, string]', ['[1,"x"]', '[1,"x"]'], ['[1]', 'a: must be an array of length 2']],
  ['string | null', ['null', 'null'], ['1', 'a: must be a string or null']],
  ['string | Thing', ['{"sku":"x"}', '{"sku":"x"}'], ['{"sku":1}', 'a.sku: must be a string'], ['1', 'a: must be a string or Item']],
  ['Date', ['"2026-01-31T12:00:00Z"', '["Date","2026-01-31T12:00:00.000Z"]'], ['"soon"', DATE]],
  ['URL', ['"http://a.test"', '["URL","http://a.test/"]'], ['"x"', 'a: must be a URL']],
  [
    'bigint',
    ['5', '["BigInt","5"]'],
    ['1970670598291982291', '["BigInt","1970670598291982291"]'],
    ['-9223372036854775808', '["BigInt","-9223372036854775808"]'],
    ['1.0', '["BigInt","1"]'],
    ['1e23', 'a: must be an integer with all its digits, or a string that contains one'],
    ['1.5', 'a: must be an integer'],
  ],
  [
    'number',
    ['9007199254740991', '9007199254740991'],
    ['1970670598291982291', 'a: must be declared as bigint to hold 1970670598291982291, of which a number would lose digits'],
    ['1e21', '1e+21'],
    ['1e400', 'input: the number 1e400 is beyond the range of a number'],
  ],
  ['string | number', ['"x"', '"x"'], ['9007199254740993', `a: ${LOST.replace('#', '9007199254740993')}`]],
  ['bigint | string', ['9007199254740993', '["BigInt","9007199254740993"]'], ['"x"', '"x"']],
  ['{ id: bigint }', ['{"id":18446744073709551615}', '{"id":18446744073709551615}']],

  ['Uint8Array', ['"AP8="', '["Uint8Array","0,255"]'], ['"!"', 'a: must be a base64 string']],
  ['Set<number>', ['[1,1]', '["Set",1]'], ['["x"]', 'a[0]: must be a number']],
  [
    'Map<string, Date>',
    ['{"__proto__":"2026-01-31"}', '["Map",["__proto__","2026-01-31T00:00:00.000Z"]]'],
    ['{"k":1}', 'a.k: must be an ISO 8601 date, such as 2026-01-31T12:00:00Z'],
  ],
  ['Record<string, number[]>', ['{"x":[1]}', '{"x":[1]}'], ['{"x":[null]}', 'a.x[0]: must be a number']],
  [
    'Thing[]',
    ['[{"sku":"x","parts":[{"sku":"y"}],"more":1}]', '[{"sku":"x","parts":[{"sku":"y"}],"more":1}]'],
    ['[{"sku":"x","parts":[{}]}]', 'a[0].parts[0].sku: is required'],
    ['[{"sku":"x","count":null}]', '[{"sku":"x","count":null}]'],
  ],
  ['Partial<Thing>', ['{}', '{}'], ['{"sku":1}', 'a.sku: must be a string']],
  ['Unknown', ['[1]', 'a: must be an object']],
  ['any', ['[1]', '[1]'], ['{"id":[1970670598291982291,1]}', '{"id":[1970670598291982291,1]}']],
  ['unknown', ['9007199254740993', '["BigInt","9007199254740993"]']],
];
for (const [type, ...cases] of types) {
  test(`a parameter of the type ${type}`, async (t) => {
    const run = await worker(t, `export const f = (a: ${type}, b = 1) => shown(a);`);
    for (const [value, expected] of cases) t.is(await run(`{"a":${value}}`), expected, value);
  });
}

test('an interface is the whole input, with its bases; places begin at its fields', async (t) => {
  const { files, spec, read } = await specOf(t, 'export const f = ({ at, ...rest }: Order) => [shown(at), rest];');
  t.is(inShort(read), 'WHOLE');
  for (const runtime of [threadRuntime(), processRuntime()]) {
    const run = await jobsOf(t, runtime, files, spec);
    t.is(
      await run('{"id":1,"name":"x","items":[],"at":"2026-01-31"}'),
      '[["Date","2026-01-31T00:00:00.000Z"],{"id":1,"name":"x","items":[]}]',
    );
    t.is(
      await run('{"name":"x","items":[{"sku":1}],"mode":"no","pair":[1,2]}'),
      'id: is required; items[0].sku: must be a string; mode: must be one of "fast", "slow"; pair[1]: must be a string or null',
    );
    const call = await routesOf(t, runtime, files, [spec]);
    const answer = await call('f', { body: '{"name":"x","items":[]}', query: 'id=x' });
    t.is(answer.detail, 'id: must be a number');
    t.is((await call('f', { body: '{"name":"x","items":[]}', query: 'id=5' })).text, '[null,{"id":5,"name":"x","items":[]}]');
    const refused = await call('f', { body: '{"id":1,"name":"x","items":[{}]}' });
    t.is(refused.status, 422);
    t.deepEqual(JSON.parse(refused.text), {
      error: 'Unprocessable Content',
      detail: 'items[0].sku: is required',
      errors: [{ path: 'items[0].sku', message: 'is required' }],
    });
  }
});

test('the context is at its place where the build has read the parameters', async (t) => {
  for (const [source, input, expected] of [
    ['(ctx: { endpointId: string }, id: bigint, n = 2) => [ctx.endpointId, id, n]', '{"id":1}', '["endpoint-1",1,2]'],
    ['(a: number, ctx: { endpointId: string }, b?: number) => [a, ctx.endpointId, b]', '{"a":1,"b":3}', '[1,"endpoint-1",3]'],
    ['(ctx: any, { a, b = 2 }: { a: number; b?: number }) => [ctx.endpointId, a, b]', '{"a":1}', '["endpoint-1",1,2]'],
    ['(ctx: any, order: Record<string, unknown>) => [ctx.endpointId, order]', '{"a":1}', '["endpoint-1",{"a":1}]'],
    ['(ctx: string, a: number) => [ctx, a]', '{"ctx":"text","a":1}', '["text",1]'],
  ] as const) {
    const { spec, files } = await specOf(t, `export const f = ${source};`);
    for (const runtime of [threadRuntime(), processRuntime()]) {
      t.is(await (await jobsOf(t, runtime, files, spec))(input), expected, source);
      t.is((await (await routesOf(t, runtime, files, [spec]))('f', { body: input })).text, expected, source);
    }
  }
});

test('members of an object, and parameters beside models, by name', async (t) => {
  const object = await worker(t, 'export const f = (order: { thing: Thing; at?: Date }) => [order.thing, shown(order.at)];');
  t.is(await object('{"thing":{"sku":"x"},"at":"2026-01-31"}'), '[{"sku":"x"},["Date","2026-01-31T00:00:00.000Z"]]');
  t.is(await object('{"thing":{"sku":"x","parts":[{}]}}'), 'thing.parts[0].sku: is required');
  const several = await worker(t, 'export const f = (thing: Thing, times = 1) => [thing.sku, times];');
  t.is(await several('{"thing":{"sku":"x"}}'), '["x",1]');
  t.is(await several('{"thing":{}}'), 'thing.sku: is required');
  const { spec, files } = await specOf(t, 'export const f = (id: number, thing: Thing, tags: string[] = []) => [id, thing, tags];');
  const call = await routesOf(t, threadRuntime(), files, [spec]);
  t.is(
    (await call('f', { pathValues: { id: '7' }, body: '{"thing":{"sku":"x"}}', query: 'tags=a&tags=b' })).text,
    '[7,{"sku":"x"},["a","b"]]',
  );
  t.like(await call('f', { pathValues: { id: '7' }, body: '{"thing":{}}' }), { status: 422, detail: 'thing.sku: is required' });
});

test('integers of a path, a query and a body keep their digits, or are refused', async (t) => {
  const { spec, files } = await specOf(t, 'export const f = (id: bigint, n: number, any = null as unknown) => [id, n, any];');
  for (const runtime of [threadRuntime(), processRuntime()]) {
    const call = await routesOf(t, runtime, files, [spec]);
    const id = '1970670598291982291';
    t.is((await call('f', { pathValues: { id }, query: 'n=5' })).text, `[${id},5,null]`);
    t.is((await call('f', { query: `id=${id}`, body: `{"n":1,"any":{"x":[${id}]}}` })).text, `[${id},1,{"x":[${id}]}]`);
    t.is((await call('f', { body: `{"id":${id},"n":1}` })).text, `[${id},1,null]`);
    const refused = { status: 400, detail: `n: ${LOST.replace('#', id)}` };
    t.like(await call('f', { body: `{"id":1,"n":${id}}` }), refused);
    t.like(await call('f', { pathValues: { id: '1' }, query: `n=${id}` }), refused);
    t.like(await call('f', { body: '{"id":1,"n":1e400}' }), {
      status: 400,
      detail: 'body: the number 1e400 is beyond the range of a number',
    });
  }
});

test('what is nested deeply, and unions of unions, end soon with a message', async (t) => {
  const nested = (depth: number, last: string): string =>
    depth === 0 ? `{"kind":"${last}"}` : `{"inner":${nested(depth - 1, last)},"kind":"${depth % 2 === 0 ? 'right' : 'left'}"}`;
  const run = await worker(t, 'export const f = (a: Node, b = 1) => 1;');
  t.is(await run(`{"a":${nested(60, 'left')}}`), '1');
  t.is(await run(`{"a":${nested(60, 'wrong')}}`), 'a: must be Left or Right');
  const item = await worker(t, 'export const f = (a: Thing, b = 1) => 1;');
  t.is(await item(`{"a":${'{"sku":"x","parts":['.repeat(50_000)}${']}'.repeat(50_000)}}`), 'a: is nested too deeply');
});
