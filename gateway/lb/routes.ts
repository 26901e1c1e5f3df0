/** Routes of load-balanced endpoints: maps method and path to a function and path parameters. */
import router from 'find-my-way';

import { CapstanError } from '../../lib/errors.ts';
import { methodNotAllowed } from '../../lib/http-messages.ts';
import type { EndpointEntry } from '../../proto/gen/capstan/v1/control.ts';

type Router = router.Instance<router.HTTPVersion.V1>;

export interface RouteMatch {
  readonly function: string;
  /** `<method> <path>` as it is declared; empty for an endpoint without routes. */
  readonly route: string;
  /** Decoded values of the path's parameters. */
  readonly values: Record<string, string>;
  /** The function has the parameter `websocket`. */
  readonly takesWebSocket: boolean;
}

interface Bound {
  readonly name: string;
  readonly route: string;
  readonly takesWebSocket: boolean;
}

const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'] as const;
const MAX_VALUE_LENGTH = 2_048;

export class RouteTables {
  readonly #tables = new WeakMap<EndpointEntry, Router>();

  /** @throws CapstanError NOT_FOUND; METHOD_NOT_ALLOWED with the allowed methods as its field. */
  match(endpoint: EndpointEntry, method: string, target: string): RouteMatch {
    const table = this.#tableOf(endpoint);
    const path = pathOf(target);
    const found = find(table, method, path) ?? (method === 'HEAD' ? find(table, 'GET', path) : null);
    if (found !== null) {
      const { name, route, takesWebSocket } = found.store as Bound;
      return { function: name, route, values: valuesOf(found.params), takesWebSocket };
    }
    const allowed = METHODS.filter((each) => find(table, each, path) !== null);
    if (allowed.length === 0) throw new CapstanError('NOT_FOUND', `the endpoint has no route ${printable(path)}`);
    throw new CapstanError('METHOD_NOT_ALLOWED', methodNotAllowed(method, allowed.join(', ')), { field: allowed.join(', ') });
  }

  /** Returns whether the endpoint has its own route for this path, with any method unless one is given. */
  has(endpoint: EndpointEntry, target: string, method?: string): boolean {
    const table = this.#tableOf(endpoint);
    const path = pathOf(target);
    return (method === undefined ? METHODS : [method]).some((each) => find(table, each, path) !== null);
  }

  #tableOf(endpoint: EndpointEntry): Router {
    const known = this.#tables.get(endpoint);
    if (known !== undefined) return known;
    const table = router({ maxParamLength: MAX_VALUE_LENGTH });
    for (const { method, path, function: fn } of endpoint.routes) {
      if (fn === undefined) continue;
      const bound: Bound = {
        name: fn.name,
        route: `${method} ${path}`,
        takesWebSocket: fn.parameters.some(({ name }) => name === 'websocket'),
      };
      table.on(method as router.HTTPMethod, routerPath(path), () => undefined, bound);
    }
    this.#tables.set(endpoint, table);
    return table;
  }
}

function pathOf(target: string): string {
  const query = target.indexOf('?');
  return query === -1 ? target : target.slice(0, query);
}

function find(table: Router, method: string, path: string): router.FindResult<router.HTTPVersion.V1> | null {
  const found = table.find(method as router.HTTPMethod, path);
  // The router accepts an empty segment as the value of a parameter.
  return found !== null && Object.entries(found.params).some(([name, value]) => name !== '*' && value === '') ? null : found;
}

/** OpenAPI and Python write `{name}` for the router's `:name`. */
function routerPath(path: string): string {
  return path.replaceAll(/\{(\w+)\}/g, ':$1');
}

function valuesOf(params: Readonly<Record<string, string | undefined>>): Record<string, string> {
  const values: Record<string, string> = {};
  for (const [name, value] of Object.entries(params)) if (value !== undefined) values[name] = value;
  return values;
}

function printable(path: string): string {
  return JSON.stringify(path.length > 128 ? `${path.slice(0, 128)}…` : path);
}
