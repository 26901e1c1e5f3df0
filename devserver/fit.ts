/** Checks whether a caller's input matches the function's source, before the function is called. */
import { CallStyle } from '../proto/gen/capstan/v1/nodes.ts';
import { fitsParameter, typeMismatch } from '../lib/parameter-types.ts';
import type { Parameter } from '../compiler/signatures/parameters.ts';
import type { DeclaredFunction, DeclaredMethod } from '../compiler/discovery/declared.ts';

export interface RouteValues {
  readonly path: Readonly<Record<string, string>>;
  readonly query: URLSearchParams;
  /** Undefined when there is none. */
  readonly body: unknown;
}

type Signature = Pick<DeclaredMethod, 'reading'>;

/** The source states the parameters as keys; the worker itself checks a request or a model that is the whole body. */
export function isReadable({ reading }: Signature): boolean {
  const known = reading.style === CallStyle.POSITIONAL || reading.style === CallStyle.OBJECT;
  return (
    known &&
    !reading.parameters.some(({ name, type, takesBody }) => type === 'request' || (type === '' && name === 'request') || takesBody === true)
  );
}

/** Returns the rule that a job's input breaks, or null: missing or unknown keys, values of another type. */
export function inputViolation(fn: DeclaredFunction, input: Readonly<Record<string, unknown>>): string | null {
  return fn.isClass ? methodViolation(fn, input) : keysViolation(fn, input);
}

function keysViolation(fn: Signature, input: Readonly<Record<string, unknown>>): string | null {
  if (!isReadable(fn)) return null;
  return strayKey(fn, input) ?? firstBreach(fn, (parameter) => jsonBreach(parameter, input[parameter.name]));
}

/** Checks against the method that the worker would choose. It may have more methods than the sources show. */
function methodViolation({ methods }: DeclaredFunction, input: Readonly<Record<string, unknown>>): string | null {
  const { method: key, ...rest } = input;
  const [sole, ...others] = Object.values(methods);
  const isSole = sole !== undefined && others.length === 0;
  const takesMethod = isSole && sole.reading.parameters.some(({ name }) => name === 'method');
  const chosen = typeof key === 'string' && !takesMethod && Object.hasOwn(methods, key) ? methods[key] : undefined;
  if (chosen !== undefined) return keysViolation(chosen, rest);
  return isSole && (takesMethod || key === undefined) ? keysViolation(sole, input) : null;
}

/**
 * The same for a request. Its path takes precedence over its body, and its body over its query. Unknown keys of a query
 * are ignored.
 */
export function routeViolation(fn: DeclaredFunction, { path, query, body }: RouteValues): string | null {
  if (!isReadable(fn)) return null;
  if (body !== undefined && !isObject(body)) return 'the body must be a JSON object whose keys are the parameters';
  return (
    strayKey(fn, body ?? {}) ??
    firstBreach(fn, (parameter) => {
      const { name } = parameter;
      if (Object.hasOwn(path, name)) return textBreach(parameter, path[name] ?? '');
      if (body !== undefined && Object.hasOwn(body, name)) return jsonBreach(parameter, body[name]);
      const text = query.getAll(name).at(-1);
      return text === undefined ? jsonBreach(parameter, undefined) : textBreach(parameter, text);
    })
  );
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function strayKey({ reading }: Signature, given: Readonly<Record<string, unknown>>): string | null {
  const names = reading.parameters.map(({ name }) => name);
  const unknown = Object.keys(given).find((key) => !names.includes(key));
  return unknown === undefined
    ? null
    : `unknown argument: ${unknown} (the function takes ${names.length === 0 ? 'no arguments' : names.join(', ')})`;
}

function firstBreach({ reading }: Signature, violationOf: (parameter: Parameter) => string | null): string | null {
  for (const parameter of reading.parameters) {
    const violation = violationOf(parameter);
    if (violation !== null) return violation;
  }
  return null;
}

function jsonBreach(parameter: Parameter, value: unknown): string | null {
  const { name, required, type } = parameter;
  if (value === undefined) return required ? `missing argument: ${name}` : null;
  // A float of Python takes an integer of any size; for a number of TypeScript the worker refuses it.
  if (type === 'number' && typeof value === 'bigint') return null;
  return fitsParameter(value, parameter) ? null : typeMismatch(name, type);
}

/** The worker converts text: any text that it can convert is valid. */
function textBreach({ name, type }: Parameter, text: string): string | null {
  const isNumber = text.trim() !== '' && Number.isFinite(Number(text));
  switch (type) {
    case 'number':
      return isNumber ? null : typeMismatch(name, type);
    case 'integer':
      return isNumber && Number.isInteger(Number(text)) ? null : typeMismatch(name, type);
    case 'boolean':
      return /^(true|false|1|0)$/i.test(text) ? null : typeMismatch(name, type);
    default:
      return null;
  }
}
