/**
 * The trace that a call continues (W3C Trace Context): of the current span of OpenTelemetry, if the program uses it; in a worker of the
 * job or request that the handler works for. The package depends on neither: both say it under well-known symbols.
 */

/** Set by workers: returns `traceparent`, and after a space `tracestate`; empty without a trace. */
const OF_WORKER = Symbol.for('capstan.trace');
/** OpenTelemetry's API: what was registered with any copy of it, and the key of the span in a context. */
const REGISTERED = Symbol.for('opentelemetry.js.api.1');
const SPAN = Symbol.for('OpenTelemetry Context Key SPAN');

interface SpanContext {
  readonly traceId: string;
  readonly spanId: string;
  readonly traceFlags: number;
  readonly traceState?: { serialize(): string };
}

interface Shared {
  readonly [OF_WORKER]?: () => string;
  readonly [REGISTERED]?: {
    readonly context?: { active(): { getValue(key: symbol): { spanContext(): SpanContext } | undefined } };
  };
}

/** Returns the headers that let a call continue the current trace; none without one. */
export function currentTraceHeaders(): Readonly<Record<string, string>> {
  const shared = globalThis as Shared;
  const span = shared[REGISTERED]?.context?.active().getValue(SPAN)?.spanContext();
  if (span !== undefined && !/^0*$/.test(span.traceId)) {
    const { traceId, spanId, traceFlags, traceState } = span;
    const state = traceState?.serialize() ?? '';
    const traceparent = `00-${traceId}-${spanId}-${traceFlags.toString(16).padStart(2, '0')}`;
    return state === '' ? { traceparent } : { traceparent, tracestate: state };
  }
  const trace = shared[OF_WORKER]?.() ?? '';
  if (trace === '') return {};
  const end = trace.indexOf(' ');
  return end < 0 ? { traceparent: trace } : { traceparent: trace.slice(0, end), tracestate: trace.slice(end + 1) };
}
