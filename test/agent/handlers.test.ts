/** How a function of a build is found, read and called (nodes.proto, FunctionSpec and CallStyle). */
import { runInThisContext } from 'node:vm';

import test from 'ava';

import { argumentsFor, InputError } from '../../agent/runtimes/thread/host/call/arguments.ts';
import { findModule, loadHandler, pickExport } from '../../agent/runtimes/thread/host/call/module.ts';
import { Aggregate, errorMessage, errorStack, toJson } from '../../agent/runtimes/thread/host/call/output.ts';
import { readSignature, signatureOf, type Signature } from '../../agent/runtimes/thread/host/call/signature.ts';
import { folderOf } from '../support/folder.ts';

type Fn = (...args: unknown[]) => unknown;

/** The functions are written as a user's would be after the types are stripped. */
const read = (text: string): Signature => readSignature(runInThisContext(`(${text})`) as Fn);

test('the style of a function is read from its text', (t) => {
  const style = (text: string): string => {
    const { style, parameters } = read(text);
    return `${style}(${parameters.map(({ name, required }) => (required ? name : `${name}?`)).join(' ')})`;
  };
  t.is(style('function f() {}'), 'positional()');
  t.is(style('function f(a, b = 1) {}'), 'positional(a b?)');
  t.is(style('async function f(text) {}'), 'positional(text)');
  t.is(style('function* f(n) {}'), 'positional(n)');
  t.is(style('async function* f(n) {}'), 'positional(n)');
  t.is(style('(a, b) => a'), 'positional(a b)');
  t.is(style('async a => a'), 'positional(a)');
  t.is(style('function f({ a, b = 2 }) {}'), 'object(a b?)');
  t.is(style('({ a: renamed, "b-c": d }, context) => a'), 'object(a b-c)');
  t.is(style('({ a } = {}) => a'), 'object(a)');
  t.is(style('({ a, ...rest }) => a'), 'whole()');
  t.is(style('function f(input) {}'), 'whole()');
  t.is(style('function f(input, ctx) {}'), 'whole()');
  t.is(style('function f(input, other) {}'), 'positional(input other)');
  t.is(style('function f(text, ctx) {}'), 'positional(text)');
  t.is(style('function f(ctx) {}'), 'positional()');
  t.is(style('function f(text, context) {}'), 'positional(text)');
  t.is(style('function f(context, text) {}'), 'positional(context text)');
  t.is(style('(...all) => all'), 'whole()');
  t.is(style('([a]) => a'), 'whole()');
  t.is(style('({ method(a) {} }).method'), 'positional(a)');
  t.is(style('({ async *method(a) {} }).method'), 'positional(a)');
  t.is(style('Math.max'), 'whole()');
  t.is(style('(function f(a) {}).bind(null)'), 'whole()');
});

test('what the build says of a function goes before its text', (t) => {
  const fn: Fn = (a, b) => [a, b];
  const parameters = [{ name: 'x', required: true, type: 'string' }];
  const spec = { name: 'fn', module: 'm', parameters };
  t.deepEqual(signatureOf(fn, { ...spec, callStyle: 'CALL_STYLE_OBJECT' }), { style: 'object', parameters });
  t.deepEqual(signatureOf(fn, { ...spec, callStyle: 'CALL_STYLE_POSITIONAL' }), { style: 'positional', parameters });
  t.deepEqual(signatureOf(fn, { ...spec, callStyle: 'CALL_STYLE_WHOLE' }), { style: 'whole', parameters: [] });
  t.is(signatureOf(fn, { ...spec, callStyle: 'CALL_STYLE_UNSPECIFIED' }).parameters.length, 2);
});

test('an input becomes arguments; the context comes last', (t) => {
  const context = { jobId: 'j' };
  const call = (text: string, input: unknown): unknown[] => argumentsFor(read(text), input, context);
  t.deepEqual(call('(a, b = 1) => a', { a: 1 }), [1, undefined, context]);
  t.deepEqual(call('(a, b = 1) => a', { b: 2, a: 1 }), [1, 2, context]);
  t.deepEqual(call('({ a }) => a', { a: 1 }), [{ a: 1 }, context]);
  t.deepEqual(call('(input) => input', { any: 1, thing: 2 }), [{ any: 1, thing: 2 }, context]);
  t.deepEqual(call('() => 1', {}), [context]);
  t.deepEqual(call('(text, ctx) => 1', { text: 'a' }), ['a', context]);
});

test('keys that do not fit are named', (t) => {
  const message = (text: string, input: unknown): string | undefined =>
    t.throws(() => argumentsFor(read(text), input, {}), { instanceOf: InputError })?.message;
  t.is(message('(text) => 1', {}), 'missing argument: text');
  t.is(message('(text) => 1', { txet: 1 }), 'unknown argument: txet (the function takes: text)');
  t.is(message('({ a, b = 1 }) => 1', { a: 1, c: 1 }), 'unknown argument: c (the function takes: a, b)');
  t.is(message('() => 1', { a: 1 }), 'unknown argument: a (the function takes no arguments)');
  t.is(message('(a) => 1', [1]), 'input must be an object');
  // Inherited names are no arguments, and an own `__proto__` is only a key too many.
  t.is(message('(toString) => 1', {}), 'missing argument: toString');
  t.is(message('(a) => 1', JSON.parse('{"a":1,"__proto__":{}}')), 'unknown argument: __proto__ (the function takes: a)');
});

test('a module is found as given, with an extension, by dots, or as a folder', async (t) => {
  const root = await folderOf(t, {
    'main.ts': '',
    'exact.js': '',
    'src/worker.mts': '',
    'lib/index.js': '',
    'dotted.name.ts': '',
  });
  const find = async (module: string): Promise<string> => (await findModule(root, module)).slice(root.length + 1);
  t.is(await find('main'), 'main.ts');
  t.is(await find('main.ts'), 'main.ts');
  t.is(await find('./main'), 'main.ts');
  t.is(await find('exact'), 'exact.js');
  t.is(await find('src/worker'), 'src/worker.mts');
  t.is(await find('src.worker'), 'src/worker.mts');
  t.is(await find('lib'), 'lib/index.js');
  t.is(await find('dotted.name'), 'dotted.name.ts');
  await t.throwsAsync(findModule(root, 'nowhere'), { message: 'module not found in the build: nowhere' });
  await t.throwsAsync(findModule(root, '../outside'), { message: /not found/ });
});

test('the export is the named one, else a fitting default', (t) => {
  const fn: Fn = () => 1;
  function named(): number {
    return 2;
  }
  t.is(pickExport({ fn, default: named }, 'm', 'fn'), fn);
  t.is(pickExport({ other: fn, default: named }, 'm', 'named'), named);
  t.is(pickExport({ default: named }, 'm', 'anything'), named);
  t.is(pickExport({ default: { fn } }, 'm', 'fn'), fn);
  t.throws(() => pickExport({ a: fn, b: fn, default: named }, 'm', 'c'), {
    message: 'module m has no function c (its functions: a, b, default)',
  });
  t.throws(() => pickExport({ value: 1 }, 'm', 'c'), { message: 'module m has no function c (it exports no function)' });
});

test('CommonJS, ES modules and TypeScript load alike', async (t) => {
  const root = await folderOf(t, {
    'common.cjs': 'module.exports = { fn(a) { return a + 1; } };',
    'plain.js': 'exports.fn = (a) => a + 2;',
    'esm.mjs': 'export const fn = (a) => a + 3;',
    'syntax.js': 'import { sep } from "node:path"; export const fn = (a) => a + 4 + sep.length - 1;',
    'typed.ts': 'interface A { a: number } export const fn = (a: number): number => ({ a }) satisfies A && a + 5;',
  });
  for (const [index, module] of ['common', 'plain', 'esm', 'syntax', 'typed'].entries()) {
    t.is((await loadHandler(root, module, 'fn'))(1), index + 2, module);
  }
});

test('whatever is thrown has a message', (t) => {
  t.is(errorMessage(new Error('plain')), 'plain');
  t.is(errorMessage(Object.assign(new TypeError('emptied'), { message: '' })), 'TypeError');
  t.is(errorMessage('text'), 'text');
  t.is(errorMessage(7), '7');
  t.is(errorMessage(undefined), 'undefined');
  t.is(errorMessage({ a: 1 }), '{"a":1}');
  t.is(errorMessage({ message: 'like an error' }), 'like an error');
  const cycle: Record<string, unknown> = {};
  cycle['self'] = cycle;
  t.is(errorMessage(cycle), '[object Object]');
  t.true(errorMessage('x'.repeat(100_000)).length < 20_000);
  t.regex(errorStack(new Error('plain')), /plain\n\s+at /);
});

test('values as JSON', (t) => {
  t.is(toJson(undefined, 'result'), 'null');
  t.is(toJson({ a: [1, undefined] }, 'result'), '{"a":[1,null]}');
  t.throws(() => toJson(() => 1, 'result'), { message: 'the result is not JSON: a function' });
  t.throws(() => toJson(Symbol('s'), 'chunk'), { message: 'the chunk is not JSON: a symbol' });
});

test('the aggregate of chunks is a JSON array of them', (t) => {
  const texts = (...chunks: string[]): string => {
    const all = new Aggregate();
    for (const chunk of chunks) all.add(new TextEncoder().encode(chunk));
    return new TextDecoder().decode(all.toBytes());
  };
  t.is(texts(), '[]');
  t.is(texts('1'), '[1]');
  t.is(texts('1', '"zwei"', '{"drei":3}'), '[1,"zwei",{"drei":3}]');
  const all = new Aggregate();
  const chunk = new Uint8Array(1024 * 1024);
  for (let count = 0; count < 19; count += 1) all.add(chunk);
  t.throws(() => all.add(chunk), { message: /more than 20 MiB/ });
});

test('a value of another type than the build read is named; without a type it passes', (t) => {
  const parameters = [
    { name: 'text', required: true, type: 'string' },
    { name: 'when', required: false, type: 'request' },
    { name: 'any', required: false, type: '' },
  ];
  for (const style of ['positional', 'object'] as const) {
    const call = (input: unknown): unknown[] => argumentsFor({ style, parameters }, input, {});
    t.is(t.throws(() => call({ text: 1 }), { instanceOf: InputError })?.message, 'text: must be a string');
    t.is(t.throws(() => call({ text: null }), { instanceOf: InputError })?.message, 'text: must be a string');
    t.notThrows(() => call({ text: '', when: 1, any: [] }));
  }
});
