/** The HTTP server: the same parsing, validation and errors for every route. */
import fastify, { type FastifyInstance } from 'fastify';

import { consoleRoutes } from '../console/routes.ts';
import type { ConsoleServices } from '../console/services.ts';
import type { Certificate } from '../http/tls.ts';
import { cors } from '../http/cors.ts';
import { docsRoutes } from '../http/docs.ts';
import { openListener, refuseSocket } from './listener.ts';
import { measure } from '../http/measure.ts';
import { AllowedMethods } from '../http/methods.ts';
import { errorHandler, installParsers, installRouting, MAX_PARAM_LENGTH } from '../http/rules.ts';
import { traceRequests } from '../http/request-spans.ts';
import { sendProblem, toCapstanError } from '../http/problem.ts';
import { buildRoutes } from '../http/routes/builds.ts';
import { controlRoutes } from '../http/routes/control.ts';
import { graphqlRoutes } from '../http/routes/graphql.ts';
import { listingRoutes } from '../http/routes/listing.ts';
import { logRoutes } from '../http/routes/logs.ts';
import { payloadRoutes } from '../http/routes/payloads.ts';
import { metricsRoutes } from '../http/routes/metrics.ts';
import { openAiRoutes } from '../http/routes/openai.ts';
import { serviceRoutes } from '../http/routes/service.ts';
import { statusRoutes } from '../http/routes/status.ts';
import { submitRoutes } from '../http/routes/submit.ts';

/** `certificate`: null for plain HTTP. */
export async function createServer(services: ConsoleServices, certificate: Certificate | null): Promise<FastifyInstance> {
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
  installParsers(app, services);
  measure(app, services.metrics);
  traceRequests(app, services.tracing);
  const methods = new AllowedMethods();
  installRouting(app, methods);
  if (config.corsOrigins.length > 0) cors(app, config.corsOrigins, methods);
  app.setErrorHandler(errorHandler(log));

  await docsRoutes(app, services.version);
  serviceRoutes(app, services);
  submitRoutes(app, services);
  statusRoutes(app, services);
  controlRoutes(app, services);
  listingRoutes(app, services);
  logRoutes(app, services);
  payloadRoutes(app, services);
  openAiRoutes(app, services);
  metricsRoutes(app, services);
  graphqlRoutes(app, services);
  buildRoutes(app, services);
  if (config.console === 'on') await consoleRoutes(app, services);
  return app;
}
