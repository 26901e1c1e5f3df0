/** Which routes of an account's endpoints have series of their own: a tenant can declare more than the store should keep. */
import type { State } from '../core/state.ts';
import { OTHER_ROUTES } from './routes.ts';

/** Routes of an account that are told apart: the first that had requests since the scheduler began, as long as they are declared. */
export const MAX_OF_AN_ACCOUNT = 500;

export class ToldRoutes {
  /** By account and endpoint. */
  readonly #accounts = new Map<string, Map<string, Set<string>>>();

  /** The name under which requests count that an endpoint reports of a route; empty for one that it does not declare. */
  nameOf(state: State, endpoint: string, route: string): string {
    const config = state.endpoints.get(endpoint)?.config;
    if (config === undefined || !Object.hasOwn(config.routes, route)) return '';
    const account = this.#accounts.get(config.account) ?? new Map<string, Set<string>>();
    const routes = account.get(endpoint) ?? new Set();
    if (routes.has(route)) return route;
    if (count(account) >= MAX_OF_AN_ACCOUNT) {
      forgetUndeclared(state, account);
      if (count(account) >= MAX_OF_AN_ACCOUNT) return OTHER_ROUTES;
    }
    routes.add(route);
    account.set(endpoint, routes);
    this.#accounts.set(config.account, account);
    return route;
  }

  /** Forgets the endpoints that the state does not have. */
  keepOnly(state: State): void {
    for (const [id, account] of this.#accounts) {
      for (const endpoint of account.keys()) if (!state.endpoints.has(endpoint)) account.delete(endpoint);
      if (account.size === 0) this.#accounts.delete(id);
    }
  }
}

function count(account: ReadonlyMap<string, ReadonlySet<string>>): number {
  return [...account.values()].reduce((sum, { size }) => sum + size, 0);
}

function forgetUndeclared({ endpoints }: State, account: Map<string, Set<string>>): void {
  for (const [endpoint, routes] of account) {
    const declared = endpoints.get(endpoint)?.config.routes ?? {};
    for (const route of routes) if (!Object.hasOwn(declared, route)) routes.delete(route);
    if (routes.size === 0) account.delete(endpoint);
  }
}
