/**
 * Checks JSON values by the schemas that the build read from TypeScript types (compiler/signatures/type-schemas.ts), and makes
 * the values of types that JSON lacks (`x-capstan`). Only the keywords that the build writes count; patterns are not
 * applied. Keys that a schema does not name are kept, as TypeScript's own types allow them.
 */

import { unsafeInteger } from './parameter-types.ts';

type Json = Readonly<Record<string, unknown>>;

export interface Problem {
  readonly path: readonly (string | number)[];
  readonly rule: string;
}

/** Problems for which one value is read. */
const MAX_READ = 100;
const OWN = '#/$defs/';
const ARTICLES: Readonly<Record<string, string>> = { integer: 'an', array: 'an', object: 'an' };
const DIGITS = /^-?\d{1,4000}$/;
const BASE64 = /^[A-Za-z\d+/]*={0,2}$/;

export interface Checked {
  readonly value: unknown;
  readonly problems: readonly Problem[];
}

/** A compiled schema: returns the value for the function, or the problems. */
export type Check = (value: unknown, path: readonly (string | number)[]) => Checked;

/** Returns the check of a schema, JSON text; undefined when there is none, or none that can be read. */
export function checkOf(text: string | undefined): Check | undefined {
  if (text === undefined) return undefined;
  const schema = parsed(text);
  if (schema === undefined) return undefined;
  const definitions = isObject(schema['$defs']) ? schema['$defs'] : {};
  return (value, path) => {
    const reading = new Reading(definitions);
    try {
      const made = reading.read(schema, value, [...path]);
      return { value: made, problems: reading.problems };
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      return { value: undefined, problems: [{ path, rule: 'is nested too deeply' }] };
    }
  };
}

/** Returns the JSON type of a member of the schema's object; empty when it has none of its own. */
export function memberType(text: string | undefined, name: string): string {
  const schema = text === undefined ? undefined : parsed(text);
  if (schema === undefined) return '';
  const definitions = isObject(schema['$defs']) ? schema['$defs'] : {};
  const found = memberOf(schema, definitions, name, 0);
  return typeof found?.['type'] === 'string' ? found['type'] : '';
}

function memberOf(schema: Json, definitions: Json, name: string, depth: number): Json | undefined {
  if (depth > 20) return undefined;
  const inner = definition(schema, definitions);
  if (inner !== undefined) return memberOf(inner, definitions, name, depth + 1);
  const { properties, allOf } = schema;
  if (isObject(properties) && Object.hasOwn(properties, name)) return isObject(properties[name]) ? properties[name] : undefined;
  if (!Array.isArray(allOf)) return undefined;
  for (const each of allOf) {
    const found = isObject(each) ? memberOf(each, definitions, name, depth + 1) : undefined;
    if (found !== undefined) return found;
  }
  return undefined;
}

class Reading {
  readonly #definitions: Json;
  /**
   * Results of unions by schema and value. Members that contain the union again would otherwise read a value of 30
   * levels 2 to the 30 times.
   */
  readonly #known: Map<unknown, Map<object, Checked>>;
  readonly problems: Problem[] = [];

  constructor(definitions: Json, known = new Map<unknown, Map<object, Checked>>()) {
    this.#definitions = definitions;
    this.#known = known;
  }

  read(schema: Json, value: unknown, path: (string | number)[]): unknown {
    const inner = definition(schema, this.#definitions);
    if (inner !== undefined) return this.read(inner, value, path);
    const special = schema['x-capstan'];
    if (typeof special === 'string') return this.#special(special, schema, value, path);
    const { allOf, anyOf, enum: choices, type } = schema;
    if (Array.isArray(allOf)) return allOf.filter(isObject).reduce((made: unknown, each) => this.read(each, made, path), value);
    if (Array.isArray(anyOf)) return this.#union(anyOf.filter(isObject), value, path);
    if (Array.isArray(choices) && !choices.includes(value))
      return this.#fail(path, `must be one of ${choices.map((each) => JSON.stringify(each)).join(', ')}`);
    if (typeof type !== 'string') return value;
    if (!isOfType(type, value))
      return this.#fail(path, type === 'number' && typeof value === 'bigint' ? unsafeInteger(value) : ruleOf(type));
    if (type === 'array') return this.#array(schema, value as readonly unknown[], path);
    return type === 'object' ? this.#object(schema, value as Json, path) : value;
  }

  #array({ items, prefixItems, minItems }: Json, value: readonly unknown[], path: (string | number)[]): unknown {
    if (Array.isArray(prefixItems)) {
      if (minItems !== value.length) return this.#fail(path, `must be an array of length ${prefixItems.length}`);
      return value.map((each, index) => this.#part(prefixItems[index], each, path, index));
    }
    return isObject(items) && !isOpen(items) ? value.map((each, index) => this.#part(items, each, path, index)) : value;
  }

  #object({ properties, required, additionalProperties: more }: Json, value: Json, path: (string | number)[]): unknown {
    const known = isObject(properties) ? properties : {};
    const needed = new Set(Array.isArray(required) ? required : []);
    for (const name of needed) {
      if (typeof name === 'string' && !Object.hasOwn(value, name)) this.#fail([...path, name], 'is required');
    }
    // Defined, not assigned: a key may be `__proto__`.
    return Object.fromEntries(
      Object.entries(value).map(([name, each]) => {
        const own = Object.hasOwn(known, name) ? known[name] : more;
        // Null stands for an optional value.
        const isAbsent = each === null && Object.hasOwn(known, name) && !needed.has(name);
        return [name, isAbsent ? each : this.#part(own, each, path, name)];
      }),
    );
  }

  #part(schema: unknown, value: unknown, path: (string | number)[], step: string | number): unknown {
    if (!isObject(schema) || this.problems.length >= MAX_READ) return value;
    path.push(step);
    const made = this.read(schema, value, path);
    path.pop();
    return made;
  }

  #union(members: readonly Json[], value: unknown, path: (string | number)[]): unknown {
    if (typeof value !== 'object' || value === null) return this.#take(this.#tryAll(members, value, path));
    const known = this.#known.get(members[0]) ?? new Map<object, Checked>();
    this.#known.set(members[0], known);
    const found = known.get(value) ?? this.#tryAll(members, value, path);
    known.set(value, found);
    return this.#take(found);
  }

  #tryAll(members: readonly Json[], value: unknown, path: (string | number)[]): Checked {
    const fitting: Reading[] = [];
    for (const member of members) {
      const trial = new Reading(this.#definitions, this.#known);
      const made = trial.read(member, value, path);
      if (trial.problems.length === 0) return { value: made, problems: [] };
      if (this.#mayBe(member, value)) fitting.push(trial);
    }
    // The problems inside the only member of the value's type say more than that no member fits.
    const [only] = fitting;
    if (only !== undefined && fitting.length === 1) return { value: undefined, problems: only.problems };
    const rules = new Set(members.map((each) => this.#name(each)));
    return { value: undefined, problems: [{ path: [...path], rule: `must be ${[...rules].join(' or ')}` }] };
  }

  #take({ value, problems }: Checked): unknown {
    this.problems.push(...problems.slice(0, MAX_READ));
    return value;
  }

  /** The value has the JSON type of the schema. */
  #mayBe(schema: Json, value: unknown): boolean {
    const inner = definition(schema, this.#definitions) ?? schema;
    const { type } = inner;
    if (type === 'number' && typeof value === 'bigint') return true;
    return typeof type === 'string' ? isOfType(type, value) : Array.isArray(inner['allOf']) && isOfType('object', value);
  }

  #name(schema: Json): string {
    const { enum: choices, type } = definition(schema, this.#definitions) ?? schema;
    const reference = schema['$ref'];
    if (typeof reference === 'string') return reference.slice(OWN.length);
    if (Array.isArray(choices)) return choices.map((each) => JSON.stringify(each)).join(' or ');
    return typeof type !== 'string' ? 'another type' : type === 'null' ? type : `${ARTICLES[type] ?? 'a'} ${type}`;
  }

  /** Makes a value of a type that JSON lacks. */
  #special(kind: string, schema: Json, value: unknown, path: (string | number)[]): unknown {
    switch (kind) {
      case 'Date': {
        const made = typeof value === 'string' && /^\d{4}-\d{2}-\d{2}/.test(value) ? new Date(value) : new Date(Number.NaN);
        return Number.isNaN(made.getTime()) ? this.#fail(path, 'must be an ISO 8601 date, such as 2026-01-31T12:00:00Z') : made;
      }
      case 'BigInt':
        if (typeof value === 'bigint' || Number.isSafeInteger(value) || (typeof value === 'string' && DIGITS.test(value)))
          return BigInt(value as bigint | number | string);
        // An integer with an exponent, such as 1e23, does not say all its digits.
        return this.#fail(path, 'must be an integer with all its digits, or a string that contains one');
      case 'URL':
        return typeof value === 'string' && URL.canParse(value) ? new URL(value) : this.#fail(path, 'must be a URL');
      case 'Uint8Array':
      case 'Buffer': {
        if (typeof value !== 'string' || value.length % 4 !== 0 || !BASE64.test(value)) return this.#fail(path, 'must be a base64 string');
        const bytes = Buffer.from(value, 'base64');
        return kind === 'Buffer' ? bytes : new Uint8Array(bytes);
      }
      case 'Set':
        if (!Array.isArray(value)) return this.#fail(path, ruleOf('array'));
        return new Set(this.#array(schema, value, path) as unknown[]);
      case 'Map':
        if (!isObject(value)) return this.#fail(path, ruleOf('object'));
        return new Map(Object.entries(this.#object(schema, value, path) as Json));
      default:
        return value;
    }
  }

  #fail(path: readonly (string | number)[], rule: string): undefined {
    if (this.problems.length < MAX_READ) this.problems.push({ path: [...path], rule });
    return undefined;
  }
}

function definition({ $ref: reference }: Json, definitions: Json): Json | undefined {
  if (typeof reference !== 'string' || !reference.startsWith(OWN)) return undefined;
  const name = reference.slice(OWN.length);
  const found = Object.hasOwn(definitions, name) ? definitions[name] : undefined;
  return isObject(found) ? found : {};
}

function isOfType(type: string, value: unknown): boolean {
  switch (type) {
    case 'integer':
      return Number.isInteger(value) || typeof value === 'bigint';
    case 'array':
      return Array.isArray(value);
    case 'object':
      return isObject(value);
    case 'null':
      return value === null;
    default:
      return typeof value === type;
  }
}

function ruleOf(type: string): string {
  return type === 'null' ? 'must be null' : `must be ${ARTICLES[type] ?? 'a'} ${type}`;
}

function isOpen(schema: Json): boolean {
  return Object.keys(schema).length === 0;
}

function parsed(text: string): Json | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? value : undefined;
  } catch {
    // Not written by a build: the value is not checked.
    return undefined;
  }
}

function isObject(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
