/** A stub names what it is given: how the names of a function's parameters are read from its text. */
import { runInThisContext } from 'node:vm';

import test from 'ava';

import { parameterNames } from '../../sdk/typescript/parameters.ts';

/** Made from text, as a worker finds it: types are stripped by then. */
const made = (text: string): (() => unknown) => runInThisContext(`(${text})`) as () => unknown;

for (const [text, names] of [
  ['(a, b) => a', ['a', 'b']],
  ['a => a', ['a']],
  ['async a => a', ['a']],
  ['() => 1', []],
  ['function f(a, b = 1, ctx) {}', ['a', 'b']],
  ['async function* f(a, context) {}', ['a']],
  ['function f(ctx, a) {}', ['a']],
  ['(a, ctx, b) => a', ['a', 'b']],
  ['(context, a) => a', ['context', 'a']],
  ['(ctx, input) => input', undefined],
  ['(a = f(1, [2, 3]), b = ")", c = `,`) => a', ['a', 'b', 'c']],
  ['(a /* , x */, // y,\n b) => a', ['a', 'b']],
  ['{ run(text, size = { a: 1, b: 2 }) {} }.run', ['text', 'size']],
  ['class { async embed($text, ü) {} }.prototype.embed', ['$text', 'ü']],
  ['({ a, b }) => a', undefined],
  ['(...all) => all', undefined],
  ['(input) => input', undefined],
  ['(input, ctx) => input', undefined],
  ['Math.max', undefined],
] as const) {
  test(`${text} → ${names === undefined ? 'one object' : names.join(', ')}`, (t) => {
    t.deepEqual(parameterNames(made(text)), names === undefined ? undefined : [...names]);
  });
}
