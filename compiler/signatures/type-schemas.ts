/**
 * Reads from the sources which JSON a TypeScript type means, as JSON Schema: types and interfaces of the application's
 * own files, recursive ones too, and the language's own. What the sources do not show is left open ({}).
 *
 * `x-capstan` names a type whose values a worker makes from JSON: Date, BigInt, Map, Set, URL, Uint8Array.
 */
import type { Statement, TSSignature, TSType, TSTypeName } from 'oxc-parser';

import { MAX_SCHEMA_LENGTH } from '../../lib/parameter-schemas.ts';
import { parseModule, topLevel, type ParsedModule } from './exports.ts';
import { readImport } from './modules.ts';

export type Schema = Readonly<Record<string, unknown>>;

const DEEPEST = 40;
const MAX_TYPES = 200;
const OPEN: Schema = {};

type Arguments = readonly TSType[];
type Declaration = Extract<Statement, { type: 'TSTypeAliasDeclaration' | 'TSInterfaceDeclaration' | 'TSEnumDeclaration' }>;

/** A type that the application declares, and the file that does. */
interface Found {
  readonly node: Declaration;
  readonly module: ParsedModule;
}

/** The schemas of one function's parameters. */
export class TypeSchemas {
  readonly #module: ParsedModule;
  readonly #names = new Map<string, string>();
  readonly #definitions = new Map<string, Schema>();
  readonly #modules = new Map<string, ParsedModule>();

  constructor(module: ParsedModule) {
    this.#module = module;
  }

  /** Returns the schema of a type as text, with its definitions; undefined when it is open or too large. */
  async of(type: TSType | undefined): Promise<string | undefined> {
    if (type === undefined) return undefined;
    return this.text(await this.#of(type, this.#module, 0));
  }

  /** Returns a schema as text with the definitions that it uses. */
  text(schema: Schema): string | undefined {
    if (Object.keys(schema).length === 0) return undefined;
    const used = this.#used(schema);
    const text = JSON.stringify(used.length === 0 ? schema : { ...schema, $defs: Object.fromEntries(used) });
    return text.length > MAX_SCHEMA_LENGTH ? undefined : text;
  }

  async #of(type: TSType | undefined, module: ParsedModule, depth: number): Promise<Schema> {
    if (type === undefined || depth > DEEPEST) return OPEN;
    const inner = (each: TSType): Promise<Schema> => this.#of(each, module, depth + 1);
    switch (type.type) {
      case 'TSStringKeyword':
      case 'TSTemplateLiteralType':
        return { type: 'string' };
      case 'TSNumberKeyword':
        return { type: 'number' };
      case 'TSBooleanKeyword':
        return { type: 'boolean' };
      case 'TSBigIntKeyword':
        return { anyOf: [{ type: 'integer' }, { type: 'string', pattern: '^-?[0-9]+$' }], 'x-capstan': 'BigInt' };
      case 'TSNullKeyword':
      case 'TSUndefinedKeyword':
        return { type: 'null' };
      case 'TSObjectKeyword':
        return { type: 'object' };
      case 'TSLiteralType':
        return literalSchema(type.literal);
      case 'TSArrayType':
        return { type: 'array', items: await inner(type.elementType) };
      case 'TSTupleType': {
        const parts = type.elementTypes;
        if (parts.some(({ type: kind }) => kind === 'TSOptionalType' || kind === 'TSRestType')) return { type: 'array' };
        const items = await Promise.all(
          parts.map((each) => inner(each.type === 'TSNamedTupleMember' ? (each.elementType as TSType) : (each as TSType))),
        );
        return { type: 'array', prefixItems: items, minItems: items.length, maxItems: items.length };
      }
      case 'TSTypeOperator':
        return type.operator === 'keyof' ? { type: 'string' } : inner(type.typeAnnotation);
      case 'TSParenthesizedType':
        return inner(type.typeAnnotation);
      case 'TSUnionType':
        return unionOf(await Promise.all(type.types.map(inner)));
      case 'TSIntersectionType':
        return { allOf: await Promise.all(type.types.map(inner)) };
      case 'TSTypeLiteral':
        return this.#members(type.members, module, depth);
      case 'TSTypeReference':
        return this.#reference(type.typeName, type.typeArguments?.params ?? [], module, depth);
      default:
        return OPEN;
    }
  }

  async #members(signatures: readonly TSSignature[], module: ParsedModule, depth: number): Promise<Schema> {
    const properties: [string, Schema][] = [];
    const required: string[] = [];
    let more: Schema | undefined;
    for (const signature of signatures) {
      if (signature.type === 'TSIndexSignature') {
        more = await this.#of(signature.typeAnnotation.typeAnnotation, module, depth + 1);
        continue;
      }
      // A method has no JSON: whatever has one is not made from JSON.
      if (signature.type !== 'TSPropertySignature') return OPEN;
      const name = signature.computed ? undefined : keyName(signature.key as { type: string; name?: string; value?: unknown });
      if (name === undefined) return OPEN;
      properties.push([name, await this.#of(signature.typeAnnotation?.typeAnnotation, module, depth + 1)]);
      if (!signature.optional && !takesUndefined(signature.typeAnnotation?.typeAnnotation)) required.push(name);
    }
    return {
      type: 'object',
      properties: Object.fromEntries(properties),
      required,
      ...(more === undefined ? {} : { additionalProperties: more }),
    };
  }

  async #reference(typeName: TSTypeName, given: Arguments, module: ParsedModule, depth: number): Promise<Schema> {
    if (typeName.type !== 'Identifier') return OPEN;
    const found = await this.#find(typeName.name, module, depth);
    if (found === undefined) return this.#language(typeName.name, given, module, depth);
    const { node } = found;
    if (node.type === 'TSEnumDeclaration') return enumSchema(node);
    // What a generic type means depends on its arguments.
    if (given.length > 0 || (node.typeParameters !== null && node.typeParameters !== undefined)) return OPEN;
    const key = `${found.module.path}\0${node.id.name}`;
    const known = this.#names.get(key);
    if (known !== undefined) return { $ref: `#/$defs/${known}` };
    if (this.#names.size >= MAX_TYPES) return OPEN;
    const name = this.#freeName(node.id.name);
    // Known before its parts are read, which may refer to it.
    this.#names.set(key, name);
    this.#definitions.set(name, { title: node.id.name });
    this.#definitions.set(name, { title: node.id.name, ...(await this.#declared(found, depth + 1)) });
    return { $ref: `#/$defs/${name}` };
  }

  async #declared({ node, module }: Found, depth: number): Promise<Schema> {
    if (node.type === 'TSTypeAliasDeclaration') return this.#of(node.typeAnnotation, module, depth);
    if (node.type !== 'TSInterfaceDeclaration') return OPEN;
    const own = await this.#members(node.body.body, module, depth);
    const bases = await Promise.all(
      node.extends.map(({ expression, typeArguments }) =>
        expression.type === 'Identifier'
          ? this.#reference(expression as unknown as TSTypeName, typeArguments?.params ?? [], module, depth)
          : Promise.resolve(OPEN),
      ),
    );
    return bases.length === 0 ? own : { allOf: [...bases, own] };
  }

  /** A type of the language or of the platform. */
  async #language(name: string, given: Arguments, module: ParsedModule, depth: number): Promise<Schema> {
    const inner = (index: number): Promise<Schema> => this.#of(given[index], module, depth + 1);
    switch (name) {
      case 'Array':
      case 'ReadonlyArray':
        return { type: 'array', items: await inner(0) };
      case 'Set':
      case 'ReadonlySet':
        return { type: 'array', items: await inner(0), 'x-capstan': 'Set' };
      case 'Map':
      case 'ReadonlyMap':
        return { type: 'object', additionalProperties: await inner(1), 'x-capstan': 'Map' };
      case 'Record':
        return { type: 'object', additionalProperties: await inner(1) };
      case 'Readonly':
      case 'NonNullable':
        return inner(0);
      case 'Partial':
        return this.#partial(await inner(0));
      case 'Date':
        return { type: 'string', format: 'date-time', 'x-capstan': 'Date' };
      case 'URL':
        return { type: 'string', format: 'uri', 'x-capstan': 'URL' };
      case 'Uint8Array':
      case 'Buffer':
        return { type: 'string', contentEncoding: 'base64', 'x-capstan': name };
      default:
        return OPEN;
    }
  }

  /** Only of a type whose members are known; its own members stay as they are. */
  #partial(schema: Schema): Schema {
    const reference = schema['$ref'];
    const whole = typeof reference === 'string' ? (this.#definitions.get(reference.slice('#/$defs/'.length)) ?? OPEN) : schema;
    return whole['type'] === 'object' && 'properties' in whole ? { ...whole, required: [] } : OPEN;
  }

  async #find(name: string, module: ParsedModule, depth: number): Promise<Found | undefined> {
    if (depth > DEEPEST) return undefined;
    for (const statement of module.program.body) {
      const node = (statement.type === 'ExportNamedDeclaration' ? statement.declaration : statement) as Statement | null;
      if (node === null) continue;
      const isType = node.type === 'TSTypeAliasDeclaration' || node.type === 'TSInterfaceDeclaration' || node.type === 'TSEnumDeclaration';
      if (isType && node.id.name === name) return { node, module };
    }
    const imported = topLevel(module.program).get(name);
    if (typeof imported !== 'object' || !('from' in imported) || !imported.from.startsWith('.')) return undefined;
    const next = await readImport(module.folder, module.path, imported.from);
    if (next === null) return undefined;
    const parsed = this.#modules.get(next.path) ?? parseModule(next, module.folder);
    this.#modules.set(next.path, parsed);
    return this.#find(imported.name, parsed, depth + 1);
  }

  #freeName(name: string): string {
    let free = name;
    for (let count = 2; this.#definitions.has(free); count += 1) free = `${name}_${count}`;
    return free;
  }

  #used(schema: Schema): [string, Schema][] {
    const used = new Map<string, Schema>();
    const waiting: unknown[] = [schema];
    for (let each = waiting.pop(); each !== undefined; each = waiting.pop()) {
      if (typeof each !== 'object' || each === null) continue;
      const reference = (each as Schema)['$ref'];
      const name = typeof reference === 'string' ? reference.slice('#/$defs/'.length) : undefined;
      const definition = name === undefined ? undefined : this.#definitions.get(name);
      if (name !== undefined && definition !== undefined && !used.has(name)) {
        used.set(name, definition);
        waiting.push(definition);
      }
      waiting.push(...(Object.values(each) as unknown[]).filter((value) => value !== undefined));
    }
    return [...used];
  }
}

/** A union of literals is a choice; with an open member the whole is open. */
function unionOf(members: readonly Schema[]): Schema {
  if (members.some((each) => Object.keys(each).length === 0)) return OPEN;
  if (members.every((each) => 'enum' in each)) return { enum: members.flatMap((each) => each['enum'] as unknown[]) };
  return members.length === 1 ? (members[0] ?? OPEN) : { anyOf: members };
}

function literalSchema(literal: Extract<TSType, { type: 'TSLiteralType' }>['literal']): Schema {
  if (literal.type === 'Literal') {
    const { value } = literal;
    return typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean' ? { enum: [value] } : OPEN;
  }
  if (literal.type !== 'UnaryExpression') return { type: 'string' };
  const { argument, operator } = literal;
  return operator === '-' && argument.type === 'Literal' && typeof argument.value === 'number' ? { enum: [-argument.value] } : OPEN;
}

function enumSchema({ id, body }: Extract<Declaration, { type: 'TSEnumDeclaration' }>): Schema {
  const values: unknown[] = [];
  for (const { initializer } of body.members) {
    const before: unknown = values.at(-1) ?? -1;
    if (initializer === null && typeof before === 'number') values.push(before + 1);
    else if (initializer?.type === 'Literal' && (typeof initializer.value === 'string' || typeof initializer.value === 'number'))
      values.push(initializer.value);
    else return OPEN;
  }
  return { title: id.name, enum: values };
}

function takesUndefined(type: TSType | undefined): boolean {
  return type?.type === 'TSUndefinedKeyword' || (type?.type === 'TSUnionType' && type.types.some(takesUndefined));
}

function keyName(key: { readonly type: string; readonly name?: string; readonly value?: unknown }): string | undefined {
  if (key.type === 'Identifier') return key.name;
  return key.type === 'Literal' ? String(key.value) : undefined;
}
