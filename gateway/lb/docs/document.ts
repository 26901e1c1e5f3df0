/**
 * The OpenAPI document of a load-balanced endpoint: its routes, with the parameters that the build read from the
 * functions. Pure.
 */
import type { EndpointEntry, RouteEntry } from '../../../proto/gen/capstan/v1/control.ts';
import { CallStyle, type ParameterSpec } from '../../../proto/gen/capstan/v1/nodes.ts';

/** Methods whose body holds the parameters that are not in the path. */
const WITH_BODY: ReadonlySet<string> = new Set(['POST', 'PUT', 'PATCH']);

const REFUSALS: Readonly<Record<string, string>> = {
  400: 'A parameter is missing, unknown or of the wrong type; the detail names it.',
  401: 'The key is missing, unknown, or does not cover this endpoint.',
  413: 'The body is too large.',
  422: 'A value does not fit the declared type of its parameter; the detail names its place.',
  500: 'The function failed, or its worker ended or did not respond in time; the function may have run.',
  502: 'The connection to the worker’s host was lost; the function may have run.',
  503: 'No worker became free in time; the function has not run. Retry after Retry-After seconds.',
};

/** `server`: prefix of the routes' paths; empty on the endpoint's own host. */
export function documentOf({ id, name, environment, description, routes, isPublic }: EndpointEntry, server: string): object {
  const paths: Record<string, Record<string, object>> = {};
  for (const route of routes) {
    const path = route.path.replaceAll(/:(\w+)/g, '{$1}');
    paths[path] = { ...paths[path], [route.method.toLowerCase()]: operationOf(route, path, isPublic) };
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
          properties: { error: { type: 'string' }, detail: { type: 'string' } },
          required: ['error', 'detail'],
        },
      },
    },
  };
}

/** A paragraph of plain text: the endpoint's owner cannot put markup on the page. */
function asMarkdown(text: string): string {
  return text === '' ? '' : `${text.replaceAll(/[\\`*_[\]<>&~|#!]/g, String.raw`\$&`)}\n\n`;
}

function operationOf({ method, function: fn }: RouteEntry, path: string, isPublic: boolean): object {
  const inPath = [...path.matchAll(/\{(\w+)\}/g)].map(([, name = '']) => name);
  const parameters = fn?.parameters ?? [];
  const takesRequest = parameters.some(({ type }) => type === 'request');
  const isWebSocket = method === 'GET' && parameters.some(({ name }) => name === 'websocket');
  const others = parameters.filter(
    ({ name, type }) => type !== 'request' && !(isWebSocket && name === 'websocket') && !inPath.includes(name),
  );
  const hasBody = WITH_BODY.has(method);
  const typeOf = (name: string): string => parameters.find((each) => each.name === name)?.type ?? '';
  const listed = [
    ...inPath.map((name) => ({ name, in: 'path', required: true, schema: schemaOf(typeOf(name) || 'string') })),
    ...(hasBody ? [] : others.map(({ name, required, type }) => ({ name, in: 'query', required, schema: schemaOf(type) }))),
  ];
  const known = fn !== undefined && (fn.callStyle === CallStyle.POSITIONAL || fn.callStyle === CallStyle.OBJECT || parameters.length > 0);
  const refusals = Object.entries(REFUSALS).filter(([status]) => !(status === '401' && isPublic) && !(status === '413' && !hasBody));
  return {
    operationId: `${method.toLowerCase()} ${path}`,
    summary: fn?.name ?? path,
    ...(isPublic ? {} : { security: [{ key: [] }] }),
    parameters: listed,
    ...(hasBody ? { requestBody: takesRequest ? { content: { '*/*': {} } } : jsonBody(others, known) } : {}),
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

/** `known`: the list of parameters is complete; otherwise the function takes any keys. */
function jsonBody(parameters: readonly ParameterSpec[], known: boolean): object {
  const required = parameters.filter((each) => each.required).map(({ name }) => name);
  const properties = Object.fromEntries(parameters.map(({ name, type }) => [name, schemaOf(type)]));
  const schema = { type: 'object', properties, required, ...(known ? { additionalProperties: false } : {}) };
  return { required: required.length > 0, content: { 'application/json': { schema } } };
}

/** Empty when the source does not show it. */
function schemaOf(type: string): object {
  return type === '' ? {} : type === 'array' ? { type, items: {} } : { type };
}
