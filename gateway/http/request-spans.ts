/** The span of each request to the API, and the trace context that its jobs get. */
import type { FastifyInstance, FastifyRequest } from 'fastify';

import { NO_SPAN, type Span, type Tracing } from '../../lib/telemetry/tracing.ts';
import { traceOf } from '../../lib/trace-context.ts';
import { onResponseClosed } from './client-disconnect.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** Null when tracing is off, for requests that are not traced, and where a trace that is not recorded would begin. */
    span: Span | null;
  }
}

/** Scrapes, checks of health, and pages with what they load. */
const UNTRACED = /^\/(?:metrics|healthz|ping|docs|openapi\.json|console)(?:[/?]|$)/;
const SERVER_ERROR = 500;
/** As in nginx: the caller disconnected before the response. */
const CALLER_GONE = 499;

/** Returns the trace context for what a request causes: of its span, or its caller's when tracing is off; empty without one. */
export function traceOfRequest({ span, headers }: FastifyRequest): string {
  return span?.trace ?? traceOf(headers['traceparent'], headers['tracestate']);
}

/** Adds a span to every request of the API. To be added after the hooks that measure. */
export function traceRequests(app: FastifyInstance, tracing: Tracing): void {
  app.decorateRequest('span', null);
  if (!tracing.isOn) return;
  app.addHook('onRequest', (request, reply, done) => {
    if (!UNTRACED.test(request.url)) {
      const { method, headers, routeOptions } = request;
      const route = routeOptions.url ?? 'unknown route';
      const span = tracing.start(`${method} ${route}`, {
        kind: 'server',
        parent: traceOf(headers['traceparent'], headers['tracestate']),
        // Neither the address nor headers: they may hold secrets.
        attributes: { 'http.request.method': method, 'http.route': route },
      });
      if (span !== NO_SPAN) request.span = span;
      if (span.isRecorded) onResponseClosed(reply, () => finish(request, span, reply.raw.headersSent ? reply.raw.statusCode : CALLER_GONE));
    }
    done();
  });
}

function finish({ params, newJobId }: FastifyRequest, span: Span, status: number): void {
  const { endpointId, jobId } = (params ?? {}) as { readonly endpointId?: unknown; readonly jobId?: unknown };
  const job = newJobId ?? jobId;
  span.set({
    'http.response.status_code': status,
    ...(typeof endpointId === 'string' ? { 'capstan.endpoint.id': endpointId } : {}),
    ...(typeof job === 'string' ? { 'capstan.job.id': job } : {}),
  });
  if (status >= SERVER_ERROR) span.fail(`status ${status}`);
  span.end();
}
