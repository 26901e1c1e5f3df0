/** Calls a function of another endpoint: finds it in the manifest and the control plane, then calls it. */
import { EndpointClient } from './client.ts';
import { chunksOf, JSON_LINES, valueOf } from './chunks.ts';
import { stopSignal, variable } from './environment.ts';
import { CapstanApiError, ConnectionError, DispatchError, JobError, NotFoundError, RemoteError } from './errors.ts';
import { exchangeWith, type Connection } from './http.ts';
import { jsonText } from './json-values.ts';
import { endpointOf, routeOf } from './manifest.ts';
import { Peers, type Peer } from './peers.ts';
import { defaultRetryPolicy } from './retry.ts';
import { parameterOf, type RouteMethod } from './routes.ts';

/** The limits of a load-balanced endpoint (2 minutes of waiting, 5.5 minutes of work) apply before this one; ms. */
const ROUTE_TIMEOUT_MS = 480_000;

const peers = new Peers();

export interface Target {
  readonly functionName: string;
  /** The endpoint that serves the function; the manifest has it. */
  readonly endpointName: string | undefined;
  /** The route of a load-balanced endpoint; the manifest has it. */
  readonly route?: Route | undefined;
}

interface Route {
  readonly method: RouteMethod;
  readonly path: string;
}

/**
 * Calls a function with its arguments by name and returns its value.
 * @throws RemoteError with the function's message; DispatchError, CapstanApiError, ConnectionError.
 */
export async function invoke(target: Target, input: object): Promise<unknown> {
  return withResolvedPeer(target, (connection, peer) =>
    peer.isLoadBalanced ? callRoute(connection, peer, target, input) : runJob(connection, peer, target, input),
  );
}

/**
 * Calls a generator, and yields its chunks as they arrive. Leaving the loop ends the job or request. Throws what
 * `invoke` throws.
 */
export async function* invokeStream(target: Target, input: object): AsyncGenerator<unknown, void, void> {
  yield* await withResolvedPeer(target, (connection, peer) =>
    peer.isLoadBalanced ? streamRoute(connection, peer, target, input) : streamJob(connection, peer, target, input),
  );
}

/** Runs a job at the endpoint of this name and returns its result. Throws what `invoke` throws. */
export async function runAt(endpointName: string, input: object): Promise<unknown> {
  const target = { functionName: 'runSync', endpointName };
  return withResolvedPeer(target, (connection, peer) => runJob(connection, mustTakeJobs(peer), target, input));
}

/**
 * Returns the handle of the queue-based endpoint of this name. @throws DispatchError when there is none;
 * CapstanApiError, ConnectionError
 */
export async function clientAt(endpointName: string): Promise<EndpointClient<object>> {
  const { connection, peer } = await find(endpointName);
  return clientOf(connection, mustTakeJobs(peer));
}

/**
 * Returns the URL of the endpoint of this name. @throws DispatchError when there is none; CapstanApiError,
 * ConnectionError
 */
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

/** Runs the work at the endpoint, and once more at its new URL if it has moved. */
async function withResolvedPeer<T>(target: Target, work: (connection: Connection, peer: Peer) => Promise<T>): Promise<T> {
  const connection = workerConnection();
  const environment = variable('CAPSTAN_ENVIRONMENT') ?? 'default';
  const name = target.endpointName ?? (await endpointOf(target.functionName));
  const { peer, remembered } = await peers.find(connection, environment, name);
  try {
    return await work(connection, peer);
  } catch (error) {
    if (!remembered || !mayHaveMoved(error)) throw error;
    // It may have been redeployed with another id and URL.
    peers.drop(connection, environment, name);
    const { peer: fresh } = await peers.find(connection, environment, name);
    if (fresh.id === peer.id && fresh.url === peer.url) throw error;
    return work(connection, fresh);
  }
}

/** The connection of this worker to the service. */
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
    // Sending the same submission again returns the id of a job whose id is not known yet.
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

/** A worker that was asked to stop has little time left. */
const hurried = { retry: { ...defaultRetryPolicy, retries: 2 }, timeoutMs: 5_000 };

/** Cancels a job that no caller waits for, if possible: it may have ended, and has its own time limits. */
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
        // The endpoint notices the disconnection.
        signal: stopSignal(),
        accepts: (status) => status >= 200 && status < 300,
        // After any other error the function may have run, and must not run twice.
        repeats: (status) => status === 429 || status === 503,
        againWhenUnreachable: method === 'GET',
      },
      read,
    );
    return { answer, call: `${method} ${wanted.path}` };
  } catch (error) {
    if (!(error instanceof CapstanApiError)) throw error;
    // Errors of the service itself on such a URL have the same form as the function's own errors.
    throw new RemoteError(error.problem.detail ?? error.message, { functionName, endpointName: peer.name, status: error.status }, error);
  }
}

/** Returns the path with query, and the body, that carry the arguments of a route's function. @throws DispatchError */
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
  for (const [key, value] of rest) {
    // Several values repeat the name, as the function reads them.
    const several = Array.isArray(value) ? (value as readonly unknown[]) : [value];
    for (const each of several) if (each !== null) query.append(key, textOf(each));
  }
  return { path: query.size === 0 ? path : `${path}?${query.toString()}` };
}

/** Encodes a value for a path or a query: text unchanged, anything else as JSON, whose text has no quotes. */
function textOf(value: unknown): string {
  if (typeof value === 'string') return value;
  const text = jsonText(value, '');
  return text.startsWith('"') ? (JSON.parse(text) as string) : text;
}
