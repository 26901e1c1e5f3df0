/** How a function's parameters are read from its source, and how a module and its export are found. */
import { symlink } from 'node:fs/promises';
import { join } from 'node:path';

import test from 'ava';

import { CapstanError } from '../../lib/errors.ts';
import { readFunctions } from '../../compiler/application/functions.ts';
import { readManifest } from '../../compiler/artifact/manifest.ts';
import { folderOf } from '../support/folder.ts';
import { inShort, readFunction } from './read-function.ts';

const sources: [string, string][] = [
  // By position.
  ['export function f() {}', 'POSITIONAL'],
  ['export function f(text) {}', 'POSITIONAL text'],
  ['export function f(text: string) {}', 'POSITIONAL text'],
  ['export function f(a, b = 1, c?: string) {}', 'POSITIONAL a b? c?'],
  ['export async function f(a: number, b: string[]) {}', 'POSITIONAL a b'],
  ['export function* f(n: number) {}', 'POSITIONAL n'],
  ['export async function* f(n: number) {}', 'POSITIONAL n'],
  ['export const f = (a: number) => a;', 'POSITIONAL a'],
  ['export const f = async function (a: number) {};', 'POSITIONAL a'],
  ['export const f = (function (a) {}) as Handler;', 'POSITIONAL a'],
  ['function f(a: number) {}\nexport { f };', 'POSITIONAL a'],
  ['function g(a: number) {}\nexport { g as f };', 'POSITIONAL a'],
  [
    'export function f(a: string): void;\nexport function f(a: number, b?: number): void;\nexport function f(a: any, b?: any) {}',
    'POSITIONAL a b?',
  ],
  ['export function f(this: void, a: number) {}', 'POSITIONAL a'],
  ['type Text = string;\nexport function f(text: Text) {}', 'POSITIONAL text'],
  ["export function f(kind: 'a' | 'b') {}", 'POSITIONAL kind'],
  ['export function f(x: number | null) {}', 'POSITIONAL x'],
  ['export function f(items: readonly string[]) {}', 'POSITIONAL items'],
  ['export function f(items: Array<{ a: number }>) {}', 'POSITIONAL items'],
  ['export function f(input: string) {}', 'POSITIONAL input'],
  ['export function f(anything: unknown) {}', 'POSITIONAL anything'],
  ['export function f(a: { x: number }, b: { y: number }) {}', 'POSITIONAL a b'],
  // One object, by its keys.
  ['export function f({ a, b = 1 }) {}', 'OBJECT a b?'],
  ['export function f({ a, b = 1 }: { a: string; b?: number }) {}', 'OBJECT a b?'],
  ['export function f({ a, b }: { a: string; b?: number; c: number }) {}', 'OBJECT a b? c'],
  ['export function f({ a: inner, "b c": other }) {}', 'OBJECT a b c'],
  ['export function f({ a = 1 } = {}) {}', 'OBJECT a?'],
  ['export function f({}) {}', 'OBJECT'],
  ['export function f(order: { id: string; note?: string }) {}', 'OBJECT id note?'],
  ['interface Order { id: string; note?: string }\nexport function f(order: Order) {}', 'OBJECT id note?'],
  ['export type Order = { readonly id: string };\nexport function f(order: Order) {}', 'OBJECT id'],
  ['interface Order { id: string }\nexport function f(input: Order) {}', 'OBJECT id'],
  ['interface Order { id: string }\nexport function f({ id }: Order) {}', 'OBJECT id'],
  // Whatever comes.
  ['export function f(input) {}', 'WHOLE'],
  ['export function f(input: unknown) {}', 'WHOLE'],
  ['export function f(input: any = {}) {}', 'WHOLE'],
  ['export function f({ a, ...rest }) {}', 'WHOLE'],
  ['export function f({ [key]: a }) {}', 'WHOLE'],
  ['export function f(...all) {}', 'WHOLE'],
  ['export function f(a, ...rest) {}', 'WHOLE'],
  ['export function f({ a }, b) {}', 'WHOLE'],
  ['export function f(data: object) {}', 'WHOLE'],
  ['export function f(data: Record<string, unknown>) {}', 'WHOLE'],
  ['export function f(data: { [key: string]: number }) {}', 'WHOLE'],
  ['export function f(data: { a: 1 } & { b: 2 }) {}', 'WHOLE'],
  ['interface A extends B { a: string }\nexport function f(data: A) {}', 'WHOLE'],
  ["import type { Order } from 'shop';\nexport function f(order: Order) {}", 'WHOLE'],
  // The job's context is no key of the input.
  ['export function f(ctx) {}', 'POSITIONAL'],
  ['export function f(a, ctx) {}', 'POSITIONAL a'],
  ['export function f(a: string, context: JobContext) {}', 'POSITIONAL a'],
  ['export function f(question: string, context: string) {}', 'POSITIONAL question context'],
  ['export function f({ a }, ctx) {}', 'OBJECT a'],
  ['export function f(input, context) {}', 'WHOLE'],
  ['export function f(order: { id: string }, ctx: unknown) {}', 'OBJECT id'],
  ['export function f(ctx, a) {}', 'POSITIONAL a'],
  ['export function f(a, ctx: JobContext, b) {}', 'POSITIONAL a b'],
  ['export function f(ctx: string, a: string) {}', 'POSITIONAL ctx a'],
  ['export function f(ctx, { a }) {}', 'OBJECT a'],
  ['export function f(ctx, input) {}', 'WHOLE'],
  ['export function f(context, a) {}', 'POSITIONAL context a'],
  // The default export.
  ['export default function f(a) {}', 'POSITIONAL a'],
  ['export default (a) => a;', 'POSITIONAL a'],
  ['const f = (a) => a;\nexport default f;', 'POSITIONAL a'],
  // What shows only when it runs is not read.
  ["import { wrap } from 'lib';\nexport const f = wrap((a) => a);", 'UNSPECIFIED'],
  ["export { f } from 'lib';", 'UNSPECIFIED'],
  ["export * from 'lib';", 'UNSPECIFIED'],
];

for (const [source, expected] of sources) {
  test(`read: ${source.replaceAll('\n', ' ')}`, async (t) => {
    const folder = await folderOf(t, { 'm.ts': source });
    t.is(inShort(await readFunction(folder, 'm.ts')), expected);
  });
}

const commonJs: [string, string][] = [
  ['module.exports = { f(a) {} };', 'POSITIONAL a'],
  ['function f(a) {}\nmodule.exports = { f };', 'POSITIONAL a'],
  ['exports.f = (a) => a;', 'POSITIONAL a'],
  ['module.exports.f = async function (a) {};', 'POSITIONAL a'],
  ['module.exports = function f(a) {};', 'POSITIONAL a'],
  ["module.exports = require('./other.js');", 'UNSPECIFIED'],
  ["module.exports = { ...require('./other.js') };", 'UNSPECIFIED'],
];
for (const [source, expected] of commonJs) {
  test(`read, CommonJS: ${source.replaceAll('\n', ' ')}`, async (t) => {
    const folder = await folderOf(t, { 'm.cjs': source });
    t.is(inShort(await readFunction(folder, 'm.cjs')), expected);
  });
}

test('exports and types are followed through the application’s own files', async (t) => {
  const folder = await folderOf(t, {
    'm.ts': "export * from './other.ts';\nexport { g as f } from './lib/g.js';",
    'other.ts': 'export const other = 1;',
    'lib/g.ts': "import type { Order } from '../types.ts';\nexport function g(order: Order) {}",
    'types.ts': 'export interface Order { id: string; count?: number }',
  });
  t.is(inShort(await readFunction(folder, 'm')), 'OBJECT id count?');
});

test('a ring of exports ends', async (t) => {
  const folder = await folderOf(t, { 'a.ts': "export * from './b.ts';", 'b.ts': "export * from './a.ts';" });
  t.is(inShort(await readFunction(folder, 'a.ts')), 'UNSPECIFIED');
});

test('parameters carry a value of their type, for the command to try next', async (t) => {
  const folder = await folderOf(t, {
    'm.ts':
      "interface P { x: number; y?: number }\nexport function f(a: string, b: number, c: boolean, d: string[], e: P, g: 'x' | 'y') {}",
  });
  const { parameters } = await readFunction(folder, 'm');
  t.deepEqual(
    parameters.map(({ sample }) => sample),
    ['text', 1, true, [], { x: 1 }, 'x'],
  );
});

const places: [string, string, string][] = [
  ['as given', 'lib/m.mjs', 'lib/m.mjs'],
  ['without its extension', 'lib/m', 'lib/m.mjs'],
  ['with dots for slashes', 'lib.m', 'lib/m.mjs'],
  ['a folder', 'deep', 'deep/index.js'],
  ['a folder with dots', 'lib.inner', 'lib/inner/index.ts'],
];
for (const [what, module, path] of places) {
  test(`a module is found ${what}`, async (t) => {
    const source = 'export function f() {}';
    const folder = await folderOf(t, { 'lib/m.mjs': source, 'deep/index.js': source, 'lib/inner/index.ts': source });
    t.is((await readFunction(folder, module)).module, path);
  });
}

const refused: [string, Readonly<Record<string, string>>, string, RegExp][] = [
  ['a module that is not there', {}, 'm', /^resources\.e\.functions\[0\]\.module: the module m is not in the folder/],
  ['a module outside of the folder', {}, '../outside.ts', /is not in the folder|is outside the folder/],
  [
    'another language',
    { 'm.rb': 'def f() end' },
    'm.rb',
    /^resources\.e\.functions\[0\]\.module: the module m\.rb must be JavaScript, TypeScript or Python/,
  ],
  [
    'no such function',
    { 'm.ts': 'export const g = (a) => a;\nexport function h() {}' },
    'm',
    /^m\.ts:1: no function f \(it exports g, h\)$/,
  ],
  ['no function at all', { 'm.ts': 'export const x = 1;' }, 'm', /^m\.ts:1: no function f \(it exports none\)$/],
  [
    'a function that is not exported',
    { 'm.ts': 'const x = 1;\n\nfunction f() {}\nexport { x };' },
    'm',
    /^m\.ts:3: the function f is not exported$/,
  ],
  ['a syntax error', { 'm.ts': 'export function f() {\n  return 1 +;\n}' }, 'm', /^m\.ts:2:13: /],
  [
    'a syntax error in a file it exports from',
    { 'm.ts': "export { f } from './n.ts';", 'n.ts': '\n\nexport function f( {' },
    'm',
    /^n\.ts:3:21: /,
  ],
];
for (const [what, files, module, message] of refused) {
  test(`refused: ${what}`, async (t) => {
    const folder = await folderOf(t, files);
    const error = await t.throwsAsync(readFunction(folder, module), { instanceOf: CapstanError });
    t.is(error.code, 'INVALID_MANIFEST');
    t.regex(error.message, message);
  });
}

test('a class is read by the worker that makes it, and serves no route', async (t) => {
  const folder = await folderOf(t, { 'm.ts': '\nexport class f { run() {} }' });
  t.is(inShort(await readFunction(folder, 'm')), 'UNSPECIFIED');
  const manifest = {
    resources: { e: { is_load_balanced: true, functions: [{ name: 'f', module: 'm' }] } },
    routes: { e: { 'GET /': 'f' } },
  };
  const [endpoint] = readManifest(JSON.stringify(manifest), 'tool_manifest.json').endpoints;
  if (endpoint === undefined) throw new Error('nothing was read');
  await t.throwsAsync(readFunctions(folder, endpoint), { message: /m\.ts:2: f is a class, and a route must have a function/ });
});

test('refused: a link out of the folder', async (t) => {
  const outside = await folderOf(t, { 'm.ts': 'export function f() {}' });
  const folder = await folderOf(t, {});
  await symlink(join(outside, 'm.ts'), join(folder, 'm.ts'));
  const error = await t.throwsAsync(readFunction(folder, 'm.ts'), { instanceOf: CapstanError });
  t.regex(error.message, /is outside the folder/);
});
