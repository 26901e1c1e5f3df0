/** Calls of functions at their paths under the development server: `/<file>/…`, and routes at `/lb/<endpoint>/…`. */
import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';

import { CapstanError } from '../lib/errors.ts';
import { NumberOutOfRange, parseExact } from '../lib/exact-json.ts';
import { scanObject } from '../lib/json-scan.ts';
import { PREFIX_HEADER } from '../lib/redirects.ts';
import { messageOf } from '../lib/to-error.ts';
import { methodNotAllowed } from '../lib/http-messages.ts';
import { JobKind, type Payload } from '../proto/gen/capstan/v1/common.ts';
import type { HttpRequest, LocalWorker } from '../agent/local-workers.ts';
import type { JobResult, Done, JobQueue } from '../gateway/assembly/queue-api.ts';
import type { DeclaredEndpoint } from '../compiler/discovery/declared.ts';
import { excerptOf } from './excerpt.ts';
import { inputViolation, isObject, isReadable, routeViolation } from './fit.ts';
import { answerByWorker } from './http-answer.ts';
import { problemText, type Problem } from './problem.ts';
import type { Project } from './project.ts';
import { acceptsHtml, pageOf, refuse, Refused } from './refusal.ts';
import { deployedRoutesOf, matchRoute, type DevRoute, type RouteMatch } from './routes.ts';

/** The largest body of a request, bytes; the same as for deployed endpoints. */
export const MAX_BODY_BYTES = 30 * 1024 * 1024;
const MAX_RUNSYNC_BYTES = 20 * 1024 * 1024;
/** Headers of one connection (RFC 9110 section 7.6.1), which a gateway does not pass on either. */
const HOP_BY_HOP = new Set(['connection', 'keep-alive', 'proxy-connection', 'te', 'trailer', 'transfer-encoding', 'upgrade']);
const INPUT: ReadonlySet<string> = new Set(['input']);
/** Wait of one read of a job, ms. */
const WAIT_MS = 300_000;

export interface CallDeps {
  readonly folder: string;
  readonly project: Project;
  readonly queue: JobQueue;
  /** Returns why the type or the encoding of a JSON body is refused, as the gateway does. */
  readonly typeViolation: (headers: IncomingMessage['headers']) => { readonly status: number; readonly message: string } | null;
  /** Returns the last lines that an endpoint's worker printed. */
  readonly printed: (endpoint: string) => readonly string[];
}

/** Responds to a request. @throws Refused */
export async function answerCall(deps: CallDeps, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { project } = deps;
  const method = request.method ?? 'GET';
  const { pathname } = urlOf(request);
  const server = serverOf(project, pathname);
  if (server !== null) {
    const problem = project.problemOf(server.endpoint.file);
    if (problem !== undefined) throw broken(problem);
    return callServer(deps, server, request, response);
  }
  const isDeployedPath = pathname.startsWith('/lb/');
  const routes = isDeployedPath ? deployedRoutesOf(project.routes) : project.routes;
  const found = matchRoute(routes, method, pathname);
  if ('route' in found) {
    const problem = project.problemOf(found.route.endpoint.file);
    if (problem !== undefined) throw broken(problem);
    return found.route.fn.route === null ? runJob(deps, found.route, request, response) : callRoute(deps, found, request, response);
  }
  if (found.length > 0) {
    throw new Refused({
      status: 405,
      error: 'Method Not Allowed',
      detail: methodNotAllowed(method, found.join(', ')),
      headers: { allow: found.join(', ') },
    });
  }
  const problem = project.problems.find(({ files }) => files === null || files.some((file) => pathname.startsWith(`/${stemOf(file)}/`)));
  if (problem !== undefined) throw broken(problem);
  const servers = project.endpoints.filter((each) => project.isServer(each)).map(({ name }) => `/lb/${name}/`);
  const known = [...routes.map(({ method: its, path }) => `${its} ${path}`), ...servers].join('\n');
  const alsoBroken = project.problems.map((each) => `\n${problemText(each)}`).join('');
  throw new Refused({
    status: 404,
    error: 'Not Found',
    detail: `no route ${method} ${pathname}; available routes:\n${known}${alsoBroken}`,
  });
}

/** An endpoint that is a web server, and the part of the path in front of what it sees. */
export interface ServerMatch {
  readonly endpoint: DeclaredEndpoint;
  readonly prefix: string;
}

/** Finds the web server of a path: `/lb/<endpoint>/…`, or `/<file>/…`. */
export function serverOf(project: Project, pathname: string): ServerMatch | null {
  for (const endpoint of project.endpoints) {
    if (!project.isServer(endpoint)) continue;
    for (const prefix of [`/lb/${endpoint.name}`, `/${stemOf(endpoint.file)}`])
      if (pathname === prefix || pathname.startsWith(`${prefix}/`)) return { endpoint, prefix };
  }
  return null;
}

async function callServer(
  deps: CallDeps,
  { endpoint, prefix }: ServerMatch,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const worker = await mustLoad(deps, endpoint);
  await answerByWorker({
    worker,
    request: requestOf(request, '', prefix, {}),
    prefix,
    body: request,
    response,
    taken: () => undefined,
    failed: (message) =>
      refuse(request, response, { status: 500, error: 'Internal Server Error', detail: message, log: deps.printed(endpoint.name) }),
    threw: () => Promise.resolve(null),
  });
}

/** The error of a file that cannot be read. */
export function broken({ title, message, excerpt }: Problem): Refused {
  return new Refused({ status: 500, error: title, detail: message, excerpt });
}

/** `api` of `api.py`. */
function stemOf(file: string): string {
  return file.replace(/\.\w+$/, '');
}

/** Like /runsync of a deployed endpoint, without a time limit for the wait; the input is checked first. */
async function runJob(deps: CallDeps, { endpoint, fn }: DevRoute, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const type = deps.typeViolation(request.headers);
  if (type !== null) throw new Refused({ status: type.status, error: 'Unsupported Media Type', detail: type.message, asProblem: true });
  const text = await textOf(request, MAX_RUNSYNC_BYTES);
  const body = parsed(text);
  const input = isObject(body) ? body['input'] : undefined;
  if (!isObject(input)) throw unfit('the body must be an object with the key input, which must be an object', true);
  const violation = inputViolation(fn, input);
  if (violation !== null) throw unfit(violation, true);
  await mustLoad(deps, endpoint);
  const id = `dev-${randomUUID()}`;
  // Nobody else waits for its result.
  response.once('close', () => {
    if (!response.writableFinished) deps.queue.jobCalls.cancel({ endpointId: endpoint.name, jobId: id }).catch(() => undefined);
  });
  const job = await jobEnd(deps.queue, endpoint.name, id, inputBytes(Buffer.from(text)));
  if (response.destroyed) return;
  response.writeHead(200, { 'content-type': 'application/json; charset=utf-8', 'cache-control': 'no-store' });
  response.end(jobText(job));
}

/** The bytes of the input as the caller sent them, so that no number loses digits. */
function inputBytes(body: Buffer): Buffer {
  const scan = scanObject(body, INPUT);
  const input = scan.ok ? scan.members.get('input') : undefined;
  if (input === undefined) throw new Refused({ status: 400, error: 'Bad Request', detail: 'body: is nested too deeply' });
  return body.subarray(input.start, input.end);
}

type EndedJob = Extract<JobResult, { readonly job: unknown }>['job'];

async function jobEnd(queue: JobQueue, endpointId: string, jobId: string, input: Buffer): Promise<EndedJob> {
  let job = await requested(queue, {
    endpointId,
    operation: {
      $case: 'submit',
      value: {
        jobId,
        kind: JobKind.RUNSYNC,
        input: { body: { $case: 'inline', value: input } },
        webhook: '',
        policy: undefined,
        s3Config: undefined,
        idempotencyKey: '',
        bodyHash: Buffer.alloc(0),
        waitMs: WAIT_MS,
      },
    },
    held: null,
  });
  while (/IN_QUEUE|IN_PROGRESS/.test(job.state))
    job = await requested(queue, { endpointId, operation: { $case: 'get', value: { jobId, waitMs: WAIT_MS } }, held: null });
  return job;
}

function requested(queue: JobQueue, request: Parameters<JobQueue['channel']['request']>[0]): Promise<EndedJob> {
  return new Promise((resolve, reject) => {
    const done: Done = (error, answer) => {
      if (answer !== null && 'job' in answer) resolve(answer.job);
      else reject(error ?? new CapstanError('INTERNAL', 'unexpected reply from the queue'));
    };
    queue.channel.request(request, done);
  });
}

function jobText({ id, state, output, error }: EndedJob): string {
  const status = state.replace(/^JOB_STATE_/, '');
  const head = JSON.stringify({ id, status, ...(error === undefined ? {} : { error }) });
  const bytes = inlineOf(output);
  return bytes === null ? head : `${head.slice(0, -1)},"output":${bytes.toString()}}`;
}

function inlineOf(payload: Payload | undefined): Buffer | null {
  return payload?.body?.$case === 'inline' ? payload.body.value : null;
}

export function urlOf({ url = '/' }: IncomingMessage): URL {
  return new URL(url.startsWith('/') ? `http://localhost${url}` : url, 'http://localhost');
}

async function callRoute(
  deps: CallDeps,
  { route: { endpoint, fn, prefix }, parameters }: RouteMatch,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  let body: AsyncIterable<Uint8Array> | Iterable<Uint8Array> = request;
  if (isReadable(fn)) {
    const text = await textOf(request, MAX_BODY_BYTES);
    const violation = routeViolation(fn, {
      path: parameters,
      query: urlOf(request).searchParams,
      body: text.trim() === '' ? undefined : parsed(text),
    });
    if (violation !== null) throw unfit(violation);
    body = text === '' ? [] : [Buffer.from(text)];
  }
  const worker = await mustLoad(deps, endpoint);
  await answerByWorker({
    worker,
    request: requestOf(request, fn.name, prefix, parameters),
    prefix,
    body,
    response,
    taken: () => undefined,
    failed: (message) => refuse(request, response, { status: 500, error: 'Internal Server Error', detail: message }),
    threw: async (bytes) => (acceptsHtml(request) ? errorPage(bytes, deps, endpoint) : null),
  });
}

/** The function sees the declared path, as on a deployed endpoint. */
export function requestOf(
  { method = 'GET', url = '/', rawHeaders, headers: { host } }: IncomingMessage,
  name: string,
  prefix: string,
  pathValues: Readonly<Record<string, string>>,
): Omit<HttpRequest, 'body' | 'ended'> {
  const headers: [string, string][] = [];
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    const header = (rawHeaders[at] ?? '').toLowerCase();
    if (!HOP_BY_HOP.has(header) && header !== PREFIX_HEADER) headers.push([header, rawHeaders[at + 1] ?? '']);
  }
  if (prefix !== '') headers.push([PREFIX_HEADER, prefix]);
  const declared = url.slice(prefix.length);
  const path = declared.startsWith('/') ? declared : `/${declared}`;
  return { function: name, method, url: `http://${host ?? 'localhost'}${path}`, headers, pathValues };
}

/** Returns the endpoint's worker once its file is loaded. If it does not load, the response contains what it printed. */
export async function mustLoad({ project, printed, folder }: CallDeps, endpoint: DeclaredEndpoint): Promise<LocalWorker> {
  const worker = project.worker(endpoint);
  try {
    await worker.ready;
    return worker;
  } catch (error) {
    const log = printed(endpoint.name);
    const excerpt = (await excerptOf(folder, log.join('\n')))?.lines ?? [];
    throw new Refused({ status: 500, error: `${endpoint.file} failed to load`, detail: messageOf(error), excerpt, log });
  }
}

/**
 * Returns the HTML page for a function that threw (its response is `{error, detail}`), or null for any other response.
 */
async function errorPage(answer: Buffer, { folder, printed }: CallDeps, { name }: DeclaredEndpoint): Promise<Buffer | null> {
  let body: unknown;
  try {
    body = JSON.parse(answer.toString());
  } catch {
    return null; // the function's own error message
  }
  if (!isObject(body) || body['error'] !== 'Internal Server Error' || typeof body['detail'] !== 'string') return null;
  const log = printed(name);
  const found = await excerptOf(folder, log.join('\n'));
  const error = found === null ? 'The function failed' : `The function failed at ${found.file}:${found.line}`;
  return Buffer.from(pageOf({ status: 500, error, detail: body['detail'], excerpt: found?.lines ?? [], log }));
}

function unfit(detail: string, asProblem = false): Refused {
  return new Refused({ status: 422, error: 'Unprocessable Content', detail, asProblem });
}

function parsed(text: string): unknown {
  try {
    return parseExact(text);
  } catch (error) {
    const why = error instanceof NumberOutOfRange ? error.message : 'must be JSON';
    throw new Refused({ status: 400, error: 'Bad Request', detail: `body: ${why}` });
  }
}

async function textOf(request: IncomingMessage, maxBytes: number): Promise<string> {
  const parts: Uint8Array[] = [];
  let size = 0;
  for await (const part of request as AsyncIterable<Uint8Array>) {
    size += part.length;
    if (size > maxBytes)
      throw new Refused({
        status: 413,
        error: 'Payload Too Large',
        detail: `body: exceeded max body size of ${maxBytes / 1_048_576}MiB`,
        headers: { connection: 'close' },
      });
    parts.push(part);
  }
  return Buffer.concat(parts).toString();
}
