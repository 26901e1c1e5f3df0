/**
 * Maps an HTTP request to the arguments of its function: path values, query values and keys of a JSON body, by
 * parameter name. Errors name the parameter.
 */
import { losesDigits } from '../../../../../lib/exact-json.ts';
import { fitsParameter, typeMismatch } from '../../../../../lib/parameter-types.ts';
import { memberType } from '../../../../../lib/schema-values.ts';
import type { FunctionSpec } from '../../../../../proto/gen/capstan/v1/nodes.ts';
import { checked, withContext } from '../call/arguments.ts';
import type { Signature, TakenParameter } from '../call/signature.ts';

/** The request does not fit the function: 400. */
export class BadRequest extends Error {}

/** How the function of a route is called. */
export interface HttpSignature extends Pick<Signature, 'style' | 'contextAt'> {
  readonly parameters: readonly RouteParameter[];
  /** It takes the request itself and reads the body on its own. */
  readonly takesRequest: boolean;
}

type RouteParameter = TakenParameter & { readonly type: string; readonly schema?: string | undefined };

export interface RequestValues {
  readonly path: Readonly<Record<string, string>>;
  readonly query: URLSearchParams;
  /** Undefined when there is none. */
  readonly body: unknown;
}

/** Signature from the build, otherwise from the function's own source. */
export function httpSignature(spec: FunctionSpec, read: Signature): HttpSignature {
  const specs = new Map(spec.parameters.map((each) => [each.name, each]));
  const parameters = read.parameters.map(({ name, required, check }) => {
    const { type = '', schema } = specs.get(name) ?? {};
    return { name, required, type: type === '' && name === 'request' ? 'request' : type, schema, check };
  });
  return { style: read.style, contextAt: read.contextAt, parameters, takesRequest: parameters.some(({ type }) => type === 'request') };
}

/** What a function may take beside values. */
export interface CallParts {
  /** Creates the request for a parameter that takes it. */
  readonly request: () => Request;
  /** The caller's WebSocket, for the parameter `websocket`; undefined when it opens none. */
  readonly socket: unknown;
  readonly context: unknown;
}

/** Returns the arguments. */
export function httpArguments(signature: HttpSignature, values: RequestValues, parts: CallParts): unknown[] {
  return withContext(signature, valuesOf(signature, values, parts), parts.context);
}

function valuesOf({ style, parameters }: HttpSignature, values: RequestValues, parts: CallParts): unknown[] {
  if (style === 'whole') return [checked(parameters[0], whole(values, parameters[0]?.schema), 'body', true)];
  const body = bodyKeys(values.body);
  for (const key of Object.keys(body)) {
    if (parameters.some(({ name }) => name === key)) continue;
    const takes = parameters.length === 0 ? 'no parameters' : parameters.map(({ name }) => name).join(', ');
    throw new BadRequest(`${key}: is not a parameter of this route; it takes ${takes}`);
  }
  const bound = parameters.map((parameter) => valueOf(parameter, values, body, parts));
  if (style === 'positional') return bound;
  const named: Record<string, unknown> = {};
  for (const [index, { name }] of parameters.entries()) if (bound[index] !== undefined) named[name] = bound[index];
  return [named];
}

/**
 * Merges all values; a body that is not an object is passed as it is if there are no other values. Text of the path and
 * of the query is converted where `schema` has a type for it.
 */
function whole({ path, query, body }: RequestValues, schema: string | undefined): unknown {
  const converted = (texts: Iterable<[string, string]>): Record<string, unknown> =>
    Object.fromEntries(
      [...texts].map(([name, text]) => [name, schema === undefined ? text : fromText(name, memberType(schema, name), [text])]),
    );
  const [queried, inPath] = [converted(query), converted(Object.entries(path))];
  if (body === undefined) return { ...queried, ...inPath };
  if (typeof body === 'object' && body !== null && !Array.isArray(body)) return { ...queried, ...body, ...inPath };
  return body;
}

function bodyKeys(body: unknown): Readonly<Record<string, unknown>> {
  if (body === undefined) return {};
  if (typeof body === 'object' && body !== null && !Array.isArray(body)) return body as Record<string, unknown>;
  throw new BadRequest('body: must be a JSON object whose keys are the parameters');
}

function valueOf(
  parameter: RouteParameter,
  { path, query }: RequestValues,
  body: Readonly<Record<string, unknown>>,
  { request, socket }: CallParts,
): unknown {
  const { name, required, type } = parameter;
  if (name === 'websocket' && socket !== undefined) return socket;
  if (type === 'request') return request();
  if (Object.hasOwn(path, name)) return checked(parameter, fromText(name, type, [path[name] ?? '']), name);
  if (Object.hasOwn(body, name)) {
    // A JSON value must already have the type.
    if (!fitsParameter(body[name], { type, required })) throw mismatch(name, type, body[name]);
    return checked(parameter, body[name], name);
  }
  const texts = query.getAll(name);
  if (texts.length > 0) return checked(parameter, fromText(name, type, texts), name);
  if (required) throw new BadRequest(`${name}: is required`);
  return undefined;
}

function mismatch(name: string, type: string, value?: unknown): BadRequest {
  return new BadRequest(typeMismatch(name, type, value));
}

/** Numbers in text form, the same in every language. */
const NUMBER = /^[+-]?(\d+(\.\d*)?|\.\d+)(e[+-]?\d+)?$/i;

/** Converts text of the path or the query to the type; without a type it stays text. */
function fromText(name: string, type: string, texts: readonly string[]): unknown {
  const text = texts.at(-1) ?? '';
  switch (type) {
    case 'number':
    case 'integer': {
      if (losesDigits(text)) {
        if (type === 'integer') return BigInt(text);
        throw mismatch(name, type, BigInt(text));
      }
      const value = NUMBER.test(text) ? Number(text) : Number.NaN;
      if (!Number.isFinite(value) || (type === 'integer' && !Number.isInteger(value))) throw mismatch(name, type);
      return value;
    }
    case 'boolean':
      if (text === 'true' || text === '1') return true;
      if (text === 'false' || text === '0') return false;
      throw mismatch(name, type);
    case 'array':
      return texts;
    case 'object':
      throw mismatch(name, type);
    default:
      return text;
  }
}
