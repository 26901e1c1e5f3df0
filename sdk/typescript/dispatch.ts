/** One call of a function of another endpoint: manifest, state manager, target. */
import { EndpointClient } from './client.ts';
import { chunksOf, JSON_LINES, valueOf } from './chunks.ts';
import { stopSignal, variable } from './environment.ts';
import { CapstanApiError, ConnectionError, DispatchError, JobError, NotFoundError, RemoteError } from './errors.ts';
import { exchangeWith, type Connection } from './http.ts';
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
  return withResolvedPeer(target, (connection, peer) =>
    peer.isLoadBalanced ? callRoute(connection, peer, target, input) : runJob(connection, peer, target, input),
  );
}

/** Calls a generator, and gives its chunks as they come. Leaving it ends the job or the request there. Throws what `invoke` throws. */
export async function* invokeStream(target: Target, input: object): AsyncGenerator<unknown, void, void> {
  yield* await withResolvedPeer(target, (connection, peer) =>
    peer.isLoadBalanced ? streamRoute(connection, peer, target, input) : streamJob(connection, peer, target, input),
  );
}

/** Runs a job at the endpoint of this name and gives its result. Throws what `invoke` throws. */
export async function runAt(endpointName: string, input: object): Promise<unknown> {
  const target = { functionName: 'runSync', endpointName };
  return withResolvedPeer(target, (connection, peer) => runJob(connection, mustTakeJobs(peer), target, input));
}

/** The handle of the endpoint of this name. @throws DispatchError when there is none that takes jobs; CapstanApiError, ConnectionError */
export async function clientAt(endpointName: string): Promise<EndpointClient<object>> {
  const { connection, peer } = await find(endpointName);
  return clientOf(connection, mustTakeJobs(peer));
}

/** Where the endpoint of this name takes requests or jobs. @throws DispatchError when there is none; CapstanApiError, ConnectionError */
export async function urlOf(endpointName: string): Promise<string> {
  return (await find(endpointName)).peer.url;
}

async function find(endpointName: string): Promise<{ readonly connection: Connection; readonly peer: Peer }> {
  const connection = workerConnection();
  const { peer } = await peers.find(connection, variable('CAPSTAN_ENVIRONMENT') ?? 'default', endpointName);
  return { connection, peer };
}

function mustTakeJobs(peer: Peer): Peer {
  if (peer.isLoadBalanced)
    throw new DispatchError(`the endpoint ${peer.name} is load-balanced: it serves requests at ${peer.url}, not jobs`);
  return peer;
}

/** Does what is to be done at the endpoint, and once more where it is now when it has moved meanwhile. */
async function withResolvedPeer<T>(target: Target, work: (connection: Connection, peer: Peer) => Promise<T>): Promise<T> {
  const connection = workerConnection();
  const environment = variable('CAPSTAN_ENVIRONMENT') ?? 'default';
  const name = target.endpointName ?? (await endpointOf(target.functionName));
  const { peer, remembered } = await peers.find(connection, environment, name);
  try {
    return await work(connection, peer);
  } catch (error) {
    if (!remembered || !mayHaveMoved(error)) throw error;
    // It may have been deployed anew, with another id and address.
    peers.drop(connection, environment, name);
    const { peer: fresh } = await peers.find(connection, environment, name);
    if (fresh.id === peer.id && fresh.url === peer.url) throw error;
    return work(connection, fresh);
  }
}

/** How this worker reaches the service. */
function workerConnection(): Connection {
  const url = variable('CAPSTAN_URL');
  const token = variable('CAPSTAN_WORKER_TOKEN') ?? variable('SERVICE_API_KEY');
  const missing = url === undefined ? 'CAPSTAN_URL' : 'CAPSTAN_WORKER_TOKEN';
  if (url === undefined || token === undefined)
    throw new DispatchError(`${missing} is not set: only deployed workers can call functions of other endpoints`);
  return { baseUrl: url.replace(/\/+$/, ''), apiKey: token, fetch: globalThis.fetch, retry: defaultRetryPolicy, timeoutMs: 30_000 };
}

function mayHaveMoved(error: unknown): boolean {
  return error instanceof NotFoundError || error instanceof ConnectionError || (error instanceof RemoteError && error.status === 404);
}

async function runJob(connection: Connection, peer: Peer, { functionName }: Target, input: object): Promise<unknown> {
  const signal = stopSignal();
  const idempotencyKey = crypto.randomUUID();
  try {
    return await clientOf(connection, peer).runSync(input, { idempotencyKey, ...(signal === undefined ? {} : { signal }) });
  } catch (error) {
    // The same submission again tells the id of a job that is not known yet.
    if (signal?.aborted === true)
      abandon(async () => {
        const job = await clientOf(connection, peer, hurried).run(input, { idempotencyKey });
        await job.cancel();
      });
    throw remoteError(error, functionName, peer.name);
  }
}

async function streamJob(
  connection: Connection,
  peer: Peer,
  { functionName }: Target,
  input: object,
): Promise<AsyncGenerator<unknown, void, void>> {
  const job = await clientOf(connection, peer).run(input);
  const signal = stopSignal();
  const chunks = async function* (): AsyncGenerator<unknown, void, void> {
    let hasEnded = false;
    try {
      yield* job.stream(signal === undefined ? {} : { signal });
      hasEnded = true;
    } catch (error) {
      hasEnded = error instanceof JobError;
      throw remoteError(error, functionName, peer.name);
    } finally {
      if (!hasEnded) abandon(() => clientOf(connection, peer, hurried).job(job.id).cancel());
    }
  };
  return chunks();
}

/** What is left of a worker that was told to stop is short. */
const hurried = { retry: { ...defaultRetryPolicy, retries: 2 }, timeoutMs: 5_000 };

/** Cancels what nobody waits for any more, as far as that can be done: it may have ended, and has time limits of its own. */
function abandon(cancel: () => Promise<void>): void {
  void cancel().catch(() => undefined);
}

function clientOf({ apiKey, baseUrl }: Connection, peer: Peer, more: Partial<typeof hurried> = {}): EndpointClient<object> {
  return new EndpointClient<object>(peer.id, { apiKey, baseUrl, ...more });
}

function remoteError(error: unknown, functionName: string, endpointName: string): unknown {
  if (!(error instanceof JobError)) return error;
  const message = error.error ?? `the job ended ${error.status}`;
  return new RemoteError(message, { functionName, endpointName, jobId: error.jobId }, error);
}

async function callRoute(connection: Connection, peer: Peer, target: Target, input: object): Promise<unknown> {
  const read = async (response: Response): Promise<readonly [Headers, Uint8Array]> => [
    response.headers,
    new Uint8Array(await response.arrayBuffer()),
  ];
  const { answer, call } = await request(connection, { peer, target, input, headers: {} }, read);
  return valueOf(call, ...answer);
}

async function streamRoute(
  connection: Connection,
  peer: Peer,
  target: Target,
  input: object,
): Promise<AsyncGenerator<unknown, void, void>> {
  const accept = `${JSON_LINES}, */*;q=0.1`;
  const { answer, call } = await request(connection, { peer, target, input, headers: { accept } }, (response) => Promise.resolve(response));
  return chunksOf(call, answer);
}

interface RouteRequest {
  readonly peer: Peer;
  readonly target: Target;
  readonly input: object;
  readonly headers: Readonly<Record<string, string>>;
}

async function request<T>(
  connection: Connection,
  { peer, target: { functionName, route }, input, headers }: RouteRequest,
  read: (response: Response) => Promise<T>,
): Promise<{ readonly answer: T; readonly call: string }> {
  const { method, path: template } = route ?? (await routeOf(peer.name, functionName));
  const wanted = requestOf(method, template, input);
  try {
    const answer = await exchangeWith(
      { ...connection, baseUrl: peer.url, timeoutMs: ROUTE_TIMEOUT_MS },
      {
        method,
        ...wanted,
        headers,
        // A caller that is gone is seen there.
        signal: stopSignal(),
        accepts: (status) => status >= 200 && status < 300,
        // After anything else the function may have run, and shall not run twice.
        repeats: (status) => status === 429 || status === 503,
        againWhenUnreachable: method === 'GET',
      },
      read,
    );
    return { answer, call: `${method} ${wanted.path}` };
  } catch (error) {
    if (!(error instanceof CapstanApiError)) throw error;
    // What the service itself refuses on such an address has the same form as the function's own errors.
    throw new RemoteError(error.problem.detail ?? error.message, { functionName, endpointName: peer.name, status: error.status }, error);
  }
}

/** Path with query, and body, that carry the arguments of a route's function. @throws DispatchError */
function requestOf(method: RouteMethod, template: string, input: object): { readonly path: string; readonly body?: object } {
  const rest = new Map<string, unknown>(Object.entries(input).filter(([, value]) => value !== undefined));
  const path = template
    .split('/')
    .map((segment) => {
      const name = parameterOf(segment);
      if (name === null) return segment;
      if (!rest.has(name)) throw new DispatchError(`the argument ${name} is required: it is part of the path ${template}`);
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
