/** Generates the OpenAPI document of the project under development from the functions' signatures. */
import type { Parameter } from '../compiler/signatures/parameters.ts';
import { DocumentSchemas, HIDDEN_FROM_PAGE, UNSENT_EXAMPLE, withDefault, withoutMarkup } from '../lib/parameter-schemas.ts';
import { parameterExample } from '../lib/schema-examples.ts';
import type { DeclaredFunction, DeclaredMethod } from '../compiler/discovery/declared.ts';
import { isReadable } from './fit.ts';
import type { DevRoute } from './routes.ts';

export function documentOf(routes: readonly DevRoute[]): object {
  const paths: Record<string, Record<string, object>> = {};
  const schemas = new DocumentSchemas();
  for (const [index, route] of routes.entries()) {
    const path = route.path.replaceAll(/\/:(\w+)/g, '/{$1}');
    const isSecond =
      route.fn.route === null && routes.findIndex(({ fn, endpoint }) => fn === route.fn && endpoint === route.endpoint) < index;
    // A function that has two addresses has one entry on the page.
    const operation = { ...operationOf(route, path, schemas), ...(isSecond ? HIDDEN_FROM_PAGE : {}) };
    paths[path] = { ...paths[path], [route.method.toLowerCase()]: operation };
  }
  const tags = new Map(routes.map(({ endpoint: { name, settings } }) => [name, { name, description: settings.description }]));
  const components = { schemas: schemas.definitions() };
  const info = { title: 'Local development server', version: '0' };
  return { openapi: '3.1.0', info, servers: [{ url: '/' }], tags: [...tags.values()], paths, components };
}

function operationOf({ method, endpoint, fn }: DevRoute, path: string, schemas: DocumentSchemas): object {
  const { parameters } = fn.reading;
  const whole = parameters.find(({ takesBody }) => takesBody === true);
  const schemaOf: SchemaOf = (parameter) => {
    const plain = parameter === undefined || parameter.type === '' ? undefined : { type: parameter.type };
    const found = parameter?.schema === undefined ? plain : schemas.of(parameter.schema, plain ?? {});
    return parameter?.defaultValue === undefined ? found : withDefault(found ?? {}, parameter.defaultValue);
  };
  const inPath = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name ?? '');
  const rest = parameters.filter(({ name }) => !inPath.includes(name));
  const hasBody = fn.route === null || (method !== 'GET' && method !== 'DELETE');
  const located = (name: string, place: 'path' | 'query', parameter: Parameter | undefined): object => ({
    name,
    in: place,
    required: place === 'path' || parameter?.required === true,
    schema: schemaOf(parameter) ?? { type: 'string' },
    ...(place === 'path' || parameter?.required === true
      ? { example: exampleOf(parameter) }
      : parameter?.defaultValue === undefined
        ? { examples: UNSENT_EXAMPLE }
        : {}),
  });
  const own = fn.isClass ? methodsSchema(fn, schemaOf) : inputSchema(fn, rest, schemaOf);
  const wrapped = fn.route === null ? { type: 'object', properties: { input: own }, required: ['input'] } : own;
  const input = fn.isClass ? methodsExample(fn) : inputExample(fn, rest);
  const example = fn.route === null ? { input } : input;
  const { description } = fn.reading;
  return {
    operationId: `${method.toLowerCase()} ${path}`,
    summary: fn.name,
    ...(description === undefined ? {} : { description: withoutMarkup(description) }),
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
    ...(hasBody ? { requestBody: { required: true, content: { 'application/json': { schema: wrapped, example } } } } : {}),
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

function exampleOf(parameter: Parameter | undefined): unknown {
  return parameter === undefined ? 'text' : parameterExample(parameter, parameter.sample);
}

/** An input that the function takes: the required keys, and those with a default. */
function inputExample({ reading }: Pick<DeclaredMethod, 'reading'>, keys: readonly Parameter[]): unknown {
  const whole = reading.parameters.find(({ takesBody }) => takesBody === true);
  if (whole !== undefined) return exampleOf(whole);
  const shown = keys.filter(({ type, required, defaultValue }) => type !== 'request' && (required || defaultValue !== undefined));
  return Object.fromEntries(shown.map((each) => [each.name, exampleOf(each)]));
}

function methodsExample({ methods }: DeclaredFunction): unknown {
  const [first, ...others] = Object.entries(methods);
  if (first === undefined) return {};
  const [name, method] = first;
  const input = inputExample(method, method.reading.parameters);
  return others.length === 0 ? input : { method: name, ...(input as object) };
}

function objectOf(parameters: readonly Parameter[], schemaOf: SchemaOf): object {
  return {
    type: 'object',
    properties: Object.fromEntries(parameters.map((each) => [each.name, { ...schemaOf(each), example: exampleOf(each) }])),
    required: parameters.filter(({ required }) => required).map(({ name }) => name),
  };
}
