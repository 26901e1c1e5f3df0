/**
 * The OpenAPI document of a load-balanced endpoint: its routes, with the parameters that the build read from the
 * functions. Pure.
 */
import type { EndpointEntry, RouteEntry } from '../../../proto/gen/capstan/v1/control.ts';
import { DocumentSchemas, UNSENT_EXAMPLE, withDefault, withoutMarkup } from '../../../lib/parameter-schemas.ts';
import { inputExample, parameterExample } from '../../../lib/schema-examples.ts';
import { CallStyle, type ParameterSpec } from '../../../proto/gen/capstan/v1/nodes.ts';

/** Methods whose body holds the parameters that are not in the path. */
const WITH_BODY: ReadonlySet<string> = new Set(['POST', 'PUT', 'PATCH']);

/** One place of a value that does not fit. */
const PROBLEM = { type: 'object', properties: { path: { type: 'string' }, message: { type: 'string' } }, required: ['path', 'message'] };

const REFUSALS: Readonly<Record<string, string>> = {
  400: 'A parameter is missing, unknown or of the wrong type; the detail names it.',
  401: 'The key is missing, unknown, or does not cover this endpoint.',
  413: 'The body is too large.',
  422: 'A value does not fit the declared type of its parameter; the detail names its place.',
  500: 'The function failed, or its worker or the worker’s host ended or did not respond in time; the function may have run.',
  503: 'No worker became free in time; the function has not run. Retry after Retry-After seconds.',
};

/** `server`: prefix of the routes' paths; empty on the endpoint's own host. */
export function documentOf({ id, name, environment, description, routes, isPublic }: EndpointEntry, server: string): object {
  const paths: Record<string, Record<string, object>> = {};
  const schemas = new DocumentSchemas();
  for (const route of routes) {
    const path = route.path.replaceAll(/:(\w+)/g, '{$1}');
    paths[path] = { ...paths[path], [route.method.toLowerCase()]: operationOf(route, path, { isPublic, schemas }) };
  }
  return {
    openapi: '3.1.0',
    info: { title: name, version: environment, description: `${asMarkdown(description)}The routes of the load-balanced endpoint ${id}.` },
    servers: [{ url: server === '' ? '/' : server }],
    paths,
    components: {
      ...(isPublic ? {} : { securitySchemes: { key: { type: 'http', scheme: 'bearer', description: 'The API key.' } } }),
      schemas: {
        Error: {
          type: 'object',
          properties: { error: { type: 'string' }, detail: { type: 'string' }, errors: { type: 'array', items: PROBLEM } },
          required: ['error', 'detail'],
        },
        ...schemas.definitions(),
      },
    },
  };
}

/** Returns a paragraph of plain text. */
function asMarkdown(text: string): string {
  return text === '' ? '' : `${withoutMarkup(text)}\n\n`;
}

interface About {
  readonly isPublic: boolean;
  readonly schemas: DocumentSchemas;
}

function operationOf({ method, function: fn }: RouteEntry, path: string, { isPublic, schemas }: About): object {
  const inPath = [...path.matchAll(/\{(\w+)\}/g)].map(([, name = '']) => name);
  const parameters = fn?.parameters ?? [];
  const takesRequest = parameters.some(({ type }) => type === 'request');
  const isWebSocket = method === 'GET' && parameters.some(({ name }) => name === 'websocket');
  const hasBody = WITH_BODY.has(method);
  const others = parameters.filter(
    ({ name, type, takesBody }) =>
      type !== 'request' && !(isWebSocket && name === 'websocket') && !inPath.includes(name) && (hasBody || takesBody !== true),
  );
  const whole = hasBody ? others.find(({ takesBody }) => takesBody === true) : undefined;
  const schemaOf = ({ schema, type, defaultValue }: Pick<ParameterSpec, 'schema' | 'type' | 'defaultValue'>): object =>
    withDefault(schemas.of(schema, plainSchema(type)), defaultValue);
  const listed = [
    ...inPath.map((name) => {
      const found = parameters.find((each) => each.name === name);
      const facts = { schema: found?.schema, type: found?.type || 'string' };
      return { name, in: 'path', required: true, schema: schemaOf(facts), example: parameterExample(facts) };
    }),
    ...(hasBody && whole === undefined ? [] : others)
      .filter((each) => each !== whole)
      .map((each) => ({
        ...{ name: each.name, in: 'query', required: each.required, schema: schemaOf(each) },
        ...(each.required ? { example: parameterExample(each) } : each.defaultValue === undefined ? { examples: UNSENT_EXAMPLE } : {}),
      })),
  ];
  const known = fn !== undefined && (fn.callStyle === CallStyle.POSITIONAL || fn.callStyle === CallStyle.OBJECT || parameters.length > 0);
  const refusals = Object.entries(REFUSALS).filter(([status]) => !(status === '401' && isPublic) && !(status === '413' && !hasBody));
  return {
    operationId: `${method.toLowerCase()} ${path}`,
    summary: fn?.name ?? path,
    ...(fn?.description === undefined ? {} : { description: withoutMarkup(fn.description) }),
    ...(isPublic ? {} : { security: [{ key: [] }] }),
    parameters: listed,
    ...(hasBody
      ? { requestBody: takesRequest ? { content: { '*/*': {} } } : jsonBody(whole === undefined ? others : whole, known, schemaOf) }
      : {}),
    responses: {
      ...(isWebSocket ? { 101: { description: 'The WebSocket is open.' } } : {}),
      200: { description: 'What the function returns.', content: takesRequest ? { '*/*': {} } : { 'application/json': { schema: {} } } },
      ...Object.fromEntries(
        refusals.map(([status, description]) => [
          status,
          { description, content: { 'application/json': { schema: { $ref: '#/components/schemas/Error' } } } },
        ]),
      ),
    },
  };
}

/**
 * `parameters`: those whose values are keys of the body, or the one that takes it whole. `known`: the list is complete;
 * otherwise the function takes any keys.
 */
function jsonBody(parameters: readonly ParameterSpec[] | ParameterSpec, known: boolean, schemaOf: (each: ParameterSpec) => object): object {
  if (!isList(parameters)) {
    const example = parameterExample(parameters);
    return { required: parameters.required, content: { 'application/json': { schema: schemaOf(parameters), example } } };
  }
  const required = parameters.filter((each) => each.required).map(({ name }) => name);
  const properties = Object.fromEntries(parameters.map((each) => [each.name, schemaOf(each)]));
  const schema = { type: 'object', properties, required, ...(known ? { additionalProperties: false } : {}) };
  return { required: required.length > 0, content: { 'application/json': { schema, example: inputExample(parameters) } } };
}

function isList(value: readonly ParameterSpec[] | ParameterSpec): value is readonly ParameterSpec[] {
  return Array.isArray(value);
}

/** Empty when the source does not show it. */
function plainSchema(type: string): object {
  return type === '' ? {} : type === 'array' ? { type, items: {} } : { type };
}
