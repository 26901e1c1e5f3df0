/** Spans of what this agent runs: attempts of jobs, and HTTP requests. */
import type { Span, Tracing } from '../../lib/telemetry/tracing.ts';
import { traceHeaders, traceOf } from '../../lib/trace-context.ts';
import type { Dispatch } from '../../proto/gen/capstan/v1/nodes.ts';
import type { HttpEvents, HttpRequest, TaskResult } from '../runtimes/runtime.ts';

export interface TracedRequest {
  readonly request: HttpRequest;
  readonly events: HttpEvents;
}

export class AttemptSpans {
  readonly #tracing: Tracing;
  readonly #open = new Map<string, Span>();

  constructor(tracing: Tracing) {
    this.#tracing = tracing;
  }

  /** An attempt begins; returns the trace context for its handler. */
  started(key: string, dispatch: Dispatch, endpointId: string): string {
    const { trace = '', jobId, workerId, attempt } = dispatch;
    if (!this.#tracing.isOn || trace === '') return trace;
    const span = this.#tracing.start('execute job', {
      kind: 'consumer',
      parent: trace,
      attributes: {
        'capstan.job.id': jobId,
        'capstan.endpoint.id': endpointId,
        'capstan.worker.id': workerId,
        'capstan.attempt': attempt,
      },
    });
    if (span.isRecorded) this.#open.set(key, span);
    return span.trace;
  }

  /** The handler has ended. */
  ended(key: string, result: TaskResult): void {
    const span = this.#take(key);
    if (span === undefined) return;
    if (result.kind === 'failed') span.fail(result.error);
    if (result.kind === 'stopped') span.fail('stopped');
    span.set({ 'capstan.execution.ms': Math.round(result.ms) });
    span.end();
  }

  /** Nothing is known of the attempt any more: its worker was lost, or its end was recorded. */
  forgotten(key: string): void {
    const span = this.#take(key);
    span?.fail('the worker was lost');
    span?.end();
  }

  /** An HTTP request for a worker: with the context for its function, and events that end its span. */
  request(workerId: string, request: HttpRequest, events: HttpEvents): TracedRequest {
    if (!this.#tracing.isOn) return { request, events };
    const header = (wanted: string): string | undefined => request.headers.find(([name]) => name === wanted)?.[1];
    const parent = traceOf(header('traceparent'), header('tracestate'));
    // A WebSocket may stay open for days.
    if (parent === '' || request.upgrade === true) return { request, events };
    const span = this.#tracing.start('handle request', {
      kind: 'consumer',
      parent,
      attributes: { 'capstan.worker.id': workerId, 'http.request.method': request.method },
    });
    const others = request.headers.filter(([name]) => name !== 'traceparent' && name !== 'tracestate');
    const own = Object.entries(traceHeaders(span.trace)).map(([name, value]): [string, string] => [name, String(value)]);
    return { request: { ...request, headers: [...others, ...own] }, events: span.isRecorded ? endingSpan(span, events) : events };
  }

  #take(key: string): Span | undefined {
    const span = this.#open.get(key);
    this.#open.delete(key);
    return span;
  }
}

function endingSpan(span: Span, events: HttpEvents): HttpEvents {
  return {
    head(status, headers, body, ended) {
      span.set({ 'http.response.status_code': status });
      if (ended) span.end();
      events.head(status, headers, body, ended);
    },
    body(bytes, ended) {
      if (ended) span.end();
      events.body(bytes, ended);
    },
    credit: (bytes) => events.credit(bytes),
    failed(...failure) {
      const [code, message] = failure;
      span.fail(`${code}: ${message}`);
      span.end();
      events.failed(...failure);
    },
  };
}
