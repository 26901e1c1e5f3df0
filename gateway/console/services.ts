/** What the routes of the console use. */
import type { FastifyRequest } from 'fastify';

import { CapstanError } from '../../lib/errors.ts';
import type { Authenticator } from '../auth/authenticate.ts';
import type { Services } from '../http/services.ts';
import type { LoadBalancer } from '../lb/load-balancer.ts';
import { originOf, type Origin } from '../http/forwarded.ts';
import { sessionToken } from './cookie.ts';
import { isSecure } from './same-origin.ts';

/** Services whose authenticator knows sessions, and that send requests to endpoints. */
export type ConsoleServices = Services & { readonly authenticator: Authenticator; readonly loadBalancer: LoadBalancer };

/** The token of the request's session. @throws CapstanError UNAUTHENTICATED */
export function tokenOf(request: FastifyRequest, services: Services): string {
  const token = sessionToken(request.headers.cookie, isSecure(ownOrigins(request, services)[0]));
  if (token === undefined || token === '') throw new CapstanError('UNAUTHENTICATED', 'sign in first');
  return token;
}

/** Where the operator says that the gateway is, and where it was called. */
export function ownOrigins({ raw }: FastifyRequest, { config, proxies }: Services): readonly [Origin, ...Origin[]] {
  const called = originOf(raw, proxies);
  if (config.publicUrl === '') return [called];
  const { protocol, host } = new URL(config.publicUrl);
  return [{ scheme: protocol === 'https:' ? 'https' : 'http', authority: host }, called];
}
