/** `/v2/<endpoint>/openai/*`: the OpenAI API in front of a queue endpoint. */
import { Readable } from 'node:stream';

import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { z } from 'zod';

import { CapstanError } from '../../../lib/errors.ts';
import { runsyncId } from '../../jobs/ids.ts';
import { documentOf, eventsOf } from '../../openai/answers.ts';
import { OpenAiError } from '../openai-errors.ts';
import { CallerGone, OpenAiJob, type OpenAiJobDeps } from '../../openai/job.ts';
import { openAiInput } from '../../openai/request.ts';
import { createGuard, endpointId } from '../guard.ts';
import { onResponseClosed } from '../client-disconnect.ts';
import { sendFailure, sendOpenAiError } from '../problem.ts';
import { traceOfRequest } from '../request-spans.ts';
import { takePayload } from '../request-payload.ts';
import { endpointParams, openAiErrorAnswer } from '../schemas.ts';
import { idsOf, type JobServices } from '../services.ts';

const refused = {
  400: openAiErrorAnswer.describe('The request is invalid, according to the gateway or the handler.'),
  401: openAiErrorAnswer.describe('The key is missing, unknown, revoked, or not allowed to do this.'),
  404: openAiErrorAnswer.describe('The endpoint does not exist.'),
  409: openAiErrorAnswer.describe('Several environments have an endpoint of this name; the message has the ids.'),
  413: openAiErrorAnswer.describe('The body is too large.'),
  415: openAiErrorAnswer.describe('The body is not JSON, or has a Content-Encoding.'),
  429: openAiErrorAnswer.describe('Too many requests; retry after Retry-After seconds.'),
  500: openAiErrorAnswer.describe('The handler failed, its job was cancelled, or the service had an internal error.'),
  503: openAiErrorAnswer.describe('Temporarily unavailable; retry after Retry-After seconds.'),
  504: openAiErrorAnswer.describe('The job exceeded its executionTimeout or its ttl.'),
};

const answer = z.any().meta({
  description:
    'What the handler yields, byte for byte. With `"stream": true` as server-sent events (text/event-stream) while it yields them; an error after the first event is sent as a last event `error`.',
});

/** For the OpenAPI document: the route reads its body itself. */
const passedOn = z
  .any()
  .meta({ type: 'object', additionalProperties: true, description: 'A request of the OpenAI API, passed on byte for byte.' });

export function openAiRoutes(app: FastifyInstance, services: JobServices): void {
  const { config, cells, log } = services;

  function depsOf(request: FastifyRequest): OpenAiJobDeps {
    const { channel, bodies, jobCalls } = cells.ofEndpoint(endpointId(request));
    return {
      channel,
      bodies,
      cancel: (id, jobId) => jobCalls.cancel({ endpointId: id, jobId, limitedAs: 'none' }),
      onUncancelled: (jobId, err) => {
        log.warn({ ...idsOf(request), job: jobId, err }, 'cancelling the job of a disconnected caller failed');
      },
    };
  }

  for (const [method, summary] of [
    ['GET', 'OpenAI API, reading'],
    ['POST', 'OpenAI API'],
    ['PUT', 'OpenAI API, other methods'],
    ['PATCH', 'OpenAI API, other methods'],
    ['DELETE', 'OpenAI API, other methods'],
  ] as const) {
    app.route({
      method,
      url: '/v2/:endpointId/openai/*',
      bodyLimit: config.maxRunsyncBytes,
      onRequest: createGuard(services, 'call', config.maxRunsyncBytes),
      config: { rawBodyOnly: true },
      schema: {
        summary,
        description:
          'Becomes a job with the input {"openai_route":"/v1/chat/completions","openai_input":<the body>}; openai_input is absent when there is no body. Errors have the shape of the OpenAI API.',
        tags: ['OpenAI'],
        security: [{ key: [] }],
        params: endpointParams.extend({
          '*': z.string().meta({ description: 'Path of the OpenAI API, for example v1/chat/completions.' }),
        }),
        ...(method === 'POST' ? { body: passedOn } : {}),
        response: { 200: answer, ...refused },
      },
      handler(request, reply) {
        serve(request, reply).catch((thrown: unknown) => {
          if (!(thrown instanceof CallerGone)) fail(reply, thrown);
        });
      },
    });
  }

  async function serve(request: FastifyRequest, reply: FastifyReply): Promise<void> {
    const route = `/${(request.params as { '*': string })['*']}`;
    const query = request.url.split('?')[1] ?? '';
    const input = openAiInput({ method: request.method, route, query, body: request.rawBody });
    if (input instanceof CapstanError) throw input;
    // The input holds a copy.
    request.rawBody = null;
    const { payload, held } = await takePayload(services, request, input.bytes);
    if (request.raw.socket.destroyed) {
      held?.release();
      return;
    }
    const job = new OpenAiJob(depsOf(request), {
      endpointId: endpointId(request),
      id: runsyncId(),
      input: payload,
      held,
      trace: traceOfRequest(request),
      submittedBy: request.keyId,
    });
    request.newJobId = job.id;
    reply.header('x-request-id', job.id);
    onResponseClosed(reply, () => job.stop());
    if (input.stream) {
      await sendEvents(reply, eventsOf(job));
    } else {
      const { type, body: text } = await documentOf(job);
      reply.header('content-type', type).send(text);
    }
  }

  /** Starts the response with the first text: until then an error has its own status. */
  async function sendEvents(reply: FastifyReply, events: AsyncGenerator<string, void>): Promise<void> {
    const first = await events.next();
    const texts = async function* (): AsyncGenerator<string, void> {
      try {
        for (let next = first; next.done !== true; next = await events.next()) {
          reply.request.streamedBytes += Buffer.byteLength(next.value);
          yield next.value;
        }
      } catch (thrown) {
        if (thrown instanceof CallerGone) return;
        log.error({ ...idsOf(reply.request), err: thrown }, 'streaming a response failed');
      }
    };
    reply.header('content-type', 'text/event-stream; charset=utf-8').header('x-accel-buffering', 'no');
    // The pipe waits for a slow caller, and the generator waits for the pipe.
    reply.send(Readable.from(texts(), { objectMode: false }));
  }
}

function fail(reply: FastifyReply, thrown: unknown): void {
  if (thrown instanceof OpenAiError) sendOpenAiError(reply, thrown);
  else sendFailure(reply, thrown);
}
