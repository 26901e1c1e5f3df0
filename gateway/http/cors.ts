/** Cross-origin calls, for origins the operator named. Off by default: a key inside a web page is a key given away. */
import type { FastifyInstance, FastifyRequest } from 'fastify';

import type { AllowedMethods } from './methods.ts';
import { CURSOR_HEADER } from './schemas.ts';

const MAX_AGE_S = '600';

export function cors(app: FastifyInstance, origins: readonly string[], methods: AllowedMethods): void {
  const all = origins.includes('*');

  function allowed(request: FastifyRequest): string | null {
    const { origin } = request.headers;
    if (origin === undefined) return null;
    if (all) return '*';
    return origins.includes(origin) ? origin : null;
  }

  app.addHook('onSend', (request, reply, _payload, done) => {
    const origin = allowed(request);
    if (!all) reply.header('vary', 'Origin');
    if (origin !== null) {
      reply.header('access-control-allow-origin', origin).header('access-control-expose-headers', `Retry-After, ${CURSOR_HEADER}`);
      if (request.method === 'OPTIONS' && request.headers['access-control-request-method'] !== undefined) {
        reply
          .header('access-control-allow-methods', methods.of(request.url) ?? 'GET')
          .header('access-control-allow-headers', 'Authorization, Content-Type, Idempotency-Key')
          .header('access-control-max-age', MAX_AGE_S);
      }
    }
    done();
  });
}
