/** Where the development server serves what is declared: by the worker file's name. */
import type { DeclaredEndpoint, DeclaredFunction } from '../discovery/declared.ts';

export interface DevRoute {
  readonly method: string;
  /** With the file's name before it; parameters as `{name}`. */
  readonly path: string;
  /** What stands before the path that is declared. */
  readonly prefix: string;
  readonly endpoint: DeclaredEndpoint;
  readonly fn: DeclaredFunction;
}

/** A queue function at `/<file>/runsync` where it is the only one of its file, and always at `/<file>/<function>/runsync`. */
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

export interface RouteMatch {
  readonly route: DevRoute;
  /** Decoded values of the path's parameters. */
  readonly parameters: Readonly<Record<string, string>>;
}

/**
 * The route of a request, as a deployed endpoint would choose it: fixed segments win over parameters, a slash at the
 * end counts, HEAD is GET without its body. Else the methods that the path takes; none when it is no path.
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

/** A segment that is no proper encoding is text as it stands. */
function decoded(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}
