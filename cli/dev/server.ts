/** The development server (SPEC.md, Development server): what is declared, on this machine, without keys and queues. */
import { randomUUID } from 'node:crypto';

import scalar from '@scalar/fastify-api-reference';
import fastify, { type FastifyReply, type FastifyRequest } from 'fastify';

import { CallStyle } from '../../proto/gen/capstan/v1/nodes.ts';
import type { Project } from './project.ts';
import { fromText, inputBreach, matchRoute, schemaOf, type DevRoute } from './routes.ts';
import type { Outcome } from './worker-process.ts';

const MAX_BODY_BYTES = 30 * 1024 * 1024;

export interface DevServer {
  /** `http://localhost:<port>`. */
  readonly url: string;
  close(): Promise<void>;
}

/** Serves on loopback. @throws Error of the system when the port is in use. */
export async function serveProject(project: Project, port: number): Promise<DevServer> {
  const app = fastify({ bodyLimit: MAX_BODY_BYTES, forceCloseConnections: true });
  app.setErrorHandler((error: Error & { statusCode?: number }, _request, reply) =>
    refuse(reply, error.statusCode ?? 500, error.statusCode === undefined ? 'Internal Server Error' : 'Bad Request', error.message),
  );
  app.get('/', () => ({ routes: project.routes.map(({ method, path }) => `${method} ${path}`), docs: '/docs' }));
  app.get('/ping', () => ({ status: 'ok' }));
  app.get('/openapi.json', () => documentOf(project.routes));
  await app.register(scalar, {
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
  app.all('/*', (request, reply) => answer(project, request, reply));
  await app.listen({ port, host: 'localhost' });
  const address = app.server.address();
  const bound = typeof address === 'object' && address !== null ? address.port : port;
  return { url: `http://localhost:${bound}`, close: () => app.close() };
}

async function answer(project: Project, request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
  await project.settled();
  if (project.error !== null) return refuse(reply, 500, 'The sources cannot be read', project.error.message);
  const { pathname } = new URL(request.url, 'http://localhost');
  const found = matchRoute(project.routes, request.method, pathname);
  if (found === null) {
    const known = project.routes.map(({ method, path }) => `${method} ${path}`).join(', ');
    return refuse(reply, 404, 'Not Found', `there is no ${request.method} ${pathname}; there is ${known}`);
  }
  const { route, parameters } = found;
  const input = inputOf(route, request, parameters);
  if (typeof input === 'string') return refuse(reply, 422, 'Unprocessable Content', input);
  const breach = inputBreach(route.fn, input);
  if (breach !== null) return refuse(reply, 422, 'Unprocessable Content', breach);
  let outcome: Outcome;
  const id = `dev-${randomUUID()}`;
  try {
    const worker = await project.worker(route.endpoint);
    outcome = await worker.call(orderOf(route, id, input));
  } catch (error) {
    return refuse(reply, 500, `${route.endpoint.file} does not run`, error instanceof Error ? error.message : String(error));
  }
  if (!outcome.ok && outcome.isInput) return refuse(reply, 422, 'Unprocessable Content', outcome.error);
  if (route.fn.route === null)
    return reply.send(
      outcome.ok ? { id, status: 'COMPLETED', output: outcome.value ?? null } : { id, status: 'FAILED', error: outcome.error },
    );
  if (!outcome.ok) return refuse(reply, 500, `${route.fn.name} failed`, outcome.error);
  return reply.type('application/json').send(JSON.stringify(outcome.value ?? null));
}

/** The function's input; a text is the rule that the request breaks. */
function inputOf(
  { fn }: DevRoute,
  { body, query }: FastifyRequest,
  parameters: Readonly<Record<string, string>>,
): Record<string, unknown> | string {
  const given: unknown = body ?? {};
  if (!isObject(given)) return 'the body must be a JSON object';
  if (fn.route === null) return isObject(given['input']) ? given['input'] : 'the body must hold the key input with an object';
  return { ...fromText(fn, query as Record<string, string>), ...given, ...fromText(fn, parameters) };
}

function orderOf({ endpoint, fn }: DevRoute, id: string, input: Readonly<Record<string, unknown>>): Parameters<WorkerCall>[0] {
  return {
    id,
    endpoint: endpoint.name,
    function: fn.name,
    input,
    whole: fn.reading.style === CallStyle.WHOLE || fn.reading.style === CallStyle.OBJECT,
    parameters: fn.reading.style === CallStyle.POSITIONAL ? fn.reading.parameters.map(({ name }) => name) : null,
    methods: Object.keys(fn.methods),
    route: fn.route,
  };
}

type WorkerCall = Awaited<ReturnType<Project['worker']>>['call'];

function refuse(reply: FastifyReply, status: number, error: string, detail: string): FastifyReply {
  return reply.code(status).send({ error, detail });
}

function documentOf(routes: readonly DevRoute[]): object {
  const paths: Record<string, Record<string, object>> = {};
  for (const { method, path, endpoint, fn } of routes) {
    const schema = schemaOf(fn);
    const wrapped = fn.route === null ? { type: 'object', properties: { input: schema }, required: ['input'] } : schema;
    const body = { required: true, content: { 'application/json': { schema: wrapped } } };
    const names = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => ({ name, in: 'path', required: true, schema: { type: 'string' } }));
    paths[path] = {
      ...paths[path],
      [method.toLowerCase()]: {
        summary: fn.name,
        tags: [endpoint.name],
        parameters: names,
        ...(method === 'GET' || method === 'DELETE' ? {} : { requestBody: body }),
        responses: { 200: { description: 'The answer' }, 422: { description: 'The input does not fit the function' } },
      },
    };
  }
  return { openapi: '3.1.0', info: { title: 'Endpoints under development', version: '0' }, paths };
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
