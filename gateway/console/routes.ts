/**
 * The console: its files, its sessions, and for its pages the public API under `/console/api`, where the cookie of a session stands
 * for the API key. The cookie has no meaning anywhere else (docs/console.md).
 */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';

import type { Authenticator } from '../auth/authenticate.ts';
import { keyText } from '../auth/authenticate.ts';
import { sendFailure } from '../http/problem.ts';
import { controlRoutes } from '../http/routes/control.ts';
import { graphqlRoutes } from '../http/routes/graphql.ts';
import { listingRoutes } from '../http/routes/listing.ts';
import { logRoutes } from '../http/routes/logs.ts';
import { payloadRoutes } from '../http/routes/payloads.ts';
import { statusRoutes } from '../http/routes/status.ts';
import { submitRoutes } from '../http/routes/submit.ts';
import type { Services } from '../http/services.ts';
import { endpointRequestRoutes } from './endpoint-requests.ts';
import { eventRoutes } from './events.ts';
import { fileRoutes } from './files.ts';
import { checkConsoleRequest } from './same-origin.ts';
import { ownOrigins, tokenOf, type ConsoleServices } from './services.ts';
import { sessionRoutes } from './sessions.ts';

const API = { prefix: '/console/api' };

export async function consoleRoutes(app: FastifyInstance, services: ConsoleServices): Promise<void> {
  fileRoutes(app);
  await app.register((api, _options, done) => {
    admitPages(api, services);
    sessionRoutes(api, services);
    eventRoutes(api, services);
    endpointRequestRoutes(api, services);
    done();
  }, API);
  const forPages: Services = { ...services, authenticator: sessionsOnly(services.authenticator) };
  await app.register((api, _options, done) => {
    admitPages(api, services);
    onEachRequest(api, (request) => {
      request.headers.authorization = `Bearer ${tokenOf(request, services)}`;
    });
    submitRoutes(api, forPages);
    statusRoutes(api, forPages);
    controlRoutes(api, forPages);
    listingRoutes(api, forPages);
    logRoutes(api, forPages);
    payloadRoutes(api, forPages);
    graphqlRoutes(api, forPages);
    done();
  }, API);
}

/** The routes are not part of the public API: they serve the console's pages only. */
function admitPages(api: FastifyInstance, services: Services): void {
  api.addHook('onRoute', (route) => {
    route.schema = { ...route.schema, hide: true };
  });
  onEachRequest(api, (request) => checkConsoleRequest(request.headers, ownOrigins(request, services)));
}

function onEachRequest(api: FastifyInstance, check: (request: FastifyRequest) => void): void {
  api.addHook('onRequest', (request: FastifyRequest, reply: FastifyReply, done: () => void) => {
    try {
      check(request);
    } catch (thrown) {
      sendFailure(reply, thrown);
      return;
    }
    done();
  });
}

/** The routes find the token of the session in the header in which they expect a key. */
function sessionsOnly(authenticator: Authenticator): Services['authenticator'] {
  return {
    cached: () => undefined,
    authenticate: (header, peer) => authenticator.session(keyText(header), peer),
  };
}
