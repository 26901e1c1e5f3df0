/** Generates the OpenAPI document of the project under development from the functions' signatures. */
import type { Parameter } from '../compiler/signatures/parameters.ts';
import { DocumentSchemas } from '../lib/parameter-schemas.ts';
import type { DeclaredFunction, DeclaredMethod } from '../compiler/discovery/declared.ts';
import { isReadable } from './fit.ts';
import type { DevRoute } from './routes.ts';

export function documentOf(routes: readonly DevRoute[]): object {
  const paths: Record<string, Record<string, object>> = {};
  const schemas = new DocumentSchemas();
  for (const route of routes) {
    const path = route.path.replaceAll(/\/:(\w+)/g, '/{$1}');
    paths[path] = { ...paths[path], [route.method.toLowerCase()]: operationOf(route, path, schemas) };
  }
  const tags = new Map(routes.map(({ endpoint: { name, settings } }) => [name, { name, description: settings.description }]));
  const components = { schemas: schemas.definitions() };
  return { openapi: '3.1.0', info: { title: 'Local development server', version: '0' }, tags: [...tags.values()], paths, components };
}

function operationOf({ method, endpoint, fn }: DevRoute, path: string, schemas: DocumentSchemas): object {
  const { parameters } = fn.reading;
  const whole = parameters.find(({ takesBody }) => takesBody === true);
  const schemaOf: SchemaOf = (parameter) => {
    const plain = parameter === undefined || parameter.type === '' ? undefined : { type: parameter.type };
    return parameter?.schema === undefined ? plain : schemas.of(parameter.schema, plain ?? {});
  };
  const inPath = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name ?? '');
  const rest = parameters.filter(({ name }) => !inPath.includes(name));
  const hasBody = fn.route === null || (method !== 'GET' && method !== 'DELETE');
  const located = (name: string, place: 'path' | 'query', parameter: Parameter | undefined): object => ({
    name,
    in: place,
    required: place === 'path' || parameter?.required === true,
    schema: schemaOf(parameter) ?? { type: 'string' },
  });
  const own = fn.isClass ? methodsSchema(fn, schemaOf) : inputSchema(fn, rest, schemaOf);
  const wrapped = fn.route === null ? { type: 'object', properties: { input: own }, required: ['input'] } : own;
  return {
    summary: fn.name,
    tags: [endpoint.name],
    parameters: [
      ...inPath.map((name) =>
        located(
          name,
          'path',
          parameters.find((each) => each.name === name),
        ),
      ),
      ...(whole === undefined && (hasBody || !isReadable(fn)) ? [] : rest)
        .filter((each) => each !== whole)
        .map((each) => located(each.name, 'query', each)),
    ],
    ...(hasBody ? { requestBody: { required: true, content: { 'application/json': { schema: wrapped } } } } : {}),
    responses: { 200: { description: 'The result' }, 422: { description: 'The input does not match the function' } },
  };
}

type SchemaOf = (parameter: Parameter | undefined) => object | undefined;

/** `keys`: the parameters that the path does not have. */
function inputSchema(fn: Pick<DeclaredMethod, 'reading'>, keys: readonly Parameter[], schemaOf: SchemaOf): object {
  const whole = fn.reading.parameters.find(({ takesBody }) => takesBody === true);
  if (whole !== undefined) return schemaOf(whole) ?? {};
  return isReadable(fn) ? objectOf(keys, schemaOf) : { type: 'object' };
}

/** The input of a class's only method, or one of several with the key that selects it. */
function methodsSchema({ methods }: DeclaredFunction, schemaOf: SchemaOf): object {
  const inputs = Object.entries(methods).map(([name, method]) => ({
    name,
    input: inputSchema(method, method.reading.parameters, schemaOf),
  }));
  const [first] = inputs;
  if (first === undefined) return { type: 'object' };
  if (inputs.length === 1) return first.input;
  const selected = (name: string): object => ({ type: 'object', properties: { method: { enum: [name] } }, required: ['method'] });
  return { oneOf: inputs.map(({ name, input }) => ({ title: name, allOf: [selected(name), input] })) };
}

function objectOf(parameters: readonly Parameter[], schemaOf: SchemaOf): object {
  return {
    type: 'object',
    properties: Object.fromEntries(parameters.map((each) => [each.name, { ...schemaOf(each), example: each.sample }])),
    required: parameters.filter(({ required }) => required).map(({ name }) => name),
  };
}
