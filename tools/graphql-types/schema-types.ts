/** The schema's types in TypeScript, as resolvers return and receive them. */
import {
  isEnumType,
  isInputObjectType,
  isListType,
  isNonNullType,
  isObjectType,
  isScalarType,
  type GraphQLArgument,
  type GraphQLEnumType,
  type GraphQLInputField,
  type GraphQLInputObjectType,
  type GraphQLInputType,
  type GraphQLNamedType,
  type GraphQLObjectType,
  type GraphQLOutputType,
  type GraphQLSchema,
} from 'graphql';

export const HEADER = '/** Generated from the schema by `npm run generate`; do not edit. */\n';

/** Fields that are read from the scheduler only when a query selects them. */
const LAZY: ReadonlySet<string> = new Set(['Environment.endpoints', 'Endpoint.scaling', 'Endpoint.envNames']);

/** What the scalar JSON holds in a field. */
const JSON_FIELDS: Readonly<Record<string, string>> = {
  'Scaling.counts': 'Readonly<Record<string, number>>',
  'Node.packageVersions': 'Readonly<Record<string, string>>',
  'MachineType.packageVersions': 'Readonly<Record<string, string>>',
  'Settings.rateLimits': 'Readonly<Record<string, { readonly requests: number; readonly concurrent: number }>>',
};

const SCALARS: Readonly<Record<string, string>> = {
  ID: 'string',
  String: 'string',
  Time: 'string',
  Int: 'number',
  Float: 'number',
  Boolean: 'boolean',
  JSON: 'unknown',
};

/** Returns the file of all types. */
export function schemaTypes(schema: GraphQLSchema): string {
  const roots = [schema.getQueryType(), schema.getMutationType()].filter((type) => type !== null && type !== undefined);
  const types = Object.values(schema.getTypeMap()).filter(({ name }) => !name.startsWith('__'));
  const named = types.flatMap((type) => (roots.some(({ name }) => name === type.name) ? [] : declaration(type)));
  const fields = roots.flatMap((root) => Object.values(root.getFields()));
  const called = fields.flatMap(({ name, args }) => (args.length === 0 ? [] : [inputs(argumentsName(name), args, 'gateway')]));
  const resolvers = fields.map(({ name, args, type }) => {
    const given = args.length === 0 ? '' : `args: ${argumentsName(name)}`;
    return `  readonly ${name}: (${given}) => Promise<${output(type, '')}>;`;
  });
  const root = `/** The resolvers of Query and Mutation. */\nexport interface Root {\n${resolvers.join('\n')}\n}\n`;
  const spec = "import type { EndpointSpec } from '../../../proto/gen/capstan/v1/control.ts';\n";
  return [HEADER + spec, ...named, ...called, root].join('\n');
}

/** The type of a field of an object that the gateway sends. */
export function scalarType(name: string, field: string): string {
  return JSON_FIELDS[field] ?? SCALARS[name] ?? name;
}

export function enumDeclaration(type: GraphQLEnumType): string {
  return `export type ${type.name} = ${type
    .getValues()
    .map(({ name }) => `'${name}'`)
    .join(' | ')};\n`;
}

/** Who writes a value: a caller, or the gateway, which has filled the defaults in and read the scalars. */
export type Side = 'caller' | 'gateway';

/** The type of an argument, a variable or an input's field that is not null. */
export function inputType(type: GraphQLInputType, side: Side): string {
  if (isNonNullType(type)) return inputType(type.ofType, side);
  if (isListType(type)) {
    const { ofType } = type;
    return `readonly ${isNonNullType(ofType) ? itemType(inputType(ofType, side)) : `(${inputType(ofType, side)} | null)`}[]`;
  }
  if (!isScalarType(type)) return type.name;
  return side === 'caller' && !(type.name in SCALARS) ? 'object' : scalarType(type.name, '');
}

export function inputs(name: string, fields: readonly (GraphQLArgument | GraphQLInputField)[], side: Side): string {
  const lines = fields.map((field) => {
    const type = inputType(field.type, side);
    if (isNonNullType(field.type)) return `  readonly ${field.name}: ${type};`;
    // A caller may set a field that has a default to null.
    if (side === 'gateway' && field.default !== undefined) return `  readonly ${field.name}: ${type} | null;`;
    return `  readonly ${field.name}?: ${type} | null | undefined;`;
  });
  return `export interface ${name} {\n${lines.join('\n')}\n}\n`;
}

function itemType(type: string): string {
  return type.includes(' ') ? `(${type})` : type;
}

function argumentsName(field: string): string {
  return `${field.charAt(0).toUpperCase()}${field.slice(1)}Arguments`;
}

function declaration(type: GraphQLNamedType): string[] {
  if (isEnumType(type)) return [enumDeclaration(type)];
  if (isInputObjectType(type)) return [inputDeclaration(type)];
  if (isObjectType(type)) return [objectDeclaration(type)];
  if (isScalarType(type)) return [];
  throw new Error(`${type.name}: interfaces and unions are not supported`);
}

function inputDeclaration(type: GraphQLInputObjectType): string {
  return inputs(type.name, Object.values(type.getFields()), 'gateway');
}

function objectDeclaration(type: GraphQLObjectType): string {
  const lines = Object.values(type.getFields()).map((field) => {
    const path = `${type.name}.${field.name}`;
    const value = output(field.type, path);
    return `  readonly ${field.name}: ${LAZY.has(path) ? `() => Promise<${value}>` : value};`;
  });
  return `export interface ${type.name} {\n${lines.join('\n')}\n}\n`;
}

function output(type: GraphQLOutputType, field: string): string {
  if (!isNonNullType(type)) return `${nonNull(type, field)} | null`;
  return nonNull(type.ofType, field);
}

function nonNull(type: Exclude<GraphQLOutputType, { readonly ofType: never }>, field: string): string {
  if (isNonNullType(type)) return nonNull(type.ofType, field);
  if (isListType(type)) return `readonly ${itemType(output(type.ofType, field))}[]`;
  return isScalarType(type) ? scalarType(type.name, field) : type.name;
}
