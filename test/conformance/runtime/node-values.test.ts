/**
 * Values of functions in TypeScript: which JSON a result becomes, and how a schema refuses an input. The package zod is
 * in test/parameters.
 */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

import test from 'ava';

import type { Runtime } from '../../../agent/runtimes/runtime.ts';
import { jsonText, NotJson } from '../../../sdk/typescript/json-values.ts';
import { jobsOf, routesOf } from './functions-under-test.ts';
import { processRuntime, threadRuntime } from './hosts.ts';

const root = join(import.meta.dirname, '../../..');
const sdk = pathToFileURL(join(root, 'sdk/typescript/sdk.ts')).href;
const runtimes: readonly (readonly [name: string, make: () => Runtime])[] = [
  ['thread', () => threadRuntime()],
  ['process', () => processRuntime()],
];

for (const [file, copy] of [
  ['agent/runtimes/thread/host/json-values.ts', 'sdk/typescript/json-values.ts'],
  ['lib/exact-json.ts', 'sdk/typescript/exact-json.ts'],
] as const) {
  test(`${file} and ${copy} are the same`, async (t) => {
    t.is(await readFile(join(root, file), 'utf8'), await readFile(join(root, copy), 'utf8'));
  });
}

test('a value many levels deep is written, and a cycle of many levels is found', (t) => {
  const nested = (levels: number, inner: unknown): unknown =>
    Array.from({ length: levels }).reduce<unknown>((value) => ({ a: value }), inner);
  t.is(jsonText(nested(300, new Map([[1, 2n]])), ''), `${'{"a":'.repeat(300)}{"1":2}${'}'.repeat(300)}`);
  // The same object twice beside itself is no cycle.
  const shared = { b: 1 };
  t.is(jsonText(nested(40, [shared, new Set([shared])]), ''), `${'{"a":'.repeat(40)}[{"b":1},[{"b":1}]]${'}'.repeat(40)}`);
  const cycle: Record<string, unknown> = {};
  cycle['a'] = nested(60, cycle);
  t.regex(t.throws(() => jsonText(cycle, 'result'), { instanceOf: NotJson })?.message ?? '', /^result(?:\.a){61}: it contains itself$/);
});

const results: readonly (readonly [expression: string, expected: string])[] = [
  ['[1, "a", true, null, undefined, { a: undefined, b: () => 1 }]', '[1,"a",true,null,null,{}]'],
  ['new Date(Date.UTC(2026, 0, 31, 12))', '"2026-01-31T12:00:00.000Z"'],
  ['{ at: 10n ** 20n, list: [-(2n ** 63n), 5n] }', '{"at":100000000000000000000,"list":[-9223372036854775808,5]}'],
  ['1970670598291982291n', '1970670598291982291'],
  ['new Set([new Map([[1n, 2n ** 60n]])])', '[{"1":1152921504606846976}]'],
  ['new Map([["a", new Map([[1, new Date(0)]])], [true, 2]])', '{"a":{"1":"1970-01-01T00:00:00.000Z"},"true":2}'],
  ['[new Set([1, new Set(["x"])])]', '[[1,["x"]]]'],
  [
    '[new Uint8Array([0, 255]), Buffer.from("x"), new Uint8Array([1]).buffer, new DataView(new ArrayBuffer(1))]',
    '["AP8=","eA==","AQ==","AA=="]',
  ],
  ['[new Float32Array([1.5]), new BigInt64Array([1n])]', '[[1.5],[1]]'],
  ['new URL("http://host.test/a b")', '"http://host.test/a%20b"'],
  ['[new RangeError("too far")]', '[{"name":"RangeError","message":"too far"}]'],
  ['new (class Point { x = 1; #y = 2; far() {} })()', '{"x":1}'],
  ['{ toJSON() { return { at: new Date(0) }; } }', '{"at":"1970-01-01T00:00:00.000Z"}'],
  ['Object.fromEntries([["__proto__", 1n], ["a", new Date(0)]])', '{"__proto__":1,"a":"1970-01-01T00:00:00.000Z"}'],
  ['[Number.NaN, -0, 1e21]', '[null,0,1e+21]'],
  ['{ a: [1, new Date(Number.NaN)] }', 'the result is not JSON: result.a[1]: an invalid Date has no JSON form'],
  ['{ a: [1, /x/] }', 'the result is not JSON: result.a[1]: a value of the type RegExp has no JSON form'],
  ['{ a: { b: Promise.resolve(1) } }', 'the result is not JSON: result.a.b: a value of the type Promise has no JSON form'],
  ['new Map([[{}, 1]])', 'the result is not JSON: result: a key of the type Object has no JSON form'],
  [
    '{ a: { toJSON() { throw new Error("no luck"); } } }',
    'the result is not JSON: result.a: a value of the type Object could not be written: no luck',
  ],
  ['(() => { const a = { list: [] }; a.list.push(a); return a; })()', 'the result is not JSON: result.list[0]: it contains itself'],
  ['(() => { const a = new Map(); a.set("a", a); return [a]; })()', 'the result is not JSON: result[0].a: it contains itself'],
  [
    '(() => { let a = []; for (let n = 0; n < 1e6; n += 1) a = [a]; return a; })()',
    'the result is not JSON: result: it is nested too deeply',
  ],
  ['(() => 1)', 'the result is not JSON: a function'],
];
const SOURCE = 'export const f = async (code: string) => { const value = (0, eval)(`(${code})`); return value; };\n';
const SPEC = { callStyle: 'CALL_STYLE_POSITIONAL', parameters: [{ name: 'code', required: true, type: 'string' }] } as const;

for (const [name, make] of runtimes) {
  test(`${name}: results become JSON by the table, in jobs and in routes`, async (t) => {
    const run = await jobsOf(t, make(), { 'main.ts': SOURCE }, { ...SPEC, parameters: [...SPEC.parameters] });
    const call = await routesOf(t, make(), { 'main.ts': SOURCE }, [
      { name: 'f', module: 'main.ts', ...SPEC, parameters: [...SPEC.parameters] },
    ]);
    for (const [code, expected] of results) {
      t.is(await run(JSON.stringify({ code })), expected, code);
      // A route sends bytes and responses as they are.
      const { status, text, detail } = await call('f', { body: JSON.stringify({ code }) });
      if (expected.startsWith('the result is not JSON')) t.deepEqual([status, detail], [500, expected], code);
      else t.deepEqual([status, text], [200, expected], code);
    }
  });

  test(`${name}: a schema refuses an input with its places; an error inside stays an error`, async (t) => {
    const source = `
import { endpoint, Endpoint } from ${JSON.stringify(sdk)};
const validate = (value: any) => {
  const issues = [];
  if (typeof value.text !== 'string') issues.push({ message: 'must be text', path: ['text'] });
  for (const [index, each] of (value.items ?? []).entries()) if (each.id === undefined) issues.push({ message: 'is required', path: ['items', index, { key: 'id' }] });
  return issues.length === 0 ? { value } : { issues };
};
const schema = { '~standard': { version: 1, vendor: 'test', validate } } as const;
const late = { '~standard': { version: 1, vendor: 'test', validate: async (value: unknown) => validate(value) } } as const;
export const f = endpoint({ name: 'f', schema }, ({ text }) => text);
export const g = new Endpoint({ name: 'g' }).post('/g', { schema: late }, ({ text }) => text);
export const inner = () => f({ text: 1 } as never);
`;
    const refused = 'invalid input: text: must be text; items[1].id: is required';
    const bad = '{"items":[{"id":1},{}]}';
    const run = await jobsOf(t, make(), { 'main.ts': source });
    t.is(await run(bad), refused);
    t.is(await run('{"text":"x"}'), '"x"');
    const call = await routesOf(t, make(), { 'main.ts': source }, ['g', 'inner']);
    const answer = await call('g', { body: bad });
    t.is(answer.status, 422);
    t.deepEqual(JSON.parse(answer.text), {
      error: 'Unprocessable Content',
      detail: refused,
      errors: [
        { path: 'text', message: 'must be text' },
        { path: 'items[1].id', message: 'is required' },
      ],
    });
    t.is((await call('g', { body: '{"text":"x"}' })).text, '"x"');
    // The function's own call of another function is no fault of the caller.
    t.is((await call('inner', {})).status, 500);
  });
}

test('arguments of calls are encoded by the same table', (t) => {
  t.is(jsonText({ input: new Map([['at', new Date(0)]]) }, ''), '{"input":{"at":"1970-01-01T00:00:00.000Z"}}');
  t.throws(() => jsonText({ input: [/x/] }, ''), { instanceOf: NotJson, message: 'input[0]: a value of the type RegExp has no JSON form' });
});
