/**
 * Checks before a body is read: the key, the endpoint, the key's permission, and whether the body is acceptable. Known
 * keys and endpoints need no promise.
 */
import type { FastifyReply, FastifyRequest } from 'fastify';

import { CapstanError } from '../../lib/errors.ts';
import { EndpointKind } from '../../proto/gen/capstan/v1/common.ts';
import { refusal, type Access } from '../directory/permission.ts';
import type { Endpoint, Key } from '../directory/directory.ts';
import { peerOfRequest } from './forwarded.ts';
import { printable } from '../directory/ids.ts';
import { sendFailure, sendProblem, tooLarge } from './problem.ts';
import { bodyLimit, expectBody } from './request-body.ts';
import type { JobServices } from './services.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** Id of the caller's API key, once it is admitted; empty for a worker's token. */
    keyId: string;
  }
  interface FastifyContextConfig {
    /** The route reads its body itself. */
    rawBodyOnly?: boolean;
    /** The response is public; all other responses may hold secrets and must not be cached. */
    cacheable?: boolean;
  }
}

export type Guard = (request: FastifyRequest, reply: FastifyReply, done: () => void) => void;

/** Who asks, and for which endpoint. */
interface Asked {
  readonly key: Key;
  readonly endpoint: Endpoint | undefined;
}

/** The guard of a route: the access that it requires and its largest body. */
export function createGuard(services: JobServices, access: Access, maxBytes: number): Guard {
  const { authenticator, lookup, memory } = services;
  const limit = bodyLimit(maxBytes, memory);

  function decide(request: FastifyRequest, reply: FastifyReply, { key, endpoint }: Asked, done: () => void): void {
    const refused = refusal(key, endpointId(request), endpoint, access) ?? notAQueue(endpoint) ?? checkBody(request, limit);
    if (refused !== null) {
      sendProblem(reply, refused);
      return;
    }
    request.keyId = key.id;
    // Later code knows the endpoint by its id only.
    if (endpoint !== undefined) (request.params as { endpointId: string }).endpointId = endpoint.id;
    if (request.method !== 'GET') expectBody(request, reply, key.accountId, services);
    done();
  }

  async function authenticateUncached(request: FastifyRequest): Promise<Asked> {
    const key = await authenticator.authenticate(request.headers.authorization, peerOfRequest(request.raw, services.proxies));
    return { key, endpoint: await lookup.endpointOf(key, endpointId(request)) };
  }

  return (request, reply, done) => {
    const key = authenticator.cached(request.headers.authorization);
    const endpoint = key === undefined ? undefined : lookup.knownEndpointOf(key, endpointId(request));
    if (key !== undefined && endpoint !== undefined) {
      decide(request, reply, { key, endpoint }, done);
      return;
    }
    authenticateUncached(request).then(
      (found) => {
        decide(request, reply, found, done);
      },
      (thrown: unknown) => {
        sendFailure(reply, thrown);
      },
    );
  };
}

/** The endpoint's id; before the guard has run, the id or name that the caller sent. */
export function endpointId(request: FastifyRequest): string {
  return (request.params as { endpointId: string }).endpointId;
}

function notAQueue(endpoint: Endpoint | undefined): CapstanError | null {
  if (endpoint === undefined || endpoint.kind !== EndpointKind.LOAD_BALANCED) return null;
  return new CapstanError('NOT_FOUND', `endpoint ${printable(endpoint.id)} is load-balanced: it has no queue; call its own routes`);
}

/** Checks the headers of a body: encoding, type, length. */
export function checkBody(request: Pick<FastifyRequest, 'headers' | 'method'>, maxBytes: number): CapstanError | null {
  const { headers } = request;
  const length = headers['content-length'];
  if (length === undefined && headers['transfer-encoding'] === undefined) return null;
  // The body of a GET, or an empty one, is not read.
  if (length === '0' || request.method === 'GET') return null;
  const encoding = headers['content-encoding'];
  if (encoding !== undefined && encoding.toLowerCase() !== 'identity') {
    return unsupported('Content-Encoding', `must be absent: ${printable(encoding)} is not supported`);
  }
  const type = headers['content-type'];
  if (type !== undefined && type !== 'application/json' && !isJsonType(type)) {
    return unsupported('Content-Type', `must be application/json in UTF-8, not ${printable(type)}`);
  }
  if (length !== undefined && Number(length) > maxBytes) return tooLarge(maxBytes);
  return null;
}

function unsupported(field: string, rule: string): CapstanError {
  return new CapstanError('UNSUPPORTED_MEDIA_TYPE', `${field}: ${rule}`, { field });
}

function isJsonType(type: string): boolean {
  const [media = '', ...parameters] = type.toLowerCase().split(';');
  if (!/^\s*(application\/json|text\/json|application\/[\w.-]+\+json)\s*$/.test(media)) return false;
  for (const parameter of parameters) {
    const charset = /^\s*charset\s*=\s*"?([^"\s]*)"?\s*$/.exec(parameter)?.[1];
    if (charset !== undefined && charset !== 'utf-8' && charset !== 'utf8' && charset !== 'us-ascii') return false;
  }
  return true;
}
