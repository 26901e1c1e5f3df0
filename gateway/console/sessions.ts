/** Signs in with an API key, says who is signed in, and signs out. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { z } from 'zod';

import { CapstanError } from '../../lib/errors.ts';
import { KeyScope, type SessionInfo } from '../../proto/gen/capstan/v1/control.ts';
import { keyText } from '../auth/authenticate.ts';
import type { GatewayConfig } from '../config.ts';
import type { Key } from '../directory/directory.ts';
import { callMetadata } from '../grpc/connection.ts';
import { JSON_TYPE, sendFailure } from '../http/problem.ts';
import { expectBody } from '../http/request-body.ts';
import { callOnce, callUnary } from '../jobs/unary.ts';
import { parseWhole } from '../json/body.ts';
import { peerOfRequest } from '../http/forwarded.ts';
import { consolePath, dropCookie, setCookie } from './cookie.ts';
import { CONSOLE_HEADER, isSecure } from './same-origin.ts';
import { ownOrigins, tokenOf, type ConsoleServices } from './services.ts';

const MAX_BYTES = 4096;
const NOTHING = Buffer.alloc(0);
const KEY_RULE = 'must be an API key';

const signIn = z.object({ apiKey: z.string(KEY_RULE).min(1, KEY_RULE).max(1000, KEY_RULE) }, 'must be an object with the key apiKey');

export function sessionRoutes(api: FastifyInstance, services: ConsoleServices): void {
  const { authenticator, cells, config, proxies } = services;

  /** The scheduler of a key, and the metadata of calls to it in the name of `text`. */
  function schedulerOf(key: Key, text: string, request: FastifyRequest) {
    const { control, name, token } = cells.ofKey(key);
    const origin = { address: peerOfRequest(request.raw, proxies), gatewayToken: token };
    return { control, metadata: callMetadata(text, true, name, origin) };
  }

  async function create(request: FastifyRequest, reply: FastifyReply): Promise<void> {
    const path = consolePath(String(request.headers[CONSOLE_HEADER]));
    const header = `Bearer ${(request.body as z.output<typeof signIn>).apiKey}`;
    const key = await authenticator.authenticate(header, peerOfRequest(request.raw, proxies));
    if (key.hash.length === 0) throw new CapstanError('UNAUTHENTICATED', "apiKey: must be an API key, not a worker's token");
    const { control, metadata } = schedulerOf(key, keyText(header), request);
    const { token, session } = await callOnce(control.createSession.bind(control), {}, metadata, config.readTimeoutMs);
    reply.header('set-cookie', setCookie(token, path, isSecure(ownOrigins(request, services)[0])));
    send(reply, session, config);
  }

  async function read(request: FastifyRequest, reply: FastifyReply): Promise<void> {
    const token = tokenOf(request, services);
    const { control, metadata } = schedulerOf(await authenticator.session(token, peerOfRequest(request.raw, proxies)), token, request);
    send(reply, await callUnary(control.getSession.bind(control), {}, metadata, config.readTimeoutMs), config);
  }

  async function end(request: FastifyRequest, reply: FastifyReply): Promise<void> {
    const path = consolePath(String(request.headers[CONSOLE_HEADER]));
    const token = tokenOf(request, services);
    const { control, metadata } = schedulerOf(await authenticator.session(token, peerOfRequest(request.raw, proxies)), token, request);
    await callUnary(control.endSession.bind(control), {}, metadata, config.readTimeoutMs);
    reply.header('set-cookie', dropCookie(path, isSecure(ownOrigins(request, services)[0])));
    reply.code(204).send();
  }

  const route = (method: string, answer: (request: FastifyRequest, reply: FastifyReply) => Promise<void>) => ({
    method,
    url: '/session',
    handler: (request: FastifyRequest, reply: FastifyReply): void => {
      answer(request, reply).catch((thrown: unknown) => sendFailure(reply, thrown));
    },
  });
  api.route(route('GET', read));
  api.route(route('DELETE', end));
  api.route({
    ...route('POST', create),
    bodyLimit: MAX_BYTES,
    config: { rawBodyOnly: true },
    schema: { body: signIn },
    onRequest(request, reply, done) {
      expectBody(request, reply, peerOfRequest(request.raw, proxies), services);
      done();
    },
    preValidation(request, _reply, done) {
      request.body = parseWhole(request.rawBody ?? NOTHING);
      done();
    },
  });
}

function send(reply: FastifyReply, session: SessionInfo | undefined, config: GatewayConfig): void {
  if (session === undefined) throw new CapstanError('INTERNAL', 'the scheduler returned no session');
  const { accountId, scope, keyId, keyName } = session;
  const shown = {
    account: { id: accountId },
    scope: scope.replace(/^KEY_SCOPE_/, ''),
    keyId,
    keyName,
    isOperator: scope === KeyScope.OPERATOR,
    hidePayloads: config.hidePayloads === 'on',
  };
  reply.header('content-type', JSON_TYPE).send(JSON.stringify(shown));
}
