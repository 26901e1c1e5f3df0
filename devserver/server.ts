/**
 * The development server: serves a project's declarations on this host without keys or builds, at the paths of deployed
 * endpoints and at short ones.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';

import { referenceScript } from '../lib/reference-script.ts';
import { messageOf } from '../lib/to-error.ts';
import type { QueueApi } from '../gateway/assembly/queue-api.ts';
import { answerCall, broken, MAX_BODY_BYTES, urlOf, type CallDeps } from './calls.ts';
import { answerUpgrade, refuseUpgrade, upgradeTarget } from './upgrade.ts';
import { PAGE, SCRIPT_PATH } from './docs-page.ts';
import { documentOf } from './document.ts';
import { originRefusal, type OriginRule } from './origin.ts';
import { refuse, Refused } from './refusal.ts';

/** As in nginx: the caller disconnected before the response. */
const CALLER_GONE = 499;
const DOCS_PATHS = new Set(['/docs', '/docs/', SCRIPT_PATH]);

export interface DevServer {
  /** `http://localhost:<port>`. */
  readonly url: string;
  close(): Promise<void>;
}

export interface DevServerDeps extends CallDeps {
  readonly queueApi: QueueApi;
  /** Receives each request that has ended. */
  readonly onRequest: (line: AccessLine) => void;
}

export interface AccessLine {
  readonly method: string;
  readonly path: string;
  readonly status: number;
  readonly ms: number;
}

export interface Address {
  /** `localhost`: both loopback addresses. */
  readonly host: string;
  readonly port: number;
}

/** @throws the system's Error when the port is in use. */
export async function serveProject(deps: DevServerDeps, { host, port }: Address): Promise<DevServer> {
  const rule: OriginRule = { isPublic: !/^(localhost|127\.\d+\.\d+\.\d+|::1)$/.test(host), host };
  const listener = (request: IncomingMessage, response: ServerResponse): void => {
    const begun = performance.now();
    response.once('close', () => {
      const status = response.headersSent ? response.statusCode : CALLER_GONE;
      deps.onRequest({ method: request.method ?? '', path: pathOf(request), status, ms: performance.now() - begun });
    });
    answer(deps, rule, request, response).catch((thrown: unknown) => {
      if (thrown instanceof Refused) refuse(request, response, thrown.refusal);
      else refuse(request, response, { status: 500, error: 'The development server failed', detail: messageOf(thrown) });
    });
  };
  const { project } = deps;
  const upgrade = (request: IncomingMessage, socket: Duplex, head: Buffer): void => {
    // A reset by the peer would end the process.
    socket.on('error', () => socket.destroy());
    void project.settled().then(() => {
      const allowed = originRefusal(request.headers, rule) === null;
      rewriteHostForm(deps, request);
      const target = allowed ? upgradeTarget(project, urlOf(request).pathname) : null;
      if (target === null || project.problemOf(target.endpoint.file) !== undefined) refuseUpgrade(socket, allowed ? 404 : 403);
      else void answerUpgrade(deps, target, { request, socket, head });
    });
  };
  const servers: Server[] = [];
  // `localhost` is both addresses; a host without IPv6 has one.
  const addresses = host === 'localhost' ? ['127.0.0.1', '::1'] : [host];
  let bound = port;
  for (const [index, address] of addresses.entries()) {
    const server = createServer(listener);
    server.on('upgrade', upgrade);
    try {
      await listening(server, address, bound);
    } catch (error) {
      if (index > 0 && (error as NodeJS.ErrnoException).code !== 'EADDRINUSE') continue;
      await Promise.all(servers.map(closed));
      throw error;
    }
    servers.push(server);
    const own = server.address();
    if (typeof own === 'object' && own !== null) bound = own.port;
  }
  const name = host === 'localhost' || !rule.isPublic ? 'localhost' : host.includes(':') ? `[${host}]` : host;
  return {
    url: `http://${name}:${bound}`,
    async close() {
      await Promise.all([...servers.map(closed), deps.queueApi.close()]);
    },
  };
}

async function answer(deps: DevServerDeps, rule: OriginRule, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const refused = originRefusal(request.headers, rule);
  if (refused !== null) throw new Refused({ status: 403, error: 'Forbidden', detail: refused });
  if (Number(request.headers['content-length'] ?? 0) > MAX_BODY_BYTES)
    throw new Refused({
      status: 413,
      error: 'Payload Too Large',
      detail: 'body: exceeded max body size of 30MiB',
      headers: { connection: 'close' },
    });
  const { project } = deps;
  await project.settled();
  rewriteHostForm(deps, request);
  const { pathname } = urlOf(request);
  if (pathname.startsWith('/v2/')) {
    const problem = problemOfPath(deps, pathname);
    if (problem !== undefined) throw problem;
    deps.queueApi.handle(request, response);
    return;
  }
  const isRead = request.method === 'GET' || request.method === 'HEAD';
  if (isRead && pathname === '/') {
    const endpoints = project.endpoints
      .filter((each) => project.isRunnable(each))
      .map(({ name, functions }) => {
        const isQueue = functions.length > 0 && functions.every(({ route }) => route === null);
        return { name, kind: isQueue ? 'queue' : 'load-balanced' };
      });
    const paths = project.routes.map(({ method, path }) => `${method} ${path}`);
    sendJson(response, { name: 'capstan', development: true, endpoints, routes: paths, docs: '/docs' });
  } else if (isRead && pathname === '/ping') sendJson(response, { status: 'ok' });
  else if (isRead && pathname === '/openapi.json') sendJson(response, documentOf(project.routes));
  else if (isRead && DOCS_PATHS.has(pathname)) await sendPage(request, response);
  else await answerCall(deps, request, response);
}

/** `<endpoint>.localhost` is a load-balanced endpoint at the root of its own host, as a deployed one may be. */
function rewriteHostForm({ project }: DevServerDeps, request: IncomingMessage): void {
  const name = /^([^.:]+)\.localhost\.?(:\d+)?$/i.exec(request.headers.host ?? '')?.[1]?.toLowerCase();
  const endpoint = project.endpoints.find((each) => each.name.toLowerCase() === name);
  const { url = '/' } = request;
  const isBalanced = endpoint !== undefined && (project.isServer(endpoint) || endpoint.functions.some(({ route }) => route !== null));
  if (isBalanced && url.startsWith('/')) request.url = `/lb/${endpoint.name}${url}`;
}

/** The error of the file that declares the endpoint of a path `/v2/<endpoint>/…`. */
function problemOfPath({ project }: DevServerDeps, pathname: string): Refused | undefined {
  const endpoint = project.endpoint(decoded(pathname.split('/')[2] ?? ''));
  const problem = endpoint === undefined ? undefined : project.problemOf(endpoint.file);
  return problem === undefined ? undefined : new Refused({ ...broken(problem).refusal, asProblem: true });
}

function decoded(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}

function sendJson(response: ServerResponse, value: object): void {
  const body = JSON.stringify(value);
  response.writeHead(200, { 'content-type': 'application/json; charset=utf-8', 'content-length': Buffer.byteLength(body) });
  response.end(response.req.method === 'HEAD' ? undefined : body);
}

async function sendPage(request: IncomingMessage, response: ServerResponse): Promise<void> {
  if (pathOf(request) === SCRIPT_PATH) {
    const { bytes, headers } = await referenceScript(request.headers['accept-encoding']);
    response.writeHead(200, { ...headers, 'content-length': bytes.length });
    response.end(request.method === 'HEAD' ? undefined : bytes);
    return;
  }
  response.writeHead(200, { 'content-type': 'text/html; charset=utf-8', 'content-length': Buffer.byteLength(PAGE) });
  response.end(request.method === 'HEAD' ? undefined : PAGE);
}

function pathOf({ url = '/' }: IncomingMessage): string {
  return url.split('?', 1)[0] ?? '/';
}

function listening(server: Server, host: string, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, host, () => {
      server.off('error', reject);
      resolve();
    });
  });
}

function closed(server: Server): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve());
    server.closeAllConnections();
  });
}
