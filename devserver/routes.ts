/** Maps declarations to the paths of the development server, by the worker file's name. */
import type { DeclaredEndpoint, DeclaredFunction } from '../compiler/discovery/declared.ts';

export interface DevRoute {
  readonly method: string;
  /** With the file's name in front; parameters as `{name}`. */
  readonly path: string;
  /** The part before the declared path. */
  readonly prefix: string;
  readonly endpoint: DeclaredEndpoint;
  readonly fn: DeclaredFunction;
}

/**
 * A queue function is served at `/<file>/runsync` if it is the only one of its file, and always at
 * `/<file>/<function>/runsync`.
 */
export function routesOf(endpoints: readonly DeclaredEndpoint[]): DevRoute[] {
  return endpoints.flatMap((endpoint) => {
    const prefix = `/${endpoint.file.replace(/\.\w+$/, '')}`;
    const queues = endpoints.filter(({ file, functions }) => file === endpoint.file && functions.some(({ route }) => route === null));
    return endpoint.functions.flatMap((fn) => {
      if (fn.route !== null) return [{ method: fn.route.method, path: `${prefix}${fn.route.path}`, prefix, endpoint, fn }];
      const named = { method: 'POST', path: `${prefix}/${fn.name}/runsync`, prefix, endpoint, fn };
      return queues.length === 1 ? [{ ...named, path: `${prefix}/runsync` }, named] : [named];
    });
  });
}

/** The routes of load-balanced endpoints at the paths that they have when deployed: `/lb/<endpoint>/<path>`. */
export function deployedRoutesOf(routes: readonly DevRoute[]): DevRoute[] {
  return routes.flatMap((route) => {
    if (route.fn.route === null) return [];
    const prefix = `/lb/${route.endpoint.name}`;
    return [{ ...route, path: `${prefix}${route.fn.route.path}`, prefix }];
  });
}

export interface RouteMatch {
  readonly route: DevRoute;
  /** Decoded values of the path's parameters. */
  readonly parameters: Readonly<Record<string, string>>;
}

/**
 * Finds the route of a request as a deployed endpoint would: fixed segments take precedence over parameters, a slash at
 * the end counts, HEAD is GET without its body. Without a match, returns the methods that the path permits, if any.
 */
export function matchRoute(routes: readonly DevRoute[], method: string, path: string): RouteMatch | readonly string[] {
  const found = routes.flatMap((route) => {
    const parameters = parametersOf(route.path, path);
    return parameters === null ? [] : [{ route, parameters }];
  });
  const best = (wanted: string): RouteMatch | undefined =>
    found
      .filter(({ route }) => route.method === wanted)
      .sort((a, b) => Object.keys(a.parameters).length - Object.keys(b.parameters).length)[0];
  const match = best(method) ?? (method === 'HEAD' ? best('GET') : undefined);
  return match ?? [...new Set(found.map(({ route }) => route.method))];
}

function parametersOf(template: string, path: string): Record<string, string> | null {
  const wanted = template.split('/');
  const given = path.split('/');
  if (wanted.length !== given.length) return null;
  const parameters: Record<string, string> = {};
  for (const [index, segment] of wanted.entries()) {
    const name = /^\{(\w+)\}$|^:(\w+)$/.exec(segment);
    const value = given[index] ?? '';
    if (name !== null && value !== '') parameters[name[1] ?? name[2] ?? ''] = decoded(value);
    else if (segment !== value) return null;
  }
  return parameters;
}

/** A segment with an invalid encoding is used as it is. */
function decoded(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}
