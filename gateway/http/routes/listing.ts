/** /health and /requests: reading an endpoint. */
import type { FastifyInstance } from 'fastify';

import { JobState } from '../../../proto/gen/capstan/v1/common.ts';
import { healthText, requestsParts, sendParts, type StatusName } from '../answer.ts';
import { createGuard, endpointId } from '../guard.ts';
import { JSON_TYPE, sendFailure } from '../problem.ts';
import { DEFAULT_PAGE, endpointParams, healthAnswer, requestsAnswer, requestsQuery } from '../schemas.ts';
import type { JobServices } from '../services.ts';
import { described } from './describe.ts';

export function listingRoutes(app: FastifyInstance, services: JobServices): void {
  const { cells } = services;
  const onRead = createGuard(services, 'read', 0);
  const onList = createGuard(services, 'list', 0);

  app.route({
    method: 'GET',
    url: '/v2/:endpointId/health',
    onRequest: onRead,
    schema: described({ summary: 'Health of an endpoint', description: 'Counts of its jobs and workers.' }, healthAnswer, {
      params: endpointParams,
    }),
    handler(request, reply) {
      const id = endpointId(request);
      cells
        .atEndpoint(id, ({ jobCalls }) => jobCalls.health(id))
        .then(
          (health) => {
            reply.header('content-type', JSON_TYPE).send(healthText(health));
          },
          (thrown: unknown) => {
            sendFailure(reply, thrown);
          },
        );
    },
  });

  app.route({
    method: 'GET',
    url: '/v2/:endpointId/requests',
    onRequest: onList,
    schema: described({ summary: 'Jobs of an endpoint', description: 'A page of its jobs, newest first.' }, requestsAnswer, {
      params: endpointParams,
      querystring: requestsQuery,
    }),
    handler(request, reply) {
      const { status, limit = DEFAULT_PAGE, offset = 0 } = request.query as { status?: StatusName; limit?: number; offset?: number };
      const state = status === undefined ? JobState.UNSPECIFIED : JobState[status];
      const id = endpointId(request);
      cells
        .atEndpoint(id, ({ jobCalls }) => jobCalls.list({ endpointId: id, state, limit, offset }))
        .then((page) => sendParts(reply, services, () => requestsParts(page.jobs, page.total, offset, limit)))
        .catch((thrown: unknown) => {
          sendFailure(reply, thrown);
        });
    },
  });
}
