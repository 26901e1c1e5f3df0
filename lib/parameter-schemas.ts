/**
 * JSON Schemas of parameters (ParameterSpec of nodes.proto) as parts of an OpenAPI document. A deployer writes them, and
 * other people read the document: only known keywords are copied, references lead to the document's own schemas, and
 * text has no markup. Patterns are shown and never executed.
 */

/** Largest schema of a parameter, and of all parameters of an endpoint, UTF-16 code units. */
export const MAX_SCHEMA_LENGTH = 64 * 1024;
export const MAX_SCHEMAS_LENGTH = 256 * 1024;

/** Longest description of a function, and default of a parameter as JSON, UTF-16 code units. */
export const MAX_DESCRIPTION_LENGTH = 2_000;
export const MAX_DEFAULT_LENGTH = 1_000;

const DEEPEST = 40;
/** Schemas, properties and values of one document. */
const MAX_PARTS = 20_000;
const OWN = '#/$defs/';
const HERE = '#/components/schemas/';

/** Keeps an operation in a document and off its page. */
export const HIDDEN_FROM_PAGE = { 'x-internal': true, 'x-scalar-ignore': true } as const;

/** Examples of an optional parameter that the page does not send unless its reader switches it on. */
export const UNSENT_EXAMPLE = { default: { value: '', 'x-disabled': true } } as const;

type Json = Readonly<Record<string, unknown>>;

const TYPES: ReadonlySet<string> = new Set(['string', 'number', 'integer', 'boolean', 'array', 'object', 'null']);
const NUMBERS = ['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum', 'multipleOf'];
const COUNTS = ['minLength', 'maxLength', 'minItems', 'maxItems', 'minProperties', 'maxProperties'];
const TEXTS = ['format', 'pattern', 'contentEncoding'];
const LISTS = ['anyOf', 'oneOf', 'allOf', 'prefixItems'];
const VALUES = ['enum', 'const', 'default'];

/** Collects the definitions that the schemas of one document use. */
export class DocumentSchemas {
  readonly #definitions = new Map<string, { schema: unknown }>();
  /** Name in the document by what a definition is called and holds. */
  readonly #named = new Map<string, string>();
  /** The last number that was added to a name: to look for a free one from 2 on would be quadratic. */
  readonly #numbers = new Map<string, number>([['Error', 1]]);
  #parts = 0;

  /** Returns the schema of a parameter; `otherwise` if it has none, or one that cannot be read. */
  of(text: string | undefined, otherwise: object): object {
    const found = text === undefined || text.length > MAX_SCHEMA_LENGTH ? undefined : parsed(text);
    if (found === undefined) return otherwise;
    return this.#schema(found, isObject(found['$defs']) ? found['$defs'] : {}, new Map(), 0);
  }

  /** Returns what the schemas refer to, for `components.schemas`. */
  definitions(): Record<string, unknown> {
    return Object.fromEntries([...this.#definitions].map(([name, { schema }]) => [name, schema]));
  }

  /** `names`: the definitions of this schema that have a name in the document. */
  #schema(given: unknown, own: Json, names: Map<string, string>, depth: number): object {
    this.#parts += 1;
    if (!isObject(given) || depth > DEEPEST || this.#parts > MAX_PARTS) return {};
    const inner = (value: unknown): object => this.#schema(value, own, names, depth + 1);
    const made: [string, unknown][] = [];
    const reference = given['$ref'];
    if (typeof reference === 'string' && reference.startsWith(OWN) && Object.hasOwn(own, reference.slice(OWN.length)))
      made.push(['$ref', `${HERE}${this.#define(reference.slice(OWN.length), own, names, depth)}`]);
    const { type, properties, required, items, additionalProperties: more } = given;
    if (typeof type === 'string' && TYPES.has(type)) made.push(['type', type]);
    if (Array.isArray(type)) made.push(['type', type.filter((each) => TYPES.has(String(each)))]);
    for (const key of NUMBERS) if (typeof given[key] === 'number') made.push([key, given[key]]);
    for (const key of COUNTS) if (Number.isInteger(given[key])) made.push([key, given[key]]);
    for (const key of TEXTS) if (typeof given[key] === 'string') made.push([key, given[key]]);
    for (const key of ['title', 'description']) if (typeof given[key] === 'string') made.push([key, withoutMarkup(given[key])]);
    for (const key of LISTS) if (Array.isArray(given[key])) made.push([key, given[key].map(inner)]);
    for (const key of VALUES) if (key in given) made.push([key, this.#value(given[key], depth)]);
    if (given['uniqueItems'] === true) made.push(['uniqueItems', true]);
    if (isObject(properties))
      made.push(['properties', Object.fromEntries(Object.entries(properties).map(([name, value]) => [name, inner(value)]))]);
    if (Array.isArray(required)) made.push(['required', required.filter((each) => typeof each === 'string')]);
    if (isObject(items)) made.push(['items', inner(items)]);
    if (typeof more === 'boolean') made.push(['additionalProperties', more]);
    else if (isObject(more)) made.push(['additionalProperties', inner(more)]);
    return Object.fromEntries(made);
  }

  /** Returns the name of a definition in the document. Two classes of one name that differ get two names. */
  #define(name: string, own: Json, names: Map<string, string>, depth: number): string {
    const known = names.get(name);
    if (known !== undefined) return known;
    const base = name.replaceAll(/[^\w.-]/g, '_') || '_';
    const content = `${base} ${JSON.stringify(own[name])}`;
    const chosen = this.#named.get(content) ?? this.#free(base);
    names.set(name, chosen);
    this.#named.set(content, chosen);
    if (this.#definitions.has(chosen)) return chosen;
    // Known before its parts are read, which may refer to it.
    const definition = { schema: {} as unknown };
    this.#definitions.set(chosen, definition);
    definition.schema = this.#schema(own[name], own, names, depth + 1);
    return chosen;
  }

  /** Returns the name, or with a number if another definition has it. */
  #free(base: string): string {
    let number = this.#numbers.get(base) ?? 0;
    let chosen: string;
    // Another class may be called so.
    do chosen = ++number === 1 ? base : `${base}_${number}`;
    while (this.#definitions.has(chosen));
    this.#numbers.set(base, number);
    return chosen;
  }

  /** A copy of a JSON value, cut where it is too deep. */
  #value(value: unknown, depth: number): unknown {
    this.#parts += 1;
    if (typeof value !== 'object' || value === null) return value;
    if (depth > DEEPEST || this.#parts > MAX_PARTS) return null;
    if (Array.isArray(value)) return value.map((each) => this.#value(each, depth + 1));
    return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, this.#value(each, depth + 1)]));
  }
}

/** Adds the function's own default to the schema of a parameter, in its definition or beside the reference to it. */
export function withDefault(schema: object, defaultValue: string | undefined): object {
  if (defaultValue === undefined || 'default' in schema) return schema;
  try {
    return { ...schema, default: JSON.parse(defaultValue) as unknown };
  } catch {
    // Another tool wrote it: the document has no default there.
    return schema;
  }
}

/** Plain text for a reader of Markdown: the owner of an endpoint cannot put markup on the page. */
export function withoutMarkup(text: string): string {
  return text.replaceAll(/[\\`*_[\]<>&~|#!]/g, String.raw`\$&`);
}

function parsed(text: string): Json | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? value : undefined;
  } catch {
    // An earlier or another tool wrote it: the document has no schema there.
    return undefined;
  }
}

function isObject(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
