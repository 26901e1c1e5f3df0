/** /status, /status-sync and /stream: reading one job. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';

import { CapstanError } from '../../../lib/errors.ts';
import type { StreamCursor, StreamPart } from '../../../proto/gen/capstan/v1/jobs.ts';
import type { Operation } from '../../jobs/channel.ts';
import { cursorAfter } from '../../jobs/stream-cursors.ts';
import { sendParts, statusParts, streamParts } from '../answer.ts';
import { createGuard, endpointId } from '../guard.ts';
import { onResponseClosed } from '../client-disconnect.ts';
import { sendFailure, sendProblem } from '../problem.ts';
import {
  CURSOR_HEADER,
  DEFAULT_STREAM_WAIT_MS,
  DEFAULT_WAIT_MS,
  endpointParams,
  idQuery,
  jobParams,
  referenceQuery,
  referenceSchema,
  statusResponse,
  streamAnswer,
  streamQuery,
  waitQuery,
} from '../schemas.ts';
import type { JobServices } from '../services.ts';
import { described } from './describe.ts';
import { jobIdOf } from './reference.ts';

/** The body of a status request is not used; it must be small. */
export const MAX_REFERENCE_BYTES = 64 * 1024;

const streamDescription =
  'Returns and consumes the unread chunks, waiting for the first one. After the end of the job, the first response has all remaining chunks and later ones have none. ' +
  `The header ${CURSOR_HEADER} contains the reader’s position, so that the next read misses nothing even if this response is lost.`;

export function statusRoutes(app: FastifyInstance, services: JobServices): void {
  const onRequest = createGuard(services, 'read', MAX_REFERENCE_BYTES);
  const common = { bodyLimit: MAX_REFERENCE_BYTES, onRequest };
  // Reading consumes the chunks for all readers.
  const onStream = createGuard(services, 'take', MAX_REFERENCE_BYTES);
  const whenPosted = { 413: 'The body is too large.', 415: 'The body is not JSON, or has a Content-Encoding.' };

  // Some clients read with POST.
  for (const method of ['GET', 'POST'] as const) {
    const refusals = method === 'POST' ? whenPosted : {};
    app.route({
      ...common,
      method,
      url: '/v2/:endpointId/status/:jobId',
      schema: described(
        { summary: 'Status of a job', description: 'Returns the current state of the job, with its output once there is one.' },
        statusResponse,
        { params: jobParams },
        refusals,
      ),
      handler(request, reply) {
        read(services, request, reply, (jobId) => ({ $case: 'get', value: { jobId, waitMs: 0 } }));
      },
    });

    app.route({
      ...common,
      method,
      url: '/v2/:endpointId/status-sync/:jobId',
      schema: described(
        { summary: 'Wait for a job', description: 'Returns when the job has ended or the wait time has expired.' },
        statusResponse,
        { params: jobParams, querystring: waitQuery },
        refusals,
      ),
      handler(request, reply) {
        const { wait = DEFAULT_WAIT_MS } = request.query as { wait?: number };
        read(services, request, reply, (jobId) => ({ $case: 'get', value: { jobId, waitMs: wait } }));
      },
    });

    const bare =
      method === 'GET'
        ? { querystring: streamQuery.extend(idQuery.shape) }
        : { querystring: streamQuery.extend(referenceQuery.shape), body: referenceSchema };
    for (const [url, shapes] of [
      ['/v2/:endpointId/stream', { params: endpointParams, ...bare }],
      ['/v2/:endpointId/stream/:jobId', { params: jobParams, querystring: streamQuery }],
    ] as const) {
      const schema = described({ summary: 'Read a job’s stream', description: streamDescription }, streamAnswer, shapes, refusals);
      app.route({ ...common, onRequest: onStream, method, url, schema, handler: stream });
    }
  }

  function stream(request: FastifyRequest, reply: FastifyReply): void {
    const { wait = DEFAULT_STREAM_WAIT_MS, after } = request.query as { wait?: number; after?: StreamCursor };
    const cursor = after === undefined ? { exact: false } : { after, exact: true };
    read(services, request, reply, (jobId) => ({ $case: 'stream', value: { jobId, waitMs: wait, ...cursor } }));
  }
}

function read(services: JobServices, request: FastifyRequest, reply: FastifyReply, ask: (jobId: string) => Operation): void {
  const jobId = jobIdOf(request);
  if (jobId instanceof CapstanError) {
    sendProblem(reply, jobId);
    return;
  }
  const operation = ask(jobId);
  const id = endpointId(request);
  const { channel } = services.cells.ofEndpoint(id);
  const ticket = channel.request({ endpointId: id, operation, held: null }, (error, answer) => {
    if (error !== null || answer === null) {
      sendFailure(reply, error ?? new CapstanError('INTERNAL', 'the scheduler sent an empty reply'));
      return;
    }
    if ('stream' in answer) {
      tellCursor(reply, answer.stream);
      const { stream } = answer;
      if (stream.chunks.length > 0)
        onResponseClosed(reply, () => {
          if (!reply.raw.writableFinished) channel.lost(operation, stream);
        });
    }
    sendParts(reply, services, () => ('job' in answer ? statusParts(answer.job) : streamParts(answer.stream)));
  });
  if (operation.value.waitMs > 0) onResponseClosed(reply, () => channel.abandon(ticket));
}

/** A reader that sends its position as `after` gets the same chunks again when a response was lost. */
function tellCursor(reply: FastifyReply, part: StreamPart): void {
  const cursor = cursorAfter(part);
  if (cursor !== undefined) reply.header(CURSOR_HEADER, `${cursor.token}.${cursor.nextIndex}`);
}
