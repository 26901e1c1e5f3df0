/** /cancel, /retry and /purge-queue: changing jobs. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';

import { CapstanError } from '../../../lib/errors.ts';
import type { Job, JobRef } from '../../../proto/gen/capstan/v1/jobs.ts';
import { changedText } from '../answer.ts';
import { createGuard, endpointId } from '../guard.ts';
import { JSON_TYPE, sendFailure } from '../problem.ts';
import { changedResponse, endpointParams, jobParams, purgedResponse, referenceQuery, referenceSchema, unusedBody } from '../schemas.ts';
import type { JobServices } from '../services.ts';
import { described } from './describe.ts';
import { jobIdOf } from './reference.ts';
import { MAX_REFERENCE_BYTES } from './status.ts';

export function controlRoutes(app: FastifyInstance, services: JobServices): void {
  const { cells } = services;
  const onRequest = createGuard(services, 'call', MAX_REFERENCE_BYTES);
  const common = { method: 'POST', bodyLimit: MAX_REFERENCE_BYTES, onRequest };

  async function change(request: FastifyRequest, reply: FastifyReply, call: (ref: JobRef) => Promise<Job>): Promise<void> {
    const jobId = jobIdOf(request);
    if (jobId instanceof CapstanError) throw jobId;
    const job = await call({ endpointId: endpointId(request), jobId });
    reply.header('content-type', JSON_TYPE).send(changedText(job));
  }

  const operations = [
    {
      name: 'cancel',
      summary: 'Cancel a job',
      description: 'Cancels a queued or running job. A job that has ended keeps its state, which the response shows.',
      conflict: 'The job changed meanwhile; cancel it again.',
      call: async (ref: JobRef) => cells.ofEndpoint(ref.endpointId).jobCalls.cancel(ref),
    },
    {
      name: 'retry',
      summary: 'Retry a job',
      description: 'Queues a FAILED or TIMED_OUT job again, with the same id and input. Its previous output is deleted.',
      conflict: 'The job is in a state that cannot be retried.',
      call: async (ref: JobRef) => cells.ofEndpoint(ref.endpointId).jobCalls.retry(ref),
    },
  ];
  for (const { name, summary, description, conflict, call } of operations) {
    for (const [url, params] of [
      [`/v2/:endpointId/${name}`, endpointParams],
      [`/v2/:endpointId/${name}/:jobId`, jobParams],
    ] as const) {
      app.route({
        ...common,
        url,
        schema: described(
          { summary, description },
          changedResponse,
          { params, ...(params === jobParams ? {} : { querystring: referenceQuery }), body: referenceSchema },
          { 409: conflict },
        ),
        handler(request, reply) {
          change(request, reply, call).catch((thrown: unknown) => {
            sendFailure(reply, thrown);
          });
        },
      });
    }
  }

  app.route({
    ...common,
    onRequest: createGuard(services, 'purge', MAX_REFERENCE_BYTES),
    url: '/v2/:endpointId/purge-queue',
    schema: described(
      { summary: 'Clear the queue', description: 'Cancels every queued job of the endpoint. Running jobs continue.' },
      purgedResponse,
      {
        params: endpointParams,
        body: unusedBody,
      },
    ),
    handler(request, reply) {
      const id = endpointId(request);
      cells
        .atEndpoint(id, ({ jobCalls }) => jobCalls.purgeQueue(id))
        .then(
          (removed) => {
            reply.header('content-type', JSON_TYPE).send(`{"removed":${removed},"status":"completed"}`);
          },
          (thrown: unknown) => {
            sendFailure(reply, thrown);
          },
        );
    },
  });
}
