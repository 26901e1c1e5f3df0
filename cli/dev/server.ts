/** The development server: serves a project's declarations on localhost, without keys, queues or builds. */
import { randomUUID } from 'node:crypto';
import type { Readable } from 'node:stream';

import fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify';

import { messageOf } from '../../lib/to-error.ts';
import type { HttpRequest, LocalWorker, TaskResult } from '../../agent/local-workers.ts';
import type { DeclaredEndpoint } from '../discovery/declared.ts';
import { documentOf } from './document.ts';
import { inputViolation, isObject, isReadable, routeViolation } from './fit.ts';
import { answerByWorker } from './http-answer.ts';
import type { Project } from './project.ts';
import { pageOf, refuse, acceptsHtml, type Refusal } from './refusal.ts';
import { matchRoute, type DevRoute, type RouteMatch } from './routes.ts';

/** The largest body of a request, bytes; the same as for deployed endpoints. */
const MAX_BODY_BYTES = 30 * 1024 * 1024;

export interface DevServer {
  /** `http://localhost:<port>`. */
  readonly url: string;
  close(): Promise<void>;
}

export interface DevServerDeps {
  readonly project: Project;
  /** Returns the last lines that an endpoint's worker printed. */
  readonly printed: (endpoint: string) => readonly string[];
  /** A progress update of a job, JSON text. */
  readonly onProgress: (endpoint: string, text: string) => void;
}

/** Serves on loopback. @throws the system's Error when the port is in use. */
export async function serveProject(deps: DevServerDeps, port: number): Promise<DevServer> {
  const app = fastify({ bodyLimit: MAX_BODY_BYTES, forceCloseConnections: true });
  const { project } = deps;
  // Functions may read the raw request: bodies are parsed only where the consumer is known.
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', (_request, payload, done) => done(null, payload));
  app.setErrorHandler((error: Error & { statusCode?: number }, request, reply) =>
    error instanceof Refused
      ? refuse(request, reply, error.refusal)
      : refuse(request, reply, { status: error.statusCode ?? 500, error: 'The development server failed', detail: error.message }),
  );
  app.get('/', () => ({ routes: project.routes.map(({ method, path }) => `${method} ${path}`), docs: '/docs' }));
  app.get('/ping', () => ({ status: 'ok' }));
  app.get('/openapi.json', () => documentOf(project.routes));
  let page: Promise<FastifyInstance> | undefined;
  for (const path of ['/docs', '/docs/', '/docs/js/scalar.js']) {
    app.get(path, async ({ url }, reply) => {
      const { statusCode, headers, rawPayload } = await (await (page ??= makePage())).inject({ method: 'GET', url });
      return reply.code(statusCode).headers(headers).send(rawPayload);
    });
  }
  app.all('/*', (request, reply) => answer(deps, request, reply));
  await app.listen({ port, host: 'localhost' });
  const address = app.server.address();
  const bound = typeof address === 'object' && address !== null ? address.port : port;
  return { url: `http://localhost:${bound}`, close: () => app.close() };
}

/** Created at the first request for it, because its plugin takes a third as long to load as everything else. */
async function makePage(): Promise<FastifyInstance> {
  const { default: scalar } = await import('@scalar/fastify-api-reference');
  const page = fastify();
  await page.register(scalar, {
    routePrefix: '/docs',
    configuration: {
      url: '/openapi.json',
      pageTitle: 'Endpoints',
      withDefaultFonts: false,
      telemetry: false,
      hideClientButton: true,
      showDeveloperTools: 'never',
      agent: { disabled: true },
      mcp: { disabled: true },
    },
  });
  return page;
}

async function answer(deps: DevServerDeps, request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
  const { project } = deps;
  await project.settled();
  if (project.error !== null) throw new Refused({ status: 500, error: 'Syntax error', detail: project.error.message });
  const url = urlOf(request);
  const found = matchRoute(project.routes, request.method, url.pathname);
  if ('route' in found)
    return found.route.fn.route === null ? runJob(deps, found.route, request, reply) : callRoute(deps, found, request, reply);
  if (found.length > 0) {
    void reply.header('allow', found.join(', '));
    throw new Refused({
      status: 405,
      error: 'Method Not Allowed',
      detail: `${request.method} is not allowed here; use ${found.join(', ')}`,
    });
  }
  const known = project.routes.map(({ method, path }) => `${method} ${path}`).join('\n');
  throw new Refused({ status: 404, error: 'Not Found', detail: `no route ${request.method} ${url.pathname}; the routes are\n${known}` });
}

/** Like /runsync of a deployed endpoint, without a time limit for the wait. */
async function runJob(
  deps: DevServerDeps,
  { endpoint, fn }: DevRoute,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const body = parsed(await textOf(request));
  const input = isObject(body) ? body['input'] : undefined;
  if (!isObject(input)) throw unfit('the body must be an object with the key input, which must be an object');
  const violation = inputViolation(fn, input);
  if (violation !== null) throw unfit(violation);
  const id = `dev-${randomUUID()}`;
  const stop = new AbortController();
  const { executionTimeoutMs } = endpoint.settings;
  let isLate = false;
  const timer = setTimeout(() => {
    isLate = true;
    stop.abort();
  }, executionTimeoutMs);
  if (executionTimeoutMs === 0) clearTimeout(timer);
  // Nobody else can request its result.
  reply.raw.once('close', () => stop.abort());
  const task = {
    jobId: id,
    input: Buffer.from(JSON.stringify(input)),
    onProgress: (data: Buffer) => deps.onProgress(endpoint.name, data.toString()),
    signal: stop.signal,
  };
  try {
    const result = await running(deps, endpoint, (worker) => worker.run(task));
    return await reply.type('application/json; charset=utf-8').send(jobText(id, result, isLate));
  } finally {
    clearTimeout(timer);
  }
}

function jobText(id: string, result: TaskResult, isLate: boolean): string {
  switch (result.kind) {
    case 'returned':
      return `{"id":${JSON.stringify(id)},"status":"COMPLETED","output":${result.output.toString()}}`;
    case 'failed':
      return JSON.stringify({ id, status: 'FAILED', error: result.error });
    case 'stopped':
      return JSON.stringify(isLate ? { id, status: 'TIMED_OUT', error: 'executionTimeout exceeded' } : { id, status: 'CANCELLED' });
  }
}

function urlOf({ url }: FastifyRequest): URL {
  return new URL(url, 'http://localhost');
}

async function callRoute(
  deps: DevServerDeps,
  { route: { endpoint, fn, prefix }, parameters }: RouteMatch,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  let body: AsyncIterable<Uint8Array> | Iterable<Uint8Array> = request.body === undefined ? [] : (request.body as Readable);
  if (isReadable(fn)) {
    const text = await textOf(request);
    const violation = routeViolation(fn, {
      path: parameters,
      query: urlOf(request).searchParams,
      body: text.trim() === '' ? undefined : parsed(text),
    });
    if (violation !== null) throw unfit(violation);
    body = text === '' ? [] : [Buffer.from(text)];
  }
  const answering = {
    request: requestOf(request, fn.name, prefix, parameters),
    body,
    response: reply.raw,
    taken: () => void reply.hijack(),
    failed: (message: string) => refuseRaw(request, reply, { status: 500, error: 'Internal Server Error', detail: message }),
    threw: (bytes: Buffer) => (acceptsHtml(request) ? errorPage(bytes, deps.printed(endpoint.name)) : null),
  };
  await running(deps, endpoint, (worker) => answerByWorker({ ...answering, worker }));
  return reply;
}

/** The function sees the declared path, as on a deployed endpoint. */
function requestOf(
  request: FastifyRequest,
  name: string,
  prefix: string,
  pathValues: Readonly<Record<string, string>>,
): Omit<HttpRequest, 'body' | 'ended'> {
  const { method, url, raw } = request;
  const headers: [string, string][] = [];
  for (let at = 0; at + 1 < raw.rawHeaders.length; at += 2)
    headers.push([(raw.rawHeaders[at] ?? '').toLowerCase(), raw.rawHeaders[at + 1] ?? '']);
  const declared = url.slice(prefix.length);
  const path = declared.startsWith('/') ? declared : `/${declared}`;
  return { function: name, method, url: `http://${request.headers.host ?? 'localhost'}${path}`, headers, pathValues };
}

/** Passes a call to the endpoint's worker. If its file does not load, the response contains what it printed. */
async function running<T>(
  { project, printed }: DevServerDeps,
  endpoint: DeclaredEndpoint,
  call: (worker: LocalWorker) => Promise<T>,
): Promise<T> {
  try {
    return await call(project.worker(endpoint));
  } catch (error) {
    const detail = messageOf(error);
    throw new Refused({ status: 500, error: `${endpoint.file} failed to load`, detail, log: printed(endpoint.name) });
  }
}

/**
 * Returns the HTML page for a function that threw (its response is `{error, detail}`), or null for any other response.
 */
function errorPage(answer: Buffer, log: readonly string[]): Buffer | null {
  let body: unknown;
  try {
    body = JSON.parse(answer.toString());
  } catch {
    return null; // the function's own error message
  }
  if (!isObject(body) || body['error'] !== 'Internal Server Error' || typeof body['detail'] !== 'string') return null;
  return Buffer.from(pageOf({ status: 500, error: 'The function failed', detail: body['detail'], log }));
}

function refuseRaw(request: FastifyRequest, { raw }: FastifyReply, refusal: Refusal): void {
  const { status, error, detail } = refusal;
  const page = acceptsHtml(request);
  raw.writeHead(status, { 'content-type': page ? 'text/html; charset=utf-8' : 'application/json; charset=utf-8' });
  raw.end(page ? pageOf(refusal) : JSON.stringify({ error, detail }));
}

class Refused extends Error {
  readonly refusal: Refusal;

  constructor(refusal: Refusal) {
    super(refusal.detail);
    this.refusal = refusal;
  }
}

function unfit(detail: string): Refused {
  return new Refused({ status: 422, error: 'Unprocessable Content', detail });
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new Refused({ status: 400, error: 'Bad Request', detail: 'body: must be JSON' });
  }
}

async function textOf({ body }: FastifyRequest): Promise<string> {
  if (body === undefined) return '';
  const parts: Uint8Array[] = [];
  let size = 0;
  for await (const part of body as AsyncIterable<Uint8Array>) {
    size += part.length;
    if (size > MAX_BODY_BYTES)
      throw new Refused({ status: 413, error: 'Payload Too Large', detail: 'body: exceeded max body size of 30MiB' });
    parts.push(part);
  }
  return Buffer.concat(parts).toString();
}
