/**
 * Cross-origin calls of the queue API, for origins that the operator listed. Off by default, because a key in a web
 * page is public.
 */
import type { FastifyInstance } from 'fastify';

import type { AllowedMethods } from './methods.ts';
import { isPreflight, Origins, preflightHeaders } from './origins.ts';
import { CURSOR_HEADER } from './schemas.ts';

const EXPOSED = `Retry-After, X-Request-Id, ${CURSOR_HEADER}`;

export function cors(app: FastifyInstance, list: readonly string[], methods: AllowedMethods): void {
  const origins = new Origins(list);
  app.addHook('onSend', ({ method, url, headers }, reply, _payload, done) => {
    reply.headers(origins.headersFor(headers, EXPOSED));
    if (origins.allows(headers.origin) && isPreflight(method, headers)) reply.headers(preflightHeaders(headers, methods.of(url) ?? 'GET'));
    done();
  });
}
