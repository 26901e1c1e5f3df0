/** One call of a function of another endpoint: manifest, state manager, target (SPEC.md, Cross-endpoint calls). */
import { EndpointClient } from './client.ts';
import { variable } from './environment.ts';
import { CapstanApiError, ConnectionError, DispatchError, JobError, NotFoundError, RemoteError } from './errors.ts';
import { exchange, parsed, type CallRequest, type Connection } from './http.ts';
import { endpointOf, routeOf } from './manifest.ts';
import { Peers, type Peer } from './peers.ts';
import { defaultRetryPolicy } from './retry.ts';
import { parameterOf, type RouteMethod } from './routes.ts';

/** A load-balanced endpoint's own limits, 2 minutes' wait for a worker and 5.5 minutes' work, come first; ms. */
const ROUTE_TIMEOUT_MS = 480_000;

const peers = new Peers();

export interface Target {
  readonly functionName: string;
  /** Name of the endpoint that serves it; the manifest knows it. */
  readonly endpointName: string | undefined;
  /** Of a load-balanced endpoint; the manifest knows it. */
  readonly route?: Route | undefined;
}

interface Route {
  readonly method: RouteMethod;
  readonly path: string;
}

/**
 * Calls a function with its arguments by name and gives its value.
 * @throws RemoteError with the function's message; DispatchError, CapstanApiError, ConnectionError.
 */
export async function invoke(target: Target, input: object): Promise<unknown> {
  const { connection, environment, name } = await wayTo(target);
  const { peer, remembered } = await peers.find(connection, environment, name);
  try {
    return await invokeAt(connection, peer, target, input);
  } catch (error) {
    if (!remembered || !mayHaveMoved(error)) throw error;
    // It may have been deployed anew, with another id and address.
    peers.drop(connection, environment, name);
    const { peer: fresh } = await peers.find(connection, environment, name);
    if (fresh.id === peer.id && fresh.url === peer.url) throw error;
    return invokeAt(connection, fresh, target, input);
  }
}

/** Calls a generator of a queue-based endpoint, and gives its chunks as they come. Throws what `invoke` throws. */
export async function* invokeStream(target: Target, input: object): AsyncGenerator<unknown, void, void> {
  const { connection, environment, name } = await wayTo(target);
  const { peer } = await peers.find(connection, environment, name);
  try {
    yield* (await clientOf(connection, peer).run(input)).stream();
  } catch (error) {
    throw remoteError(error, target.functionName, name);
  }
}

async function wayTo(target: Target): Promise<{ readonly connection: Connection; readonly environment: string; readonly name: string }> {
  return {
    connection: workerConnection(),
    environment: variable('CAPSTAN_ENVIRONMENT') ?? 'default',
    name: target.endpointName ?? (await endpointOf(target.functionName)),
  };
}

/** How this worker reaches the service. */
function workerConnection(): Connection {
  const url = variable('CAPSTAN_URL');
  const token = variable('CAPSTAN_WORKER_TOKEN') ?? variable('SERVICE_API_KEY');
  const missing = url === undefined ? 'CAPSTAN_URL' : 'CAPSTAN_WORKER_TOKEN';
  if (url === undefined || token === undefined)
    throw new DispatchError(`${missing} is not set: functions of other endpoints can be called from deployed workers only`);
  return { baseUrl: url.replace(/\/+$/, ''), apiKey: token, fetch: globalThis.fetch, retry: defaultRetryPolicy, timeoutMs: 30_000 };
}

function mayHaveMoved(error: unknown): boolean {
  return error instanceof NotFoundError || error instanceof ConnectionError || (error instanceof RemoteError && error.status === 404);
}

async function invokeAt(connection: Connection, peer: Peer, target: Target, input: object): Promise<unknown> {
  if (peer.isLoadBalanced) return callRoute(connection, peer, target, input);
  try {
    return await clientOf(connection, peer).runSync(input);
  } catch (error) {
    throw remoteError(error, target.functionName, peer.name);
  }
}

function clientOf({ apiKey, baseUrl }: Connection, peer: Peer): EndpointClient<object> {
  return new EndpointClient<object>(peer.id, { apiKey, baseUrl });
}

function remoteError(error: unknown, functionName: string, endpointName: string): unknown {
  if (!(error instanceof JobError)) return error;
  const message = error.error ?? `the job ended ${error.status}`;
  return new RemoteError(message, { functionName, endpointName, jobId: error.jobId }, error);
}

async function callRoute(connection: Connection, peer: Peer, { functionName, route }: Target, input: object): Promise<unknown> {
  const { method, path: template } = route ?? (await routeOf(peer.name, functionName));
  const request: CallRequest = {
    method,
    ...requestOf(method, template, input),
    accepts: (status) => status >= 200 && status < 300,
    // After anything else the function may have run, and shall not run twice.
    repeats: (status) => status === 429 || status === 503,
    againWhenUnreachable: method === 'GET',
  };
  try {
    const answer = await exchange({ ...connection, baseUrl: peer.url, timeoutMs: ROUTE_TIMEOUT_MS }, request);
    return answer.text === '' ? undefined : parsed(request, answer);
  } catch (error) {
    if (!(error instanceof CapstanApiError)) throw error;
    // What the service itself refuses on such an address has the same form as the function's own errors.
    throw new RemoteError(error.problem.detail ?? error.message, { functionName, endpointName: peer.name, status: error.status }, error);
  }
}

/** Path with query, and body, that carry the arguments of a route's function. @throws DispatchError */
export function requestOf(method: RouteMethod, template: string, input: object): { readonly path: string; readonly body?: object } {
  const rest = new Map<string, unknown>(Object.entries(input).filter(([, value]) => value !== undefined));
  const path = template
    .split('/')
    .map((segment) => {
      const name = parameterOf(segment);
      if (name === null) return segment;
      if (!rest.has(name)) throw new DispatchError(`the argument ${name} is missing: it is part of the path ${template}`);
      const value = rest.get(name);
      rest.delete(name);
      return encodeURIComponent(textOf(value));
    })
    .join('/');
  if (method !== 'GET' && method !== 'DELETE') return { path, body: Object.fromEntries(rest) };
  const query = new URLSearchParams();
  for (const [key, value] of rest) if (value !== null) query.append(key, textOf(value));
  return { path: query.size === 0 ? path : `${path}?${query.toString()}` };
}

/** A value as a path or a query carries it: text as it is, anything else as JSON. */
function textOf(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value);
}
