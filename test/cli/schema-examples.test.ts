/** Examples obey the schemas that they are made of, and patterns are never executed. */
import { Ajv2020 } from 'ajv/dist/2020.js';
import test from 'ava';

import { textLike } from '../../lib/pattern-examples.ts';
import { exampleOf, inputExample, parameterExample } from '../../lib/schema-examples.ts';

const ajv = new Ajv2020({ strict: false });

const SCHEMAS: readonly object[] = [
  { type: 'string', minLength: 12 },
  { type: 'string', maxLength: 2 },
  { type: 'string', minLength: 3, pattern: String.raw`^[a-z]+-\d{2}$` },
  { type: 'string', pattern: '^[A-Z]{3}[0-9]{4,}$', minLength: 20 },
  { type: 'string', pattern: String.raw`^(?:GB|DE)\d{2}(?:-\w{4}){3}\.?$` },
  { type: 'string', pattern: String.raw`^[^\w\s]+$` },
  { type: 'string', pattern: String.raw`^https?://[\w.-]+(/[^?#]*)?$` },
  { type: 'integer', minimum: 18, maximum: 18 },
  { type: 'integer', exclusiveMinimum: 10, multipleOf: 7 },
  { type: 'integer', maximum: -5 },
  { type: 'integer', exclusiveMaximum: 0, multipleOf: 4 },
  { type: 'number', exclusiveMinimum: 10, maximum: 20 },
  { type: 'number', exclusiveMinimum: 0, exclusiveMaximum: 1 },
  { type: 'number', minimum: 0, maximum: 0.1 },
  { type: 'number', exclusiveMaximum: -1.5 },
  { type: 'number', minimum: 0.2, multipleOf: 0.25 },
  { type: 'array', minItems: 3, items: { type: 'integer', minimum: 5 }, uniqueItems: true },
  { type: 'array', minItems: 2, items: { enum: ['a', 'b'] }, uniqueItems: true },
  { type: 'array', minItems: 2, items: { type: 'string', minLength: 2 }, uniqueItems: true },
  { type: 'array', prefixItems: [{ type: 'string' }, { type: 'integer' }], minItems: 2 },
  { anyOf: [{ type: 'null' }, { type: 'string', minLength: 9 }] },
  { oneOf: [{ type: 'object', properties: { kind: { const: 'a' }, n: { type: 'integer' } }, required: ['kind', 'n'] }] },
  {
    allOf: [
      { type: 'object', properties: { a: { type: 'integer', minimum: 3 } }, required: ['a'] },
      { properties: { b: { const: 1 } }, required: ['b'] },
    ],
  },
  { type: ['null', 'integer'], minimum: 4 },
  { type: 'object', minProperties: 2, additionalProperties: { type: 'boolean' } },
  {
    type: 'object',
    properties: { 'a b': { type: 'string' }, d: { type: 'integer', default: 7 } },
    required: ['a b'],
    additionalProperties: false,
  },
  { const: { deep: [1] } },
  { enum: [null, 1] },
  {
    $ref: '#/$defs/Order',
    $defs: {
      Order: {
        type: 'object',
        properties: { items: { type: 'array', minItems: 1, items: { $ref: '#/$defs/Item' } } },
        required: ['items'],
      },
      Item: {
        type: 'object',
        properties: { sku: { type: 'string', pattern: '^[0-9]+$' }, parts: { type: 'array', items: { $ref: '#/$defs/Item' } } },
        required: ['sku', 'parts'],
      },
    },
  },
];

for (const schema of SCHEMAS)
  test(`an example obeys ${JSON.stringify(schema).slice(0, 110)}`, (t) => {
    const example = exampleOf(JSON.stringify(schema), undefined);
    t.true(ajv.validate(schema, example), `${JSON.stringify(example)}: ${ajv.errorsText()}`);
  });

test('a default comes first, then what the schema admits, then the type', (t) => {
  t.is(parameterExample({ type: 'integer', defaultValue: '10' }), 10);
  t.is(parameterExample({ type: 'integer', schema: '{"type":"integer","minimum":5}', defaultValue: 'no JSON' }), 5);
  t.is(parameterExample({ type: 'boolean' }), true);
  t.is(parameterExample({ type: '' }), 'text');
  t.is(exampleOf('{"type":', 'otherwise'), 'otherwise');
  const facts = { type: 'integer', schema: undefined };
  t.deepEqual(
    inputExample([
      { ...facts, name: 'must', required: true },
      { ...facts, name: 'has', required: false, defaultValue: '3' },
      { ...facts, name: 'may', required: false },
    ]),
    { must: 1, has: 3 },
  );
});

test('a hostile schema makes a small example in no time', (t) => {
  const recursive = {
    $ref: '#/$defs/A',
    $defs: { A: { type: 'object', properties: { a: { $ref: '#/$defs/A' }, b: { $ref: '#/$defs/A' } }, required: ['a', 'b'] } },
  };
  t.true(JSON.stringify(exampleOf(JSON.stringify(recursive), 0)).length < 10_000);
  t.true(
    JSON.stringify(exampleOf(JSON.stringify({ type: 'array', minItems: 1e9, items: { type: 'string', minLength: 1e9 } }), 0)).length <
      200_000,
  );
  // Each would be joined a hundred times at each of twelve depths.
  for (const key of ['allOf', 'anyOf', 'oneOf']) {
    const each = { $ref: '#/$defs/A' };
    const joined = { $ref: '#/$defs/A', $defs: { A: { [key]: Array.from({ length: 100 }, () => each), properties: { a: each } } } };
    t.true(JSON.stringify(exampleOf(JSON.stringify(joined), 0)).length < 10_000, key);
  }
  const long = { type: 'array', minItems: 100, items: { const: 'x'.repeat(60_000) } };
  t.true(JSON.stringify(exampleOf(JSON.stringify(long), 0)).length < 100_000);
  t.is(exampleOf(`{"const":${'['.repeat(30_000)}${']'.repeat(30_000)}}`, 0), null);
  const names = Array.from({ length: 2_000 }, (_, at) => `p${at}`);
  const wide = { type: 'object', properties: Object.fromEntries(names.map((name) => [name, { $ref: '#/$defs/A' }])), required: names };
  t.true(JSON.stringify(exampleOf(JSON.stringify({ $ref: '#/$defs/A', $defs: { A: wide } }), 0)).length < 10_000);
  t.is(parameterExample({ type: 'constructor' }), 'text');
  const circle = { $ref: '#/$defs/A', $defs: { A: { $ref: '#/$defs/B' }, B: { $ref: '#/$defs/A' } } };
  t.notThrows(() => exampleOf(JSON.stringify(circle), 0));
  t.is(
    Object.getPrototypeOf(exampleOf('{"type":"object","properties":{"__proto__":{"const":{"x":1}}},"required":["__proto__"]}', 0)),
    Object.prototype,
  );
  // An engine would take ages for these; what cannot be made is left out.
  t.is(textLike('^(a+)+$'), 'a');
  t.is(textLike('('.repeat(500)), undefined);
  for (const pattern of ['^(?=.*\\d).{8}$', '(a)\\1', '[z', 'a{99999}', '*', '\\b']) t.is(textLike(pattern), undefined, pattern);
  t.is(textLike('(?:a{999}){999}'), undefined);
});
