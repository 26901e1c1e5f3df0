/** Finds the endpoints of this worker's environment, through the control plane. */
import { DispatchError } from './errors.ts';
import { call, type Connection } from './http.ts';

/** Time for which a URL is cached, ms. */
const TRUSTED_MS = 300_000;

const QUERY = 'query($environment: String!, $name: String!) { endpoint(environment: $environment, name: $name) { id name kind url } }';

export interface Peer {
  readonly id: string;
  readonly name: string;
  readonly isLoadBalanced: boolean;
  /** Base URL of its calls, without a trailing slash. */
  readonly url: string;
}

interface StateAnswer {
  readonly errors?: readonly { readonly message?: string }[];
  readonly data?: { readonly endpoint?: { readonly id: string; readonly kind: string; readonly url?: string } | null } | null;
}

export class Peers {
  readonly #now: () => number;
  /** Concurrent callers share one look-up. */
  readonly #known = new Map<string, { readonly since: number; readonly peer: Promise<Peer> }>();

  /** `now` in ms. */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  /**
   * Returns the endpoint of this name, and whether it was cached. @throws DispatchError, CapstanApiError,
   * ConnectionError
   */
  async find(connection: Connection, environment: string, name: string): Promise<{ readonly peer: Peer; readonly remembered: boolean }> {
    const key = keyOf(connection, environment, name);
    const known = this.#known.get(key);
    if (known !== undefined && this.#now() - known.since < TRUSTED_MS) return { peer: await known.peer, remembered: true };
    const peer = ask(connection, environment, name);
    this.#known.set(key, { since: this.#now(), peer });
    try {
      return { peer: await peer, remembered: false };
    } catch (error) {
      this.drop(connection, environment, name);
      throw error;
    }
  }

  drop(connection: Connection, environment: string, name: string): void {
    this.#known.delete(keyOf(connection, environment, name));
  }
}

function keyOf({ baseUrl }: Connection, environment: string, name: string): string {
  return `${baseUrl} ${environment} ${name}`;
}

async function ask(connection: Connection, environment: string, name: string): Promise<Peer> {
  const body = { query: QUERY, variables: { environment, name } };
  const { errors = [], data } = await call<StateAnswer>(connection, { method: 'POST', path: '/graphql', body });
  const [refused] = errors;
  if (refused !== undefined)
    throw new DispatchError(`the control plane refused to look up the endpoint ${name}: ${refused.message ?? 'no reason given'}`);
  const found = data?.endpoint;
  if (found === undefined || found === null)
    throw new DispatchError(`the endpoint ${name} does not exist in the environment ${environment}`);
  return { id: found.id, name, isLoadBalanced: found.kind === 'LOAD_BALANCED', url: (found.url ?? '').replace(/\/+$/, '') };
}
