/**
 * Reads from a function's source how the input's keys become its parameters (CallStyle and ParameterSpec of
 * nodes.proto), without running it:
 *
 *   f(a, b = 1, c?)            POSITIONAL   a; b and c are optional
 *   f({ a, b = 1 })            OBJECT       a; b is optional
 *   f(order: Order)            OBJECT       the members of Order, when this application declares it
 *   f(input), f({ a, ...b })   WHOLE        any keys
 *
 * A parameter `ctx`, or a last one `context` unless its type is a plain value, receives the job's context and is not a
 * key of the input.
 */
import type { ParamPattern, TSSignature, TSType } from 'oxc-parser';

import { MAX_SCHEMA_LENGTH, MAX_SCHEMAS_LENGTH } from '../../lib/parameter-schemas.ts';
import { CallStyle, type FunctionSpec, type ParameterSpec } from '../../proto/gen/capstan/v1/nodes.ts';
import { commentOf, defaultOf } from './documentation.ts';
import { parseModule, topLevel, type Callable, type ParsedModule } from './exports.ts';
import { readImport } from './modules.ts';
import { TypeSchemas, type Schema } from './type-schemas.ts';

export interface Parameter extends ParameterSpec {
  /** An example value of the parameter's type, for the command that is printed. */
  readonly sample: unknown;
}

/** The parameters as the service and the workers receive them. */
export function withoutSamples(parameters: readonly Parameter[]): ParameterSpec[] {
  return parameters.map(({ sample: _sample, ...spec }) => spec);
}

/** Leaves out the schemas of an endpoint's functions beyond the limit of the service: their types stay. */
export function withinLimit(functions: readonly FunctionSpec[]): FunctionSpec[] {
  let left = MAX_SCHEMAS_LENGTH;
  const fitting = (parameters: readonly ParameterSpec[]): ParameterSpec[] =>
    parameters.map(({ schema, ...spec }) => {
      if (schema === undefined || schema.length > Math.min(left, MAX_SCHEMA_LENGTH)) return spec;
      left -= schema.length;
      return { ...spec, schema };
    });
  return functions.map(({ classSpec, ...fn }) => ({
    ...fn,
    parameters: fitting(fn.parameters),
    ...(classSpec === undefined
      ? {}
      : { classSpec: { methods: classSpec.methods.map((method) => ({ ...method, parameters: fitting(method.parameters) })) } }),
  }));
}

export interface Reading {
  readonly style: CallStyle;
  readonly parameters: readonly Parameter[];
  /** What its author wrote about the function; absent without it. */
  readonly description?: string;
}

/** Adds the description, if there is one. */
export function described(reading: Reading, description: string | undefined): Reading {
  return description === undefined || description === '' ? reading : { ...reading, description };
}

const WHOLE: Reading = { style: CallStyle.WHOLE, parameters: [] };

/** The module exists, but what it exports depends on running it. */
export const UNREAD: Reading = { style: CallStyle.UNSPECIFIED, parameters: [] };

/** What a type says about its values. */
type Shape =
  | { readonly kind: 'value'; readonly sample: unknown; readonly type?: string }
  /** An object with exactly these keys. */
  | { readonly kind: 'members'; readonly members: readonly Parameter[] }
  /** Some object. */
  | { readonly kind: 'object' }
  /** Nothing is known. */
  | { readonly kind: 'unknown' };

const UNKNOWN: Shape = { kind: 'unknown' };
const OBJECT: Shape = { kind: 'object' };
/** Types of the language whose values are not objects with keys. */
const values: Readonly<Record<string, unknown>> = {
  Array: [],
  ReadonlyArray: [],
  Set: [],
  Date: '2026-01-01T00:00:00Z',
  // Base64 of `text`.
  Uint8Array: 'dGV4dA==',
  Buffer: 'dGV4dA==',
  URL: 'https://example.com/',
};
/** Names of types whose values JSON can represent. */
const jsonTypes: Readonly<Record<string, string>> = { Array: 'array', ReadonlyArray: 'array', Date: 'string', URL: 'string' };
/** Maximum number of type names to follow. */
const DEEPEST = 10;

export async function readParameters(node: Callable, module: ParsedModule): Promise<Reading> {
  const parameters: Taken[] = [];
  const schemas = new TypeSchemas(module);
  for (const each of node.params) {
    const taken = { ...(await take(each, module)), schema: await schemas.of(typeOfPattern(each)) };
    if (taken.name !== 'this') parameters.push(taken); // a type of TypeScript, not a parameter
  }
  const context = contextOf(parameters);
  if (context !== -1) parameters.splice(context, 1);
  const [first] = parameters;
  const reading = parameters.length === 1 && first !== undefined ? readSole(first) : readSeveral(parameters);
  return described(reading, commentOf(node, module));
}

interface Taken {
  /** Null for a pattern or a rest parameter. */
  readonly name: string | null;
  readonly required: boolean;
  readonly shape: Shape;
  /** Returns the keys that a destructured object names; null for any other parameter, and when its keys are open. */
  readonly keys: readonly Parameter[] | null;
  /** JSON Schema of its type, text. */
  readonly schema?: string | undefined;
  readonly defaultValue?: DefaultValue;
}

/** The default as JSON, where the source shows it. */
type DefaultValue = Pick<Parameter, 'defaultValue'>;

function readSole(parameter: Taken): Reading {
  const { name, keys, shape, schema } = parameter;
  if (keys !== null) return { style: CallStyle.OBJECT, parameters: withSchemas(keys, schema) };
  if (name === null || (shape.kind === 'object' && mayBeObject(schema))) return wholeOf(name, parameter);
  if (shape.kind === 'members') return { style: CallStyle.OBJECT, parameters: withSchemas(shape.members, schema) };
  if (name === 'input' && shape.kind === 'unknown') return WHOLE;
  return readSeveral([parameter]);
}

function readSeveral(parameters: readonly Taken[]): Reading {
  const read: Parameter[] = [];
  for (const { name, required, shape, schema, defaultValue } of parameters) {
    if (name === null) return WHOLE;
    read.push(withSchema({ name, required, type: typeOf(shape), sample: sampleOf(shape), ...defaultValue }, schema));
  }
  return { style: CallStyle.POSITIONAL, parameters: read };
}

/** The whole input with its schema, if its type is known to be an object. */
function wholeOf(name: string | null, { required, schema }: Taken): Reading {
  const whole = schema === undefined ? undefined : (JSON.parse(schema) as Schema);
  if (whole === undefined || !isObjectSchema(whole, whole['$defs'] as Schema | undefined)) return WHOLE;
  const parameter = { name: name ?? 'input', required, type: 'object', sample: {}, takesBody: true, schema };
  return { style: CallStyle.WHOLE, parameters: [parameter] };
}

/** False for a type that the sources show to be no object, such as an enum or a union with a string. */
function mayBeObject(text: string | undefined): boolean {
  if (text === undefined) return true;
  const { $defs: definitions, ...schema } = JSON.parse(text) as { readonly $defs?: Schema } & Schema;
  return isObjectSchema(schema, definitions);
}

function isObjectSchema(schema: Schema, definitions: Schema = {}): boolean {
  const reference = schema['$ref'];
  const found = typeof reference === 'string' ? (definitions[reference.slice('#/$defs/'.length)] as Schema | undefined) : schema;
  return found?.['type'] === 'object' || Array.isArray(found?.['allOf']);
}

/** Gives each key the schema that the type of their object has for it. */
function withSchemas(keys: readonly Parameter[], text: string | undefined): Parameter[] {
  if (text === undefined) return [...keys];
  const { $defs: definitions, ...own } = JSON.parse(text) as { readonly $defs?: Schema } & Schema;
  const reference = own['$ref'];
  const object = typeof reference === 'string' ? (definitions?.[reference.slice('#/$defs/'.length)] as Schema) : own;
  const properties = (object['properties'] ?? {}) as Schema;
  return keys.map((each) => {
    const schema = Object.hasOwn(properties, each.name) ? (properties[each.name] as Schema) : {};
    const used = JSON.stringify(schema).includes('"$ref"') ? { ...schema, $defs: definitions } : schema;
    return withSchema(each, Object.keys(schema).length === 0 ? undefined : JSON.stringify(used));
  });
}

/** A schema that says no more than the type is left out. */
function withSchema(parameter: Parameter, schema: string | undefined): Parameter {
  if (schema === undefined || schema === JSON.stringify({ type: parameter.type })) return parameter;
  if (parameter.type !== 'object' || mayBeObject(schema)) return { ...parameter, schema };
  const { enum: choices } = JSON.parse(schema) as { readonly enum?: readonly unknown[] };
  return { ...parameter, type: '', sample: choices?.[0] ?? 'text', schema };
}

function typeOfPattern(pattern: ParamPattern): TSType | undefined {
  switch (pattern.type) {
    case 'Identifier':
    case 'ObjectPattern':
      return pattern.typeAnnotation?.typeAnnotation;
    case 'AssignmentPattern':
      return typeOfPattern(pattern.left);
    default:
      return undefined;
  }
}

/** Returns the index of the parameter that receives the context: `ctx` at any place, otherwise a last `context`; else -1. */
function contextOf(parameters: readonly Taken[]): number {
  const last = parameters.length - 1;
  const found = parameters.findIndex(({ name, shape }, index) => name === 'ctx' && (index === last || shape.kind !== 'value'));
  if (found !== -1) return found;
  return parameters[last]?.name === 'context' && parameters[last].shape.kind !== 'value' ? last : -1;
}

async function take(parameter: ParamPattern, module: ParsedModule): Promise<Taken> {
  const optional = (parameter as { readonly optional?: boolean }).optional === true;
  switch (parameter.type) {
    case 'Identifier':
      return {
        name: parameter.name,
        required: !optional,
        shape: await shapeOf(parameter.typeAnnotation?.typeAnnotation, module),
        keys: null,
      };
    case 'AssignmentPattern': {
      const inner = await take(parameter.left, module);
      const shape: Shape =
        inner.shape.kind === 'unknown' && parameter.right.type === 'Literal' ? literal(parameter.right.value) : inner.shape;
      return { ...inner, shape, required: false, defaultValue: defaultOf(parameter.right) };
    }
    case 'ObjectPattern': {
      const shape = await shapeOf(parameter.typeAnnotation?.typeAnnotation, module);
      return { name: null, required: !optional, shape, keys: keysOf(parameter, shape) };
    }
    default:
      return { name: null, required: false, shape: UNKNOWN, keys: null };
  }
}

/** Returns the keys of a destructuring and those that its type adds; null when it takes any key. */
function keysOf(pattern: ParamPattern & { type: 'ObjectPattern' }, shape: Shape): Parameter[] | null {
  const members = new Map((shape.kind === 'members' ? shape.members : []).map((member) => [member.name, member]));
  const keys: Parameter[] = [];
  for (const property of pattern.properties) {
    if (property.type === 'RestElement') return null;
    const name = keyName(property);
    if (name === null) return null;
    const member = members.get(name);
    members.delete(name);
    keys.push({
      name,
      required: property.value.type !== 'AssignmentPattern' && member?.required !== false,
      type: member?.type ?? '',
      sample: member?.sample ?? 'text',
      ...(property.value.type === 'AssignmentPattern' ? defaultOf(property.value.right) : {}),
    });
  }
  return [...keys, ...members.values()];
}

async function shapeOf(type: TSType | undefined, module: ParsedModule, depth = 0): Promise<Shape> {
  if (type === undefined || depth > DEEPEST) return UNKNOWN;
  switch (type.type) {
    case 'TSStringKeyword':
    case 'TSTemplateLiteralType':
      return { kind: 'value', sample: 'text', type: 'string' };
    case 'TSNumberKeyword':
      return { kind: 'value', sample: 1, type: 'number' };
    case 'TSBigIntKeyword':
      return { kind: 'value', sample: 1, type: 'integer' };
    case 'TSBooleanKeyword':
      return { kind: 'value', sample: true, type: 'boolean' };
    case 'TSLiteralType':
      return type.literal.type === 'Literal' ? literal(type.literal.value) : { kind: 'value', sample: 'text', type: 'string' };
    case 'TSNullKeyword':
    case 'TSUndefinedKeyword':
      return { kind: 'value', sample: null };
    case 'TSArrayType':
    case 'TSTupleType':
      return { kind: 'value', sample: [], type: 'array' };
    case 'TSTypeOperator':
    case 'TSParenthesizedType':
      return shapeOf(type.typeAnnotation, module, depth + 1);
    case 'TSUnionType':
      return unionOf(await Promise.all(type.types.map((each) => shapeOf(each, module, depth + 1))));
    case 'TSTypeLiteral':
      return membersOf(type.members, module, depth);
    case 'TSTypeReference':
      return type.typeName.type === 'Identifier' ? namedShape(type.typeName.name, type.typeArguments !== null, module, depth) : OBJECT;
    case 'TSAnyKeyword':
    case 'TSUnknownKeyword':
      return UNKNOWN;
    default:
      return OBJECT;
  }
}

/** A union of plain values stays plain; with an object among them nothing more is known. */
function unionOf(shapes: readonly Shape[]): Shape {
  const sample = shapes.find((shape) => shape.kind === 'value' && shape.sample !== null) ?? shapes[0];
  if (shapes.every((shape) => shape.kind === 'value')) {
    // A value of several types, including null, is not checked.
    const types = new Set(shapes.map(typeOf));
    return sample?.kind === 'value' ? { ...sample, type: types.size === 1 ? typeOf(sample) : '' } : UNKNOWN;
  }
  return shapes.some((shape) => shape.kind === 'unknown') ? UNKNOWN : OBJECT;
}

async function membersOf(signatures: readonly TSSignature[], module: ParsedModule, depth: number): Promise<Shape> {
  const members: Parameter[] = [];
  for (const signature of signatures) {
    const name = signature.type === 'TSPropertySignature' ? keyName(signature) : null;
    if (signature.type !== 'TSPropertySignature' || name === null) return OBJECT; // an index signature takes any key
    const shape = await shapeOf(signature.typeAnnotation?.typeAnnotation, module, depth + 1);
    members.push({ name, required: !signature.optional, type: typeOf(shape), sample: sampleOf(shape) });
  }
  return { kind: 'members', members };
}

/** Resolves a type by its name: declared in this file, or imported from another file of the application. */
async function namedShape(name: string, generic: boolean, module: ParsedModule, depth: number): Promise<Shape> {
  for (const statement of module.program.body) {
    const node = statement.type === 'ExportNamedDeclaration' ? statement.declaration : statement;
    if (node?.type === 'TSTypeAliasDeclaration' && node.id.name === name) {
      return generic || node.typeParameters !== null ? OBJECT : shapeOf(node.typeAnnotation, module, depth + 1);
    }
    if (node?.type === 'TSInterfaceDeclaration' && node.id.name === name) {
      return generic || node.extends.length > 0 ? OBJECT : membersOf(node.body.body, module, depth);
    }
  }
  const imported = topLevel(module.program).get(name);
  if (typeof imported === 'object' && 'from' in imported && imported.from.startsWith('.')) {
    const next = await readImport(module.folder, module.path, imported.from);
    if (next !== null) return namedShape(imported.name, generic, parseModule(next, module.folder), depth + 1);
  }
  if (name === 'Request') return { kind: 'value', sample: {}, type: 'request' };
  return Object.hasOwn(values, name) ? { kind: 'value', sample: values[name], type: jsonTypes[name] ?? '' } : OBJECT;
}

function keyName(property: { readonly key: { readonly type: string }; readonly computed: boolean }): string | null {
  if (property.computed) return null;
  const key = property.key as { readonly type: string; readonly name?: string; readonly value?: unknown };
  if (key.type === 'Identifier') return key.name ?? null;
  return key.type === 'Literal' ? String(key.value) : null;
}

function sampleOf(shape: Shape): unknown {
  switch (shape.kind) {
    case 'value':
      return shape.sample;
    case 'members':
      return Object.fromEntries(shape.members.filter(({ required }) => required).map(({ name, sample }) => [name, sample]));
    default:
      return shape.kind === 'object' ? {} : 'text';
  }
}

/** Returns the names of JSON's own types; empty when the source does not state them. */
function typeOf(shape: Shape): string {
  switch (shape.kind) {
    case 'value':
      return shape.type ?? '';
    case 'members':
    case 'object':
      return 'object';
    case 'unknown':
      return '';
  }
}

function literal(value: unknown): Shape {
  const type = typeof value;
  return { kind: 'value', sample: plain(value), type: type === 'string' || type === 'number' || type === 'boolean' ? type : '' };
}

/** Returns a literal in a form that JSON can represent. */
function plain(value: unknown): unknown {
  return typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean' ? value : null;
}
