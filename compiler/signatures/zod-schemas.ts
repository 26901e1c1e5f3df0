/**
 * Reads from the source which JSON a schema of zod accepts, as JSON Schema, for the documentation: calls of `z`, also
 * through constants of the application's own files. What the source does not show is left open ({}). The schema itself
 * validates when the worker runs it.
 */
import type { Expression, Argument, Statement } from 'oxc-parser';

import { MAX_SCHEMA_LENGTH } from '../../lib/parameter-schemas.ts';
import { parseModule, topLevel, type ParsedModule } from './exports.ts';
import { readImport } from './modules.ts';

type Schema = Readonly<Record<string, unknown>>;

/** What a call of zod accepts; `optional`: its key may be absent. */
interface Accepted {
  readonly schema: Schema;
  readonly optional: boolean;
}

const DEEPEST = 60;
const OPEN: Accepted = { schema: {}, optional: false };

const BASES: Readonly<Record<string, Schema>> = {
  string: { type: 'string' },
  number: { type: 'number' },
  int: { type: 'integer' },
  boolean: { type: 'boolean' },
  null: { type: 'null' },
  email: { type: 'string', format: 'email' },
  url: { type: 'string', format: 'uri' },
  uuid: { type: 'string', format: 'uuid' },
  datetime: { type: 'string', format: 'date-time' },
  date: { type: 'string', format: 'date' },
  base64: { type: 'string', contentEncoding: 'base64' },
};
/** Rules of a number, of text and of an array. */
const RULES: Readonly<Record<string, readonly [number: string, text: string, array: string]>> = {
  min: ['minimum', 'minLength', 'minItems'],
  max: ['maximum', 'maxLength', 'maxItems'],
  gte: ['minimum', '', ''],
  lte: ['maximum', '', ''],
  gt: ['exclusiveMinimum', '', ''],
  lt: ['exclusiveMaximum', '', ''],
  multipleOf: ['multipleOf', '', ''],
};

/** Returns the schema as text, with its definitions; undefined when it is open or too large. */
export async function zodSchema(node: Expression, module: ParsedModule): Promise<string | undefined> {
  const reader = new ZodReader();
  const { schema } = await reader.read(node, module, 0);
  if (Object.keys(schema).length === 0) return undefined;
  const text = JSON.stringify(reader.definitions.size === 0 ? schema : { ...schema, $defs: Object.fromEntries(reader.definitions) });
  return text.length > MAX_SCHEMA_LENGTH ? undefined : text;
}

class ZodReader {
  readonly definitions = new Map<string, Schema>();
  readonly #constants = new Map<string, { readonly name: string; optional: boolean }>();

  async read(node: Expression | Argument | undefined, module: ParsedModule, depth: number): Promise<Accepted> {
    if (node === undefined || node.type === 'SpreadElement' || depth > DEEPEST) return OPEN;
    if (node.type === 'Identifier') return this.#constant(node.name, module, depth);
    if (node.type === 'ParenthesizedExpression' || node.type === 'TSAsExpression' || node.type === 'TSSatisfiesExpression')
      return this.read(node.expression, module, depth);
    if (node.type !== 'CallExpression' || node.callee.type !== 'MemberExpression') return OPEN;
    const { object, property } = node.callee;
    if (node.callee.computed || property.type !== 'Identifier') return OPEN;
    if (isZod(object, module)) return this.#base(property.name, node.arguments, module, depth);
    return this.#changed(await this.read(object, module, depth + 1), property.name, node.arguments, { module, depth });
  }

  async #base(name: string, given: readonly Argument[], module: ParsedModule, depth: number): Promise<Accepted> {
    const inner = async (index: number): Promise<Accepted> => this.read(given[index], module, depth + 1);
    const all = async (node: Argument | undefined): Promise<Schema[]> =>
      node?.type === 'ArrayExpression'
        ? Promise.all(node.elements.map(async (each) => (await this.read(each ?? undefined, module, depth + 1)).schema))
        : [{}];
    switch (name) {
      case 'object':
      case 'strictObject':
      case 'looseObject':
        return accepted(await this.#object(given[0], module, depth, name === 'strictObject'));
      case 'array':
        return accepted({ type: 'array', items: (await inner(0)).schema });
      case 'tuple': {
        const items = await all(given[0]);
        return accepted({ type: 'array', prefixItems: items, minItems: items.length, maxItems: items.length });
      }
      case 'record':
        return accepted({ type: 'object', additionalProperties: (await inner(given.length - 1)).schema });
      case 'union':
        return accepted(unionOf(await all(given[0])));
      case 'discriminatedUnion':
        return accepted(unionOf(await all(given[1])));
      case 'literal':
      case 'enum': {
        const values = literalsOf(given[0]);
        return accepted(values === undefined ? {} : { enum: values });
      }
      case 'optional':
        return { ...(await inner(0)), optional: true };
      case 'nullable':
        return nullable(await inner(0));
      case 'lazy': {
        const [made] = given;
        return made?.type === 'ArrowFunctionExpression' && made.expression
          ? this.read(made.body as unknown as Expression, module, depth + 1)
          : OPEN;
      }
      default:
        return accepted(BASES[name] ?? {});
    }
  }

  async #object(node: Argument | undefined, module: ParsedModule, depth: number, isClosed: boolean): Promise<Schema> {
    if (node?.type !== 'ObjectExpression') return { type: 'object' };
    const properties: [string, Schema][] = [];
    const required: string[] = [];
    for (const property of node.properties) {
      // What a spread adds is not read: the object stays open.
      if (property.type !== 'Property' || property.computed) continue;
      const name =
        property.key.type === 'Identifier' ? property.key.name : property.key.type === 'Literal' ? String(property.key.value) : undefined;
      if (name === undefined) continue;
      const { schema, optional } =
        property.kind === 'init' ? await this.read(property.value, module, depth + 1) : { ...OPEN, optional: true };
      properties.push([name, schema]);
      if (!optional && Object.keys(schema).length > 0) required.push(name);
    }
    return { type: 'object', properties: Object.fromEntries(properties), required, ...(isClosed ? { additionalProperties: false } : {}) };
  }

  /** What a method of a schema makes of it. Others, such as refine and transform, accept the same. */
  async #changed(
    { schema, optional }: Accepted,
    name: string,
    given: readonly Argument[],
    { module, depth }: { readonly module: ParsedModule; readonly depth: number },
  ): Promise<Accepted> {
    const [first] = given;
    const value = literalsOf(first)?.[0];
    const rule = RULES[name];
    if (rule !== undefined && typeof value === 'number') {
      const key = schema['type'] === 'string' ? rule[1] : schema['type'] === 'array' ? rule[2] : rule[0];
      return { schema: key === '' ? schema : { ...schema, [key]: value }, optional };
    }
    switch (name) {
      case 'optional':
      case 'catch':
        return { schema, optional: true };
      case 'nullable':
        return nullable({ schema, optional });
      case 'nullish':
        return nullable({ schema, optional: true });
      case 'default':
      case 'prefault':
        return { schema: value === undefined || '$ref' in schema ? schema : { ...schema, default: value }, optional: true };
      case 'describe':
        return { schema: typeof value === 'string' && !('$ref' in schema) ? { ...schema, description: value } : schema, optional };
      case 'int':
        return { schema: { ...schema, type: 'integer' }, optional };
      case 'positive':
        return { schema: { ...schema, exclusiveMinimum: 0 }, optional };
      case 'nonnegative':
        return { schema: { ...schema, minimum: 0 }, optional };
      case 'nonempty':
        return { schema: { ...schema, [schema['type'] === 'array' ? 'minItems' : 'minLength']: 1 }, optional };
      case 'email':
      case 'url':
      case 'uuid':
      case 'datetime':
        return { schema: schema['type'] === 'string' ? { ...schema, ...BASES[name] } : schema, optional };
      case 'array':
        return accepted({ type: 'array', items: schema });
      case 'strict':
        return { schema: { ...schema, additionalProperties: false }, optional };
      case 'or':
        return { schema: unionOf([schema, (await this.read(first, module, depth + 1)).schema]), optional };
      case 'partial':
        return { schema: given.length === 0 ? { ...this.#resolved(schema), required: [] } : {}, optional };
      case 'extend': {
        const [own, more] = [this.#resolved(schema), await this.#object(first, module, depth, false)];
        const properties = { ...(own['properties'] as Schema), ...(more['properties'] as Schema) };
        const required = [...new Set([...((own['required'] as string[] | undefined) ?? []), ...(more['required'] as string[])])];
        return { schema: { ...own, properties, required }, optional };
      }
      case 'pick':
      case 'omit':
      case 'merge':
      case 'and':
      case 'pipe':
        return { schema: {}, optional };
      default:
        return { schema, optional };
    }
  }

  /** A schema that a constant holds, here or in another file of the application. It may refer to itself. */
  async #constant(name: string, module: ParsedModule, depth: number): Promise<Accepted> {
    const found = await constantOf(name, module, depth);
    if (found === undefined) return OPEN;
    const key = `${found.module.path}\0${found.name}`;
    const known = this.#constants.get(key);
    if (known !== undefined) return { schema: { $ref: `#/$defs/${known.name}` }, optional: known.optional };
    let free = found.name;
    for (let count = 2; this.definitions.has(free); count += 1) free = `${found.name}_${count}`;
    // Known before its parts are read, which may refer to it.
    const entry = { name: free, optional: false };
    this.#constants.set(key, entry);
    this.definitions.set(free, {});
    const { schema, optional } = await this.read(found.node, found.module, depth + 1);
    this.definitions.set(free, schema);
    entry.optional = optional;
    return { schema: Object.keys(schema).length === 0 ? {} : { $ref: `#/$defs/${free}` }, optional };
  }

  #resolved(schema: Schema): Schema {
    const reference = schema['$ref'];
    return typeof reference === 'string' ? (this.definitions.get(reference.slice('#/$defs/'.length)) ?? {}) : schema;
  }
}

function accepted(schema: Schema): Accepted {
  return { schema, optional: false };
}

function nullable({ schema, optional }: Accepted): Accepted {
  return { schema: unionOf([schema, { type: 'null' }]), optional };
}

function unionOf(members: readonly Schema[]): Schema {
  return members.some((each) => Object.keys(each).length === 0) ? {} : { anyOf: members };
}

/** Returns the values of literals: one, or those of an array. */
function literalsOf(node: Argument | undefined): (string | number | boolean)[] | undefined {
  if (node?.type === 'Literal')
    return typeof node.value === 'string' || typeof node.value === 'number' || typeof node.value === 'boolean' ? [node.value] : undefined;
  if (
    node?.type === 'UnaryExpression' &&
    node.operator === '-' &&
    node.argument.type === 'Literal' &&
    typeof node.argument.value === 'number'
  )
    return [-node.argument.value];
  if (node?.type === 'TSAsExpression') return literalsOf(node.expression);
  if (node?.type !== 'ArrayExpression') return undefined;
  const each = node.elements.map((element) => (element === null ? undefined : literalsOf(element)?.[0]));
  return each.every((value) => value !== undefined) ? each : undefined;
}

/** True for `z`, and for `z.coerce` and `z.iso`. */
function isZod(node: Expression, module: ParsedModule): boolean {
  if (node.type === 'MemberExpression' && !node.computed && node.property.type === 'Identifier')
    return (node.property.name === 'coerce' || node.property.name === 'iso') && isZod(node.object, module);
  if (node.type !== 'Identifier') return false;
  return module.program.body.some(
    (statement) =>
      statement.type === 'ImportDeclaration' &&
      /^zod(\/|$)/.test(statement.source.value) &&
      statement.specifiers.some(({ local }) => local.name === node.name),
  );
}

interface Constant {
  readonly name: string;
  readonly node: Expression;
  readonly module: ParsedModule;
}

async function constantOf(name: string, module: ParsedModule, depth: number): Promise<Constant | undefined> {
  if (depth > DEEPEST) return undefined;
  for (const statement of module.program.body) {
    const node = (statement.type === 'ExportNamedDeclaration' ? statement.declaration : statement) as Statement | null;
    if (node?.type !== 'VariableDeclaration' || node.kind !== 'const') continue;
    const found = node.declarations.find(({ id }) => id.type === 'Identifier' && id.name === name);
    if (found !== undefined) return found.init === null ? undefined : { name, node: found.init, module };
  }
  const imported = topLevel(module.program).get(name);
  if (typeof imported !== 'object' || !('from' in imported) || !imported.from.startsWith('.')) return undefined;
  const next = await readImport(module.folder, module.path, imported.from);
  return next === null ? undefined : constantOf(imported.name, parseModule(next, module.folder), depth + 1);
}
