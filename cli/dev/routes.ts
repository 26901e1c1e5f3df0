/** Where the development server serves what is declared: by the worker file's name (SPEC.md, Development server). */
import { CallStyle } from '../../proto/gen/capstan/v1/nodes.ts';
import type { Parameter } from '../deploy/parameters.ts';
import type { DeclaredEndpoint, DeclaredFunction } from '../discovery/declared.ts';

export interface DevRoute {
  readonly method: string;
  /** With the file's name before it; parameters as `{name}`. */
  readonly path: string;
  readonly endpoint: DeclaredEndpoint;
  readonly fn: DeclaredFunction;
}

/** A queue function at `/<file>/runsync` where it is the only one of its file, and always at `/<file>/<function>/runsync`. */
export function routesOf(endpoints: readonly DeclaredEndpoint[]): DevRoute[] {
  return endpoints.flatMap((endpoint) => {
    const prefix = `/${endpoint.file.replace(/\.\w+$/, '')}`;
    const queues = endpoints.filter(({ file, functions }) => file === endpoint.file && functions.some(({ route }) => route === null));
    return endpoint.functions.flatMap((fn) => {
      if (fn.route !== null) return [{ method: fn.route.method, path: `${prefix}${fn.route.path}`, endpoint, fn }];
      const named = { method: 'POST', path: `${prefix}/${fn.name}/runsync`, endpoint, fn };
      return queues.length === 1 ? [{ ...named, path: `${prefix}/runsync` }, named] : [named];
    });
  });
}

/** The route of a request and the parameters of its path; null when there is none. Fixed segments win over parameters. */
export function matchRoute(
  routes: readonly DevRoute[],
  method: string,
  path: string,
): { readonly route: DevRoute; readonly parameters: Readonly<Record<string, string>> } | null {
  const given = path.split('/');
  const matching = routes.flatMap((route) => {
    const wanted = route.path.split('/');
    if (route.method !== method || wanted.length !== given.length) return [];
    const parameters: Record<string, string> = {};
    for (const [index, segment] of wanted.entries()) {
      const name = /^\{(\w+)\}$|^:(\w+)$/.exec(segment);
      const value = given[index] ?? '';
      if (name === null) {
        if (segment !== value) return [];
      } else parameters[name[1] ?? name[2] ?? ''] = decodeURIComponent(value);
    }
    return [{ route, parameters }];
  });
  return matching.sort((a, b) => Object.keys(a.parameters).length - Object.keys(b.parameters).length)[0] ?? null;
}

/** The rule that an input breaks, or null: keys too few or too many, values of another type. */
export function inputBreach({ reading }: DeclaredFunction, input: Readonly<Record<string, unknown>>): string | null {
  if (reading.style !== CallStyle.POSITIONAL && reading.style !== CallStyle.OBJECT) return null;
  const names = reading.parameters.map(({ name }) => name);
  for (const key of Object.keys(input)) {
    if (!names.includes(key))
      return `unknown argument: ${key} (the function takes ${names.length === 0 ? 'no arguments' : names.join(', ')})`;
  }
  for (const { name, required, type } of reading.parameters) {
    const value = input[name];
    if (value === undefined) {
      if (required) return `missing argument: ${name}`;
    } else if (!fits(value, type)) return `${name} must be ${/^[aio]/.test(type) ? 'an' : 'a'} ${type}`;
  }
  return null;
}

/** Texts of a path or a query as the function's types want them. */
export function fromText({ reading }: DeclaredFunction, texts: Readonly<Record<string, string>>): Record<string, unknown> {
  const typeOf = (name: string): string => reading.parameters.find((each) => each.name === name)?.type ?? '';
  return Object.fromEntries(Object.entries(texts).map(([name, text]) => [name, converted(text, typeOf(name))]));
}

/** The schema of a function's input. */
export function schemaOf({ reading }: DeclaredFunction): object {
  const property = ({ type, sample }: Parameter): object => ({ ...(type === '' ? {} : { type }), example: sample });
  return {
    type: 'object',
    properties: Object.fromEntries(reading.parameters.map((each) => [each.name, property(each)])),
    required: reading.parameters.filter(({ required }) => required).map(({ name }) => name),
  };
}

function converted(text: string, type: string): unknown {
  if (type === 'number' || type === 'integer') return text.trim() === '' || Number.isNaN(Number(text)) ? text : Number(text);
  if (type === 'boolean' && (text === 'true' || text === 'false')) return text === 'true';
  return text;
}

function fits(value: unknown, type: string): boolean {
  switch (type) {
    case 'string':
    case 'number':
    case 'boolean':
      return typeof value === type;
    case 'integer':
      return Number.isInteger(value);
    case 'array':
      return Array.isArray(value);
    case 'object':
      return typeof value === 'object' && value !== null && !Array.isArray(value);
    default:
      return true;
  }
}
