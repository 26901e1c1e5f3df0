/** Counts and times every request, whatever becomes of it. */
import type { FastifyInstance } from 'fastify';

import type { GatewayMetrics } from '../metrics/metrics.ts';
import { onResponseClosed } from './client-disconnect.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** Bytes of the body, once it was read. */
    bodyBytes: number;
    /** Bytes of an answer whose length is not known before. */
    streamedBytes: number;
  }
}

/** As nginx has it: the caller went away before there was an answer. */
const CALLER_GONE = 499;

/** To be added before every other hook. */
export function measure(app: FastifyInstance, metrics: GatewayMetrics): void {
  app.decorateRequest('bodyBytes', 0);
  app.decorateRequest('streamedBytes', 0);
  app.addHook('onRequest', (request, reply, done) => {
    const begun = performance.now();
    metrics.inFlight += 1;
    onResponseClosed(reply, () => {
      metrics.inFlight -= 1;
      const { raw } = reply;
      const status = raw.headersSent ? raw.statusCode : CALLER_GONE;
      const sent = request.method === 'HEAD' ? 0 : Number(reply.getHeader('content-length') ?? request.streamedBytes);
      metrics.answered({
        method: request.method,
        route: request.routeOptions.url,
        status,
        ms: performance.now() - begun,
        requestBytes: request.bodyBytes,
        responseBytes: sent,
      });
    });
    done();
  });
}
