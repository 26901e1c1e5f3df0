/** Schemas of parameters in the OpenAPI document of an endpoint, which its deployer writes and others read. */
import test from 'ava';

import { readSpec } from '../../gateway/graphql/endpoint-form.ts';
import { documentOf } from '../../gateway/lb/docs/document.ts';
import { DocumentSchemas, MAX_SCHEMA_LENGTH, UNSENT_EXAMPLE } from '../../lib/parameter-schemas.ts';
import type { EndpointEntry } from '../../proto/gen/capstan/v1/control.ts';
import { EndpointEntry as Entry } from '../../proto/gen/capstan/v1/control.ts';
import type { ParameterSpec } from '../../proto/gen/capstan/v1/nodes.ts';

interface Read {
  readonly paths: Record<
    string,
    Record<string, { parameters: unknown[]; requestBody?: { required?: boolean; content: Record<string, { schema: unknown }> } }>
  >;
  readonly components: { readonly schemas: Record<string, unknown> };
}

function documentFor(route: string, parameters: readonly ParameterSpec[]): Read {
  const [method = '', path = ''] = route.split(' ');
  const entry: EndpointEntry = Entry.fromPartial({
    id: 'e',
    name: 'api',
    routes: [{ method, path, function: { name: 'f', module: 'm.py', callStyle: 'CALL_STYLE_POSITIONAL', parameters: [...parameters] } }],
  });
  return documentOf(entry, '') as Read;
}

const parameter = (name: string, schema: unknown, more: Partial<ParameterSpec> = {}): ParameterSpec => ({
  name,
  required: true,
  type: 'object',
  schema: JSON.stringify(schema),
  ...more,
});

const item = (type: string): object => ({
  $ref: '#/$defs/Item',
  $defs: {
    Item: { title: 'Item', type: 'object', properties: { id: { type }, parts: { type: 'array', items: { $ref: '#/$defs/Item' } } } },
  },
});

test('a model that takes the body is its schema; the others are in the query', (t) => {
  const whole = parameter('item', item('integer'), { takesBody: true });
  const { paths, components } = documentFor('PUT /items/{id}', [
    { name: 'id', required: true, type: 'integer' },
    whole,
    { name: 'dry', required: false, type: 'boolean' },
  ]);
  const operation = paths['/items/{id}']?.['put'];
  t.deepEqual(operation?.parameters, [
    { name: 'id', in: 'path', required: true, schema: { type: 'integer' }, example: 1 },
    { name: 'dry', in: 'query', required: false, schema: { type: 'boolean' }, examples: UNSENT_EXAMPLE },
  ]);
  t.deepEqual(operation?.requestBody, {
    required: true,
    content: { 'application/json': { schema: { $ref: '#/components/schemas/Item' }, example: {} } },
  });
  t.deepEqual(components.schemas['Item'], {
    type: 'object',
    title: 'Item',
    properties: { id: { type: 'integer' }, parts: { type: 'array', items: { $ref: '#/components/schemas/Item' } } },
  });
});

test('models of several parameters are keys; definitions of one name that differ have two names', (t) => {
  const { paths, components } = documentFor('POST /both', [
    parameter('a', item('integer')),
    parameter('b', item('string')),
    parameter('c', item('integer')),
  ]);
  const body = paths['/both']?.['post']?.requestBody?.content['application/json']?.schema as { properties: Record<string, unknown> };
  t.deepEqual(body.properties, {
    a: { $ref: '#/components/schemas/Item' },
    b: { $ref: '#/components/schemas/Item_2' },
    c: { $ref: '#/components/schemas/Item' },
  });
  t.deepEqual(Object.keys(components.schemas).toSorted(), ['Error', 'Item', 'Item_2']);
  t.like(documentFor('POST /x', [parameter('a', { $ref: '#/$defs/Error', $defs: { Error: { type: 'string' } } })]).components.schemas, {
    Error: { type: 'object' },
    Error_2: { type: 'string' },
  });
});

const open: readonly (readonly [what: string, text: string, expected: object])[] = [
  ['a remote reference', '{"$ref":"https://evil.test/schema.json"}', {}],
  ['a reference out of the schema', '{"$ref":"#/paths/x"}', {}],
  ['a reference to nothing', '{"$ref":"#/$defs/toString"}', {}],
  ['unknown keywords', '{"type":"string","$id":"https://evil.test/","x-script":"<script>"}', { type: 'string' }],
  ['a type that is none', '{"type":"script"}', {}],
  ['no JSON', '{', { type: 'object' }],
  ['no object', '[1]', { type: 'object' }],
  ['too much', JSON.stringify({ title: 'x'.repeat(MAX_SCHEMA_LENGTH) }), { type: 'object' }],
  [
    'markup',
    '{"description":"<b>*x*</b>","title":"[a](javascript:b)"}',
    { title: '\\[a\\](javascript:b)', description: '\\<b\\>\\*x\\*\\</b\\>' },
  ],
];
for (const [what, text, expected] of open) {
  test(`${what} is left out`, (t) => {
    t.deepEqual(new DocumentSchemas().of(text, { type: 'object' }), expected);
  });
}

test('definitions whose names are the same in the document are numbered, and those that are equal share one', (t) => {
  const names = ['É', 'È', '_2', 'Ê'];
  const schema = {
    anyOf: names.map((name) => ({ $ref: `#/$defs/${name}` })),
    $defs: { É: { title: 'a' }, È: { title: 'b' }, _2: { title: 'c' }, Ê: { title: 'a' } },
  };
  const schemas = new DocumentSchemas();
  const { anyOf } = schemas.of(JSON.stringify(schema), {}) as { anyOf: { $ref: string }[] };
  t.deepEqual(
    anyOf.map(({ $ref }) => $ref.slice('#/components/schemas/'.length)),
    ['_', '__2', '_2', '_'],
  );
  t.deepEqual(schemas.definitions(), { _: { title: 'a' }, __2: { title: 'b' }, _2: { title: 'c' } });
  const error = schemas.of(JSON.stringify({ $ref: '#/$defs/Error', $defs: { Error: { title: 'd' } } }), {});
  t.deepEqual(error, { $ref: '#/components/schemas/Error_2' }, 'Error is the one of the document itself');
});

test('keys such as __proto__ are keys', (t) => {
  const text = '{"default":{"__proto__":{"polluted":1}},"properties":{"__proto__":{"type":"string"}}}';
  const found = new DocumentSchemas().of(text, {}) as { properties: object; default: object };
  t.is(JSON.stringify(found), text);
  t.is(Object.getPrototypeOf(found.properties), Object.prototype);
  t.is(({} as { polluted?: unknown }).polluted, undefined);
  t.is(JSON.stringify(new DocumentSchemas().of('{"$ref":"#/$defs/__proto__"}', {})), '{}');
});

test('depth and size of a document are bounded', (t) => {
  const deep = `${'{"items":'.repeat(6_000)}{}${'}'.repeat(6_000)}`;
  t.true(JSON.stringify(new DocumentSchemas().of(deep, {})).length < 1_000);
  // Each definition refers to the next one twice: a document that resolved them would double with each.
  const definitions = Object.fromEntries(
    Array.from({ length: 200 }, (_, index) => [
      `D${index}`,
      { anyOf: [{ $ref: `#/$defs/D${index + 1}` }, { $ref: `#/$defs/D${index + 1}` }] },
    ]),
  );
  const schemas = new DocumentSchemas();
  schemas.of(JSON.stringify({ $ref: '#/$defs/D0', $defs: definitions }), {});
  t.true(JSON.stringify(schemas.definitions()).length < 100_000);
  const wide = new DocumentSchemas();
  const value = JSON.stringify({ enum: Array.from({ length: 30_000 }, () => 1) });
  for (let count = 0; count < 10; count += 1) wide.of(value, {});
  t.deepEqual(wide.of('{"type":"string"}', {}), {}, 'nothing more is added');
});

test('a deployment by GraphQL may have schemas', (t) => {
  const parameters = [{ name: 'a', required: true, type: 'object', schema: '{"type":"object"}', takesBody: true }];
  const form = (more: object): object => ({
    name: 'e',
    functions: [{ name: 'f', module: 'm.py', callStyle: 'CALL_STYLE_POSITIONAL', parameters: [{ ...parameters[0], ...more }] }],
  });
  t.deepEqual(readSpec(form({})).functions[0]?.parameters, [{ ...parameters[0], defaultValue: undefined }]);
  t.is(readSpec(form({ defaultValue: '1' })).functions[0]?.parameters[0]?.defaultValue, '1');
  t.throws(() => readSpec(form({ defaultValue: 1 })), { message: /parameters\[0\]\.defaultValue/ });
  t.throws(() => readSpec(form({ schema: {} })), { message: /parameters\[0\]\.schema/ });
  t.throws(() => readSpec(form({ takesBody: 'yes' })), { message: /parameters\[0\]\.takesBody/ });
});

test('a deployment by GraphQL may have the methods of a class', (t) => {
  const methods = [{ name: 'm', callStyle: 'CALL_STYLE_WHOLE', parameters: [] }];
  const form = (classSpec: object): object => ({ name: 'e', functions: [{ name: 'f', module: 'm.ts', classSpec }] });
  t.deepEqual(readSpec(form({ methods })).functions[0]?.classSpec, { methods });
  t.is(readSpec({ name: 'e', functions: [{ name: 'f', module: 'm.ts' }] }).functions[0]?.classSpec, undefined);
  t.throws(() => readSpec(form({ methods: [{ name: 1 }] })), { message: /classSpec\.methods\[0\]\.name: must be a string/ });
});
