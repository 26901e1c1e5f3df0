/** The HTTP server: the same parsing, validation and errors for every route. */
import fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify';
import type { z } from 'zod';

import { CapstanError } from '../../lib/errors.ts';
import type { Certificate } from './tls.ts';
import { parseBody } from '../json/body.ts';
import { cors } from './cors.ts';
import { docsRoutes } from './docs.ts';
import { openListener, refuseSocket } from './listener.ts';
import { measure } from './measure.ts';
import { AllowedMethods } from './methods.ts';
import { sendProblem, toCapstanError } from './problem.ts';
import { readBody } from './request-body.ts';
import { buildRoutes } from './routes/builds.ts';
import { controlRoutes } from './routes/control.ts';
import { graphqlRoutes } from './routes/graphql.ts';
import { listingRoutes } from './routes/listing.ts';
import { metricsRoutes } from './routes/metrics.ts';
import { openAiRoutes } from './routes/openai.ts';
import { serviceRoutes } from './routes/service.ts';
import { statusRoutes } from './routes/status.ts';
import { submitRoutes } from './routes/submit.ts';
import { idsOf, type Services } from './services.ts';

declare module 'fastify' {
  interface FastifyInstance {
    /** The routes, by path and method. */
    served: AllowedMethods;
  }
}

const MAX_PARAM_LENGTH = 512;

/** `certificate`: null for plain HTTP. */
export async function createServer(services: Services, certificate: Certificate | null): Promise<FastifyInstance> {
  const { config, log } = services;
  const app = fastify({
    serverFactory: (handler) => openListener(services, certificate, handler),
    // A logger of the framework would cost a child logger per request; errors are logged below.
    logger: false,
    forceCloseConnections: 'idle',
    return503OnClosing: false,
    exposeHeadRoutes: false,
    routerOptions: { ignoreTrailingSlash: true, maxParamLength: MAX_PARAM_LENGTH },
    frameworkErrors: (error, _request, reply) => {
      sendProblem(reply, toCapstanError(error));
    },
    clientErrorHandler: refuseSocket,
  });

  // Each request of a pipelining caller may listen on the connection.
  app.server.on('connection', (socket) => socket.setMaxListeners(0));
  app.decorateRequest('rawBody', null);
  app.decorateRequest('reservation', null);
  app.decorateRequest('newJobId', null);
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', (request, payload, done) => {
    readBody(request, payload, services, (error, bytes) => {
      if (error !== null) {
        done(error);
        return;
      }
      request.rawBody = bytes;
      request.bodyBytes = bytes.length;
      // An error is passed on as the body and reported by the validation: reporting it here would end the connection.
      done(null, bytes.length === 0 || request.routeOptions.config.rawBodyOnly === true ? undefined : parseBody(bytes));
    });
  });
  app.setValidatorCompiler<z.ZodType>(({ schema, httpPart }) => (data: unknown) => {
    // Header schemas are for the OpenAPI document; handlers check the headers themselves.
    if (httpPart === 'headers') return { value: data };
    if (data instanceof CapstanError) return { error: data };
    const result = schema.safeParse(data);
    return result.success ? { value: result.data } : { error: validationError(result.error, httpPart) };
  });
  // Responses are written by hand; response schemas are for the OpenAPI document.
  app.setSerializerCompiler(() => (data) => JSON.stringify(data));

  measure(app, services.metrics);
  const methods = new AllowedMethods();
  app.decorate('served', methods);
  app.addHook('onRoute', (route) => {
    methods.add(route.url, route.method);
  });
  app.addHook('onRequest', (request, reply, done) => {
    if (request.routeOptions.config?.cacheable !== true) reply.header('cache-control', 'no-store');
    if (request.is404) {
      notFound(request, reply, methods);
    } else {
      done();
    }
  });
  if (config.corsOrigins.length > 0) cors(app, config.corsOrigins, methods);
  app.setErrorHandler((thrown, request, reply) => {
    const error = toCapstanError(thrown);
    if (error.code === 'INTERNAL') {
      log.error(
        { ...idsOf(request), method: request.method, route: request.routeOptions.url, err: error.cause ?? error },
        'request failed',
      );
    }
    sendProblem(reply, error);
  });
  app.setNotFoundHandler((request, reply) => {
    notFound(request, reply, methods);
  });

  await docsRoutes(app, services.version);
  serviceRoutes(app, services);
  submitRoutes(app, services);
  statusRoutes(app, services);
  controlRoutes(app, services);
  listingRoutes(app, services);
  openAiRoutes(app, services);
  metricsRoutes(app, services);
  graphqlRoutes(app, services);
  buildRoutes(app, services);
  return app;
}

function validationError(error: z.ZodError, part: string | undefined): CapstanError {
  const issue = error.issues[0];
  const path = issue?.path.join('.') ?? '';
  const field = path === '' ? (part ?? 'body') : path;
  return new CapstanError('INVALID_ARGUMENT', `${field}: ${issue?.message ?? 'is not valid'}`, { field });
}

function notFound(request: FastifyRequest, reply: FastifyReply, methods: AllowedMethods): void {
  const allowed = methods.of(request.url);
  if (allowed === null) {
    sendProblem(reply, new CapstanError('NOT_FOUND', 'no such route; see /docs'));
  } else if (request.method === 'OPTIONS') {
    reply.code(204).header('allow', allowed).send();
  } else {
    const error = new CapstanError('METHOD_NOT_ALLOWED', `${request.method} is not allowed here; use ${allowed}`);
    sendProblem(reply, error, { allow: allowed });
  }
}
