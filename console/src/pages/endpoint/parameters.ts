/** The parameters of a function as fields of a form, and examples of their values. Pure. */
import { parseExact, stringifyExact } from '../../../../lib/exact-json.ts';
import { exampleOf as schemaExample } from '../../../../lib/schema-examples.ts';
import type { EndpointData, ParameterData } from './query.ts';

export type Parameter = Omit<ParameterData, 'takesBody'>;

const EXAMPLES: Readonly<Record<string, unknown>> = { string: 'text', number: 0.5, integer: 1, boolean: true, array: [], object: {} };

/** The keys of the input. A function that takes the whole input has those of its schema, if that names any. */
export function parametersOf({ signatures }: Pick<EndpointData, 'signatures'>): readonly Parameter[] {
  const parameters = signatures[0]?.parameters ?? [];
  const [only] = parameters;
  if (only?.takesBody !== true) return parameters;
  const { properties, required } = schemaOf(only.schema);
  if (typeof properties !== 'object' || properties === null) return [];
  const needed = new Set(Array.isArray(required) ? (required as unknown[]) : []);
  return Object.entries(properties as Record<string, { type?: unknown }>).map(([name, schema]) => ({
    name,
    required: needed.has(name),
    type: typeof schema.type === 'string' ? schema.type : null,
    schema: JSON.stringify(schema),
  }));
}

/** The required keys with examples. */
export function exampleInput(endpoint: Pick<EndpointData, 'signatures'>): Record<string, unknown> {
  const shown = parametersOf(endpoint).filter(({ required, schema }) => required || schemaOf(schema)['default'] !== undefined);
  return Object.fromEntries(shown.map((each) => [each.name, exampleOf(each)]));
}

function exampleOf(parameter: Parameter): unknown {
  const { default: given, examples } = schemaOf(parameter.schema);
  if (given !== undefined) return given;
  if (Array.isArray(examples)) return examples[0] as unknown;
  return schemaExample(parameter.schema, EXAMPLES[parameter.type ?? ''] ?? null);
}

/** The only values that it may have; undefined if there are others. */
export function choicesOf({ schema, type }: Parameter): readonly unknown[] | undefined {
  const { enum: values, const: only } = schemaOf(schema);
  if (Array.isArray(values)) return values as unknown[];
  if (only !== undefined) return [only];
  return type === 'boolean' ? [false, true] : undefined;
}

/** What the schema says about it. */
export function descriptionOf({ schema }: Parameter): string {
  const { description } = schemaOf(schema);
  return typeof description === 'string' ? description : '';
}

function schemaOf(text: string | null): Record<string, unknown> {
  if (text === null) return {};
  try {
    const schema = JSON.parse(text) as unknown;
    return typeof schema === 'object' && schema !== null ? (schema as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}

/** A value as the text of its field. */
export function fieldText(value: unknown): string {
  if (value === undefined || value === null) return '';
  return typeof value === 'string' ? value : stringifyExact(value);
}

/** Text stays text for a parameter of that type; for others it is read as JSON where it is any. */
export function fieldValue(text: string, { type }: Parameter): unknown {
  if (type === 'string') return text;
  try {
    return parseExact(text);
  } catch {
    return text;
  }
}
