/** POST /run and /runsync. */
import { createHash } from 'node:crypto';

import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';

import { CapstanError } from '../../../lib/errors.ts';
import { tagsText } from '../../../lib/job-tags.ts';
import { toPayloadMessage } from '../../../lib/payload.ts';
import { JobKind, type S3Config } from '../../../proto/gen/capstan/v1/common.ts';
import type { Policy, Submit } from '../../../proto/gen/capstan/v1/jobs.ts';
import { runId, runsyncId } from '../../jobs/ids.ts';
import type { JobResult } from '../../jobs/channel.ts';
import { sendParts, sendWhole, statusName, statusParts, submittedText } from '../answer.ts';
import { createGuard, endpointId } from '../guard.ts';
import { onResponseClosed } from '../client-disconnect.ts';
import { traceOfRequest } from '../request-spans.ts';
import { sendFailure, sendProblem } from '../problem.ts';
import { takePayload, type RequestPayload } from '../request-payload.ts';
import {
  DEFAULT_WAIT_MS,
  endpointParams,
  statusResponse,
  submissionHeaders,
  submissionSchema,
  submittedResponse,
  waitQuery,
  type Submission,
} from '../schemas.ts';
import type { JobServices } from '../services.ts';
import { described } from './describe.ts';

const conflicts = {
  409: 'The Idempotency-Key was used with a different body, the job of the key has been deleted (`id` names the job), or the input would exceed the account’s quota of bodies.',
};
const EMPTY = Buffer.alloc(0);

export function submitRoutes(app: FastifyInstance, services: JobServices): void {
  const { config } = services;

  app.route({
    method: 'POST',
    url: '/v2/:endpointId/run',
    bodyLimit: config.maxRunBytes,
    onRequest: createGuard(services, 'call', config.maxRunBytes),
    schema: described(
      { summary: 'Submit a job', description: 'Responds as soon as the job is durable.' },
      submittedResponse,
      { params: endpointParams, headers: submissionHeaders, body: submissionSchema },
      conflicts,
    ),
    handler(request, reply) {
      submit(services, request, reply, { jobId: runId(), kind: JobKind.RUN, waitMs: 0 });
    },
  });

  app.route({
    method: 'POST',
    url: '/v2/:endpointId/runsync',
    bodyLimit: config.maxRunsyncBytes,
    onRequest: createGuard(services, 'call', config.maxRunsyncBytes),
    schema: described(
      {
        summary: 'Submit a job and wait for its result',
        description: 'If the wait time expires first, returns the current state of the job.',
      },
      statusResponse,
      {
        params: endpointParams,
        querystring: waitQuery,
        headers: submissionHeaders,
        body: submissionSchema,
      },
      conflicts,
    ),
    handler(request, reply) {
      const { wait = DEFAULT_WAIT_MS } = request.query as { wait?: number };
      submit(services, request, reply, { jobId: runsyncId(), kind: JobKind.RUNSYNC, waitMs: wait });
    },
  });
}

type NewJob = Pick<Submit, 'jobId' | 'kind' | 'waitMs'>;

function submit(services: JobServices, request: FastifyRequest, reply: FastifyReply, { jobId, kind, waitMs }: NewJob): void {
  const body = request.body as Submission;
  request.newJobId = jobId;
  const value: Submit = {
    jobId,
    kind,
    input: undefined,
    webhook: body.webhook ?? '',
    policy: policyOf(body.policy),
    s3Config: s3ConfigOf(body.s3Config),
    idempotencyKey: '',
    bodyHash: EMPTY,
    waitMs,
  };
  const trace = traceOfRequest(request);
  if (trace !== '') value.trace = trace;
  if (body.tags != null && body.tags.length > 0) value.tags = tagsText(body.tags);
  if (request.keyId !== '') value.submittedBy = request.keyId;
  const key = request.headers['idempotency-key'];
  if (key !== undefined) {
    if (typeof key !== 'string' || !/^[\x21-\x7e]{1,255}$/.test(key)) {
      sendProblem(
        reply,
        new CapstanError('INVALID_ARGUMENT', 'Idempotency-Key: must be 1 to 255 visible ASCII characters', { field: 'Idempotency-Key' }),
      );
      return;
    }
    value.idempotencyKey = key;
    value.bodyHash = createHash('sha256')
      .update(request.rawBody ?? EMPTY)
      .digest();
  }
  const input = takePayload(services, request, body.input.bytes);
  if (!(input instanceof Promise)) {
    send(services, reply, value, input);
    return;
  }
  input.then(
    (stored) => {
      if (!request.raw.socket.destroyed) send(services, reply, value, stored);
    },
    (thrown: unknown) => {
      sendFailure(reply, thrown);
    },
  );
}

function send(services: JobServices, reply: FastifyReply, value: Submit, { payload, held }: RequestPayload): void {
  value.input = toPayloadMessage(payload);
  const id = endpointId(reply.request);
  const { channel } = services.cells.ofEndpoint(id);
  const ticket = channel.request({ endpointId: id, operation: { $case: 'submit', value }, held }, (error, answer) => {
    if (error !== null) sendFailure(reply, error);
    else answered(services, reply, value, answer);
  });
  // A /run gets its response at once, so there is nothing to abandon. Abandoning a finished request has no effect.
  if (value.waitMs > 0) onResponseClosed(reply, () => channel.abandon(ticket));
}

function answered(services: JobServices, reply: FastifyReply, { jobId, kind }: NewJob, answer: JobResult | null): void {
  if (answer === null || !('job' in answer)) {
    sendFailure(reply, new CapstanError('INTERNAL', 'unexpected reply type from the scheduler'));
    return;
  }
  const { job } = answer;
  if (kind === JobKind.RUN && job.id === jobId) {
    // A new job is IN_QUEUE for its caller, even if a worker has already taken it.
    sendWhole(reply, services, submittedText(jobId, 'IN_QUEUE'));
    return;
  }
  // A job found by its Idempotency-Key has its current state.
  sendParts(reply, services, () => (kind === JobKind.RUN ? [submittedText(job.id, statusName(job.state))] : statusParts(job)));
}

function policyOf(policy: Submission['policy']): Policy | undefined {
  if (policy === undefined || policy === null) return undefined;
  return {
    executionTimeoutMs: policy.executionTimeout ?? undefined,
    ttlMs: policy.ttl ?? undefined,
    lowPriority: policy.lowPriority ?? false,
  };
}

function s3ConfigOf(config: Submission['s3Config']): S3Config | undefined {
  if (config === undefined || config === null) return undefined;
  // The named fields are for agents that do not support the whole object.
  const text = (name: string): string => (typeof config[name] === 'string' ? config[name] : '');
  return {
    accessId: text('accessId'),
    accessSecret: text('accessSecret'),
    bucketName: text('bucketName'),
    endpointUrl: text('endpointUrl'),
    more: '',
    json: JSON.stringify(config),
  };
}
