/** Counts and times every request, whatever its outcome. */
import type { FastifyInstance } from 'fastify';

import type { GatewayMetrics } from '../metrics/metrics.ts';
import { sampledTraceId } from '../../lib/trace-context.ts';
import { onResponseClosed } from './client-disconnect.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** Bytes of the body, once it was read. */
    bodyBytes: number;
    /** Bytes of a response whose length is not known in advance. */
    streamedBytes: number;
  }
}

/** As in nginx: the caller disconnected before the response. */
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
        traceId: sampledTraceId(request.span?.trace ?? ''),
      });
    });
    done();
  });
}
