/** GET /v2/<endpoint>/jobs/<job>/input and …/output: the documents of a job by themselves, of any size. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { z } from 'zod';

import { CapstanError } from '../../../lib/errors.ts';
import { fromPayloadMessage } from '../../../lib/payload.ts';
import { keyText } from '../../auth/authenticate.ts';
import { noEndpoint } from '../../directory/permission.ts';
import { ControlCalls } from '../../graphql/control-calls.ts';
import { peerOfRequest } from '../forwarded.ts';
import { sendParts } from '../answer.ts';
import { endpointId } from '../guard.ts';
import { sendFailure } from '../problem.ts';
import { jobParams } from '../schemas.ts';
import type { Services } from '../services.ts';
import { described } from './describe.ts';

const document = z.unknown().meta({ description: 'The document as it was sent.' });

export function payloadRoutes(app: FastifyInstance, services: Services): void {
  const { authenticator, cells, config, keyRates, lookup } = services;

  async function answer(request: FastifyRequest, reply: FastifyReply, name: 'input' | 'output'): Promise<void> {
    const { authorization } = request.headers;
    const key = await authenticator.authenticate(authorization, peerOfRequest(request.raw, services.proxies));
    await keyRates.take(key, authorization, services.now());
    const id = endpointId(request);
    const endpoint = await lookup.endpointOf(key, id);
    if (endpoint === undefined || endpoint.accountId !== key.accountId) throw noEndpoint(id);
    const calls = new ControlCalls({
      cells,
      key,
      text: keyText(authorization),
      cellOfAccount: (account) => lookup.cellOfAccount(account),
      keyElsewhere: ({ hash, cell, accountId }) =>
        hash.length === 0 ? Promise.resolve(undefined) : lookup.keyElsewhere(hash.toString('hex'), cell, accountId),
      timeoutMs: config.readTimeoutMs,
    });
    const { jobId } = request.params as { jobId: string };
    // The scheduler checks what the key may see.
    const detail = await calls.own((control) => control.getJob, { endpointId: endpoint.id, jobId });
    const payload = fromPayloadMessage(name === 'input' ? detail.input : detail.job?.output);
    if (payload === undefined)
      throw new CapstanError('NOT_FOUND', `job ${jobId} has no ${name}, or it is no longer kept`, { field: 'jobId' });
    reply.header('content-disposition', `attachment; filename="${jobId}-${name}.json"`);
    sendParts(reply, services, () => [payload]);
  }

  for (const name of ['input', 'output'] as const)
    app.route({
      method: 'GET',
      url: `/v2/:endpointId/jobs/:jobId/${name}`,
      schema: described({ summary: `The ${name} of a job`, description: `Returns the ${name} alone, while it is kept.` }, document, {
        params: jobParams,
      }),
      handler(request, reply) {
        answer(request, reply, name).catch((thrown: unknown) => sendFailure(reply, thrown));
      },
    });
}
