/**
 * Makes an example value that obeys a JSON Schema, for documents and forms whose first request must work as it is shown.
 * A deployer writes the schema: what is made is bounded, and patterns are read but never executed. Pure.
 */
import { textLike } from './pattern-examples.ts';

type Json = Readonly<Record<string, unknown>>;

const DEEPEST = 12;
/** Items, properties and characters that an example may have. */
const MAX_PARTS = 100;
const MAX_LENGTH = 1_000;
/** Schemas that are joined to others, by references and by `allOf`: one that refers to itself would be joined without end. */
const MAX_JOINED = 200;
/** Characters of the values that an example takes from its schema: one value may stand for many items. */
const MAX_TAKEN = 64 * 1024;
const DEEPEST_VALUE = 100;
const OWN = '#/$defs/';

const FORMATS: Readonly<Record<string, string>> = {
  'date-time': '2026-01-31T12:00:00Z',
  date: '2026-01-31',
  time: '12:00:00',
  duration: 'PT1H',
  uuid: '00000000-0000-4000-8000-000000000000',
  email: 'name@example.com',
  uri: 'https://example.com/',
  ipv4: '192.0.2.1',
  ipv6: '2001:db8::1',
  hostname: 'example.com',
};

/** Returns an example for a schema as text, as of a parameter; `otherwise` if there is none that can be read. */
export function exampleOf(text: string | null | undefined, otherwise: unknown): unknown {
  if (text === null || text === undefined) return otherwise;
  // An earlier or another tool may have written what cannot be read.
  const schema = parsed(text);
  return isObject(schema) && Object.keys(schema).length > 0 ? new Example(schema).of(schema, 0, 0) : otherwise;
}

/** What the type alone says. */
const TYPED: Readonly<Record<string, unknown>> = { string: 'text', number: 1, integer: 1, boolean: true, array: [], object: {} };

/** Returns an example of a parameter (ParameterSpec of nodes.proto): its default, or what its schema or its type admits. */
export function parameterExample({ type, schema, defaultValue }: ParameterFacts, otherwise: unknown = plainExample(type)): unknown {
  const known = defaultValue === undefined ? undefined : parsed(defaultValue);
  return known ?? exampleOf(schema, otherwise);
}

function plainExample(type: string): unknown {
  return Object.hasOwn(TYPED, type) ? TYPED[type] : 'text';
}

interface ParameterFacts {
  readonly type: string;
  readonly schema?: string | undefined;
  /** JSON. */
  readonly defaultValue?: string | undefined;
}

/** Returns an example of an input or body with these keys: those that are required, and those with a default. */
export function inputExample(parameters: readonly (ParameterFacts & { readonly name: string; readonly required: boolean })[]): Json {
  const shown = parameters.filter(({ required, defaultValue }) => required || defaultValue !== undefined);
  return Object.fromEntries(shown.map((each) => [each.name, parameterExample(each)]));
}

/** Returns the value of a JSON text; undefined if it is none. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

class Example {
  readonly #definitions: Json;
  #parts = 0;
  #joined = 0;
  #taken = 0;

  constructor(schema: Json) {
    this.#definitions = isObject(schema['$defs']) ? schema['$defs'] : {};
  }

  /** `variant`: differs for the items of an array, which may have to differ. */
  of(given: unknown, variant: number, depth: number): unknown {
    this.#parts += 1;
    if (!isObject(given) || depth > DEEPEST || this.#parts > MAX_PARTS) return null;
    const schema = this.#whole(given, depth);
    if ('const' in schema) return this.#take(schema['const']);
    const { enum: values, examples } = schema;
    if (variant === 0 && 'default' in schema) return this.#take(schema['default']);
    if (Array.isArray(values) && values.length > 0) return this.#take(values[variant % values.length]);
    if (Array.isArray(examples) && examples.length > 0) return this.#take(examples[variant % examples.length]);
    for (const key of ['anyOf', 'oneOf']) {
      const choices = schema[key];
      if (!Array.isArray(choices) || choices.length === 0) continue;
      const chosen: unknown = choices.find((each) => !isObject(each) || each['type'] !== 'null') ?? choices[0];
      const { [key]: _, ...rest } = schema;
      return this.of(isObject(chosen) ? merged(rest, chosen) : chosen, variant, depth + 1);
    }
    return this.#ofType(schema, variant, depth);
  }

  /** A value of the schema itself; null when too much was taken, and for one that is too deep. */
  #take(value: unknown): unknown {
    this.#taken += lengthOf(value, 0);
    return this.#taken > MAX_TAKEN ? null : value;
  }

  /** The schema with what it refers to, and with all parts that it must obey. */
  #whole(schema: Json, depth: number): Json {
    let { $ref: reference, allOf, ...whole } = schema;
    for (let n = 0; typeof reference === 'string' && n < DEEPEST && this.#mayJoin(); n += 1) {
      const name = reference.startsWith(OWN) ? reference.slice(OWN.length) : '';
      const found = Object.hasOwn(this.#definitions, name) ? this.#definitions[name] : undefined;
      if (!isObject(found)) break;
      const { $ref: next, allOf: more, ...own } = found;
      whole = merged(own, whole);
      allOf = [...(Array.isArray(allOf) ? (allOf as unknown[]) : []), ...(Array.isArray(more) ? (more as unknown[]) : [])];
      reference = next;
    }
    if (!Array.isArray(allOf) || depth > DEEPEST) return whole;
    for (const each of allOf as unknown[]) {
      if (!this.#mayJoin()) break;
      if (isObject(each)) whole = merged(whole, this.#whole(each, depth + 1));
    }
    return whole;
  }

  #mayJoin(): boolean {
    this.#joined += 1;
    return this.#joined <= MAX_JOINED;
  }

  #ofType(schema: Json, variant: number, depth: number): unknown {
    const { type } = schema;
    const kind: unknown = Array.isArray(type) ? (type.find((each) => each !== 'null') ?? 'null') : type;
    switch (kind) {
      case 'object':
        return this.#object(schema, depth);
      case 'array':
        return this.#array(schema, depth);
      case 'integer':
      case 'number':
        return numberOf(schema, kind === 'integer', variant);
      case 'boolean':
        return variant % 2 === 0;
      case 'null':
        return null;
      case 'string':
        return textOf(schema, variant);
      default:
        return isObject(schema['properties']) ? this.#object(schema, depth) : textOf(schema, variant);
    }
  }

  /** The required properties, and those with a default. */
  #object(schema: Json, depth: number): Json {
    const properties = isObject(schema['properties']) ? schema['properties'] : {};
    const required = new Set(Array.isArray(schema['required']) ? (schema['required'] as unknown[]) : []);
    const made = new Map<string, unknown>();
    for (const [name, each] of Object.entries(properties)) {
      if (this.#parts > MAX_PARTS) break;
      if (required.has(name) || (isObject(each) && 'default' in each)) made.set(name, this.of(each, 0, depth + 1));
    }
    const { additionalProperties: more } = schema;
    if (more === false) return Object.fromEntries(made);
    const count = Math.min(countOf(schema['minProperties']), MAX_PARTS);
    for (let n = 1; made.size < count; n += 1) made.set(`key${n}`, isObject(more) ? this.of(more, n, depth + 1) : 'text');
    return Object.fromEntries(made);
  }

  #array(schema: Json, depth: number): readonly unknown[] {
    const { prefixItems, items } = schema;
    const first = Array.isArray(prefixItems) ? (prefixItems as unknown[]) : [];
    const made = first.slice(0, MAX_PARTS).map((each) => this.of(each, 0, depth + 1));
    const count = Math.min(countOf(schema['minItems']), MAX_PARTS);
    while (made.length < count) made.push(isObject(items) ? this.of(items, made.length, depth + 1) : `text${made.length}`);
    return made;
  }
}

/** Both must be obeyed: the properties and required names of both hold, and the narrower bound. */
function merged(a: Json, b: Json): Json {
  const both = { ...a, ...b };
  const properties = isObject(a['properties']) && isObject(b['properties']) ? { ...a['properties'], ...b['properties'] } : undefined;
  const required = [a, b].flatMap((each) => (Array.isArray(each['required']) ? (each['required'] as unknown[]) : []));
  const bounds = Object.entries(BOUNDS).flatMap(([key, narrower]) => {
    const [x, y] = [a[key], b[key]];
    return typeof x === 'number' && typeof y === 'number' ? [[key, narrower(x, y)] as const] : [];
  });
  return {
    ...both,
    ...(properties === undefined ? {} : { properties }),
    ...(required.length === 0 ? {} : { required: [...new Set(required)] }),
    ...Object.fromEntries(bounds),
  };
}

const BOUNDS = Object.fromEntries([
  ...['minimum', 'exclusiveMinimum', 'minLength', 'minItems', 'minProperties'].map((key) => [key, Math.max] as const),
  ...['maximum', 'exclusiveMaximum', 'maxLength', 'maxItems', 'maxProperties'].map((key) => [key, Math.min] as const),
]);

function numberOf(schema: Json, isInteger: boolean, variant: number): number {
  const at = (key: string): number | undefined => (typeof schema[key] === 'number' ? schema[key] : undefined);
  const [least, above, most, below] = [at('minimum'), at('exclusiveMinimum'), at('maximum'), at('exclusiveMaximum')];
  const step = at('multipleOf') ?? (isInteger ? 1 : undefined);
  const low = Math.max(least ?? -Infinity, above ?? -Infinity);
  const high = Math.min(most ?? Infinity, below ?? Infinity);
  const isOpenBelow = above !== undefined && above >= low;
  const isOpenAbove = below !== undefined && below <= high;
  if (step !== undefined && step > 0) {
    // The multiple of the step next to 1, from the nearest bound on.
    const start = low > 1 || (low === 1 && isOpenBelow) ? low : high < 1 || (high === 1 && isOpenAbove) ? high : 1;
    const fromAbove = start === high && start !== 1 && low < high;
    const count = fromAbove ? Math.floor(start / step) : Math.ceil(start / step);
    const isOnBound = fromAbove ? isOpenAbove && count * step === high : isOpenBelow && count * step === low;
    const shift = (isOnBound ? 1 : 0) + variant;
    return (fromAbove ? count - shift : count + shift) * step;
  }
  const isOne = (low < 1 || (low === 1 && !isOpenBelow)) && (high > 1 || (high === 1 && !isOpenAbove));
  if (isOne) return high === Infinity ? 1 + variant : 1 + (high - 1) * (1 - 1 / (variant + 1));
  if (low === -Infinity) return high - 1 - variant;
  if (high === Infinity) return low + 1 + variant;
  return low === high ? low : low + (high - low) / (2 + variant);
}

function textOf(schema: Json, variant: number): string {
  const { format, pattern, contentEncoding } = schema;
  const least = Math.min(countOf(schema['minLength']), MAX_LENGTH);
  const most = typeof schema['maxLength'] === 'number' ? schema['maxLength'] : Infinity;
  if (typeof pattern === 'string') {
    const made = textLike(pattern, least);
    if (made !== undefined) return made;
  }
  if (contentEncoding === 'base64') return 'dGV4dA==';
  if (typeof format === 'string' && Object.hasOwn(FORMATS, format)) return FORMATS[format] ?? '';
  const text = variant === 0 ? 'text' : `text${variant}`;
  return text.padEnd(least, 'text').slice(0, Math.max(least, Math.min(most, MAX_LENGTH)));
}

/** About the characters of a value as JSON; infinite for one that is too deep to be written. */
function lengthOf(value: unknown, depth: number): number {
  if (typeof value === 'string') return value.length + 2;
  if (typeof value !== 'object' || value === null) return 5;
  if (depth > DEEPEST_VALUE) return Infinity;
  return Object.entries(value).reduce((sum, [key, each]) => sum + key.length + lengthOf(each, depth + 1), 2);
}

function countOf(value: unknown): number {
  return typeof value === 'number' && Number.isInteger(value) && value > 0 ? value : 0;
}

function isObject(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
