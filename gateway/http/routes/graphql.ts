/** POST /graphql: the control plane (docs/api-control-plane.md, GraphQL). */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { z } from 'zod';

import { CapstanError, errorTable, retryAfterS } from '../../../lib/errors.ts';
import { KeyScope } from '../../../proto/gen/capstan/v1/control.ts';
import { isWorkerToken, keyText } from '../../auth/authenticate.ts';
import { BuildContents } from '../../blobs/build-contents.ts';
import { BuildUploads } from '../../blobs/builds.ts';
import { parseWhole } from '../../json/body.ts';
import type { Key } from '../../directory/directory.ts';
import { ownsAccount } from '../../directory/permission.ts';
import { digestIn } from '../../graphql/build-difference.ts';
import { ControlCalls } from '../../graphql/control-calls.ts';
import { refusalOf } from '../../graphql/errors.ts';
import type { RootDeps } from '../../graphql/root.ts';
import type { GraphqlRunner } from '../../graphql/run.ts';
import { callMetadata } from '../../grpc/connection.ts';
import { peerOfRequest } from '../forwarded.ts';
import { baseUrl } from '../base-url.ts';
import { nameOfKey } from '../key-rates.ts';
import { closeAfterTimeout, JSON_TYPE, toCapstanError } from '../problem.ts';
import { expectBody } from '../request-body.ts';
import type { Services } from '../services.ts';

const MAX_BYTES = 1024 * 1024;
const NOTHING = Buffer.alloc(0);

const requestBody = z.object(
  {
    query: z.string('must be a GraphQL query').min(1, 'must be a GraphQL query'),
    operationName: z.string('must be a string').nullish(),
    variables: z.record(z.string(), z.unknown(), 'must be an object').nullish(),
  },
  'must be an object with the key query',
);

const answerBody = z.looseObject({
  data: z.looseObject({}).nullish(),
  errors: z
    .array(z.looseObject({ message: z.string(), extensions: z.looseObject({ code: z.string(), status: z.number(), hint: z.string() }) }))
    .optional(),
});

export function graphqlRoutes(app: FastifyInstance, services: Services): void {
  const { authenticator, cells, cluster, config, keyRates, proxies, lookup, log, now, turns } = services;
  const contents = new BuildContents();
  let runner: Promise<GraphqlRunner> | undefined;
  const keys = new WeakMap<FastifyRequest, Key>();

  /** Runs before the body is read: checks the key and its rate. */
  async function admit(request: FastifyRequest, reply: FastifyReply): Promise<void> {
    const key = await authenticator.authenticate(request.headers.authorization, peerOfRequest(request.raw, services.proxies));
    keys.set(request, key);
    await keyRates.take(key, request.headers.authorization, now());
    expectBody(request, reply, key.accountId, services);
  }

  async function answer(request: FastifyRequest, reply: FastifyReply): Promise<void> {
    const text = keyText(request.headers.authorization);
    const key = keys.get(request);
    if (key === undefined) throw new CapstanError('INTERNAL', 'the key of a GraphQL request was not kept');
    // Loading the library takes a tenth of the gateway's start-up: it is loaded by the first query.
    runner ??= import('../../graphql/run.ts').then(({ GraphqlRunner: Runner }) => new Runner(log));
    const loaded = await runner;
    const deps: RootDeps = {
      calls: new ControlCalls({
        cells,
        key,
        text,
        cellOfAccount: (account) => lookup.cellOfAccount(account),
        keyElsewhere: ({ hash, cell, accountId }) =>
          hash.length === 0 ? Promise.resolve(undefined) : lookup.keyElsewhere(hash.toString('hex'), cell, accountId),
        timeoutMs: config.readTimeoutMs,
        address: peerOfRequest(request.raw, proxies),
      }),
      addresses: { base: baseUrl(request, config, proxies), lbDomain: config.lbDomain, forWorker: isWorkerToken(text) },
      contentsOf: async (argument, digest) => {
        if (!ownsAccount(key))
          throw new CapstanError('PERMISSION_DENIED', 'this key is not permitted to read builds; that requires the scope ALL or OPERATOR');
        const { name, blobs } = cells.ofKey(key);
        return contents.of(digestIn(argument, digest), new BuildUploads(blobs, config.readTimeoutMs), callMetadata(text, true, name));
      },
      isOperator: key.scope === KeyScope.OPERATOR,
      draining: services.draining,
      cluster: () => cluster.list(config.readTimeoutMs),
    };
    const { status, body } = await turns.run({ key: nameOfKey(key, request.headers.authorization), account: key.accountId }, () =>
      loaded.run(request.body as z.output<typeof requestBody>, deps),
    );
    reply.code(status).header('content-type', JSON_TYPE).send(JSON.stringify(body));
  }

  app.route({
    method: 'POST',
    url: '/graphql',
    bodyLimit: MAX_BYTES,
    config: { rawBodyOnly: true },
    schema: {
      summary: 'The control plane',
      description: 'Environments, builds, endpoints, keys. The GraphQL schema is available by introspection.',
      tags: ['Control'],
      security: [{ key: [] }],
      body: requestBody,
      response: {
        200: answerBody,
        400: answerBody.describe('The body or the query is invalid, or the query is too large.'),
        401: answerBody.describe('The key is missing, unknown or revoked.'),
        413: answerBody.describe('The body is too large.'),
        429: answerBody.describe('Too many requests; retry after Retry-After seconds.'),
        500: answerBody.describe('An internal error.'),
        503: answerBody.describe('Temporarily unavailable; retry after Retry-After seconds.'),
      },
    },
    onRequest(request, reply, done) {
      admit(request, reply).then(
        () => done(),
        (thrown: unknown) => sendGraphqlError(reply, toCapstanError(thrown)),
      );
    },
    preValidation(request, _reply, done) {
      // The parser of the queue API keeps inputs as bytes; GraphQL needs the values. An error is reported by the
      // validation.
      request.body = parseWhole(request.rawBody ?? NOTHING);
      done();
    },
    errorHandler(thrown, _request, reply) {
      let error = toCapstanError(thrown);
      if (error.code === 'PAYLOAD_TOO_LARGE')
        error = new CapstanError('PAYLOAD_TOO_LARGE', `body: exceeded max body size of ${MAX_BYTES} bytes`, { field: 'body' });
      if (error.code === 'INTERNAL') log.error({ err: error.cause ?? error }, 'a GraphQL request failed');
      sendGraphqlError(reply, error);
    },
    handler(request, reply) {
      answer(request, reply).catch((thrown: unknown) => {
        reply.send(thrown);
      });
    },
  });
}

/** Errors of a whole request have the HTTP status of their code, and the shape of GraphQL. */
function sendGraphqlError(reply: FastifyReply, error: CapstanError): void {
  if (reply.sent) return;
  const { http } = errorTable[error.code];
  closeAfterTimeout(reply, http);
  if (http === 401) reply.header('www-authenticate', 'Bearer');
  const retryAfter = retryAfterS(error);
  if (retryAfter !== null) reply.header('retry-after', String(retryAfter));
  reply
    .code(http)
    .header('content-type', JSON_TYPE)
    .send(JSON.stringify({ errors: [refusalOf(error)] }));
}
