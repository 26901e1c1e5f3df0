/**
 * Spans of the parts. Without an endpoint for traces nothing of OpenTelemetry is loaded: a span then only passes its parent on, so that
 * handlers see the context of their caller.
 */
import { openExporter } from './open-exporter.ts';
import type { TelemetrySettings } from './settings.ts';

export type Attributes = Readonly<Record<string, string | number | boolean>>;

/** `server` receives a request, `client` sends one, `consumer` processes a job; `internal` is a step within a part. */
export type SpanKind = 'server' | 'client' | 'consumer' | 'internal';

export interface SpanStart {
  readonly kind: SpanKind;
  /** Context of the parent (trace-context.ts); empty: the span begins a trace. */
  readonly parent: string;
  /** Wall clock, ms since 1970; now without it. */
  readonly startMs?: number;
  readonly attributes?: Attributes;
}

export interface Span {
  /** Context for what happens within the span; empty when tracing is off and there is no parent. */
  readonly trace: string;
  /** Whether anybody will see what is set. */
  readonly isRecorded: boolean;
  rename(name: string): void;
  set(attributes: Attributes): void;
  event(name: string, atMs: number): void;
  /** Marks the span as failed. */
  fail(message: string): void;
  /** Wall clock, ms since 1970; now without it. Only the first call counts. */
  end(atMs?: number): void;
}

export interface Tracing {
  readonly isOn: boolean;
  start(name: string, span: SpanStart): Span;
  /** Sends what is left, within a few seconds. */
  close(): Promise<void>;
}

class NotRecorded implements Span {
  readonly isRecorded = false;
  readonly trace: string;

  constructor(trace: string) {
    this.trace = trace;
  }

  rename(): void {
    // Nobody will see it.
  }

  set(): void {
    // Nobody will see it.
  }

  event(): void {
    // Nobody will see it.
  }

  fail(): void {
    // Nobody will see it.
  }

  end(): void {
    // Nobody will see it.
  }
}

/** Nobody records it, and it is part of no trace. */
export const NO_SPAN: Span = new NotRecorded('');

export const TRACING_OFF: Tracing = {
  isOn: false,
  start: (_name, { parent }) => (parent === '' ? NO_SPAN : new NotRecorded(parent)),
  close: () => Promise.resolve(),
};

/** The part that traces. */
export interface TracedPart {
  /** `gateway`: the service is `capstan-gateway` unless OTEL_SERVICE_NAME says otherwise. */
  readonly name: string;
  readonly version: string;
  readonly warn: (fields: object, message: string) => void;
}

/**
 * Opens tracing as the settings say; {@link TRACING_OFF} without an endpoint for traces.
 * @throws CapstanError CONFIG, which names the variable.
 */
export async function openTracing(settings: TelemetrySettings, part: TracedPart): Promise<Tracing> {
  const exporter = await openExporter(settings);
  if (exporter === undefined) return TRACING_OFF;
  const { RecordedTracing } = await import('./recorded-tracing.ts');
  return new RecordedTracing(settings, exporter, part);
}

export { NotRecorded };
