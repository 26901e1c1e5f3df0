/** Tracing by OpenTelemetry's SDK. Spans wait in a bounded queue for a receiver that is slow; beyond it they are dropped. */
import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';

import {
  createTraceState,
  diag,
  DiagLogLevel,
  ROOT_CONTEXT,
  SpanKind as OtelKind,
  SpanStatusCode,
  trace as api,
  type Context,
  type Span as OtelSpan,
  type SpanContext,
  type Tracer,
} from '@opentelemetry/api';
import { resourceFromAttributes } from '@opentelemetry/resources';
import {
  AlwaysOffSampler,
  AlwaysOnSampler,
  BatchSpanProcessor,
  ParentBasedSampler,
  RandomIdGenerator,
  SamplingDecision,
  TraceIdRatioBasedSampler,
  TracerProvider,
  type IdGenerator,
  type Sampler,
  type SpanExporter,
} from '@opentelemetry/sdk-trace';

import { isUnsampled, traceBelow, traceHeaders, traceParent } from '../trace-context.ts';
import { exportFailure } from './export-failure.ts';
import { otlpExport } from './otlp-protocol.ts';
import { resourceAttributes } from './resource.ts';
import { telemetryEnvironment, type TelemetrySettings } from './settings.ts';
import {
  NO_SPAN,
  NotRecorded,
  type Attributes,
  type Span,
  type SpanKind,
  type SpanStart,
  type TracedPart,
  type Tracing,
} from './tracing.ts';

const KINDS: Readonly<Record<SpanKind, OtelKind>> = {
  server: OtelKind.SERVER,
  client: OtelKind.CLIENT,
  consumer: OtelKind.CONSUMER,
  internal: OtelKind.INTERNAL,
};
/** Time for the last spans when a part closes, ms. */
const CLOSE_MS = 3_000;
/** Interval of warnings about a receiver that does not take spans, ms. */
const WARN_MS = 60_000;
/** Longest text of an attribute, characters: user code writes some of them. */
const MAX_TEXT = 1_024;

export class RecordedTracing implements Tracing {
  readonly isOn = true;
  readonly #provider: TracerProvider;
  readonly #tracer: Tracer;
  readonly #roots: RootTraces;
  /** Whether what an unrecorded span causes is unrecorded, too. */
  readonly #followsParent: boolean;

  constructor(settings: TelemetrySettings, exporter: SpanExporter, { name, version, warn }: TracedPart) {
    const warnings = new ExportWarnings(warn);
    warnings.listen();
    const sampler = samplerOf(settings);
    this.#roots = new RootTraces(sampler);
    const source = { part: name, version, instanceId: randomUUID(), hostName: hostname() };
    this.#provider = new TracerProvider({
      resource: resourceFromAttributes(resourceAttributes(source, telemetryEnvironment(settings))),
      sampler,
      idGenerator: this.#roots,
      spanLimits: { attributeValueLengthLimit: MAX_TEXT },
      spanProcessors: [new BatchSpanProcessor({ exporter: warnings.of(exporter, isGrpc(settings)) })],
    });
    this.#tracer = this.#provider.getTracer('capstan', version);
    this.#followsParent = settings.tracesSampler.startsWith('parentbased_');
  }

  start(name: string, { kind, parent, startMs, attributes = {} }: SpanStart): Span {
    // A trace that begins here and is not recorded ends here: what it causes costs nothing.
    if (parent === '' && !this.#roots.draw()) return NO_SPAN;
    // It needs no id of its own.
    if (this.#followsParent && isUnsampled(parent)) return new NotRecorded(parent);
    const options = { kind: KINDS[kind], attributes: wellFormed(attributes), ...(startMs === undefined ? {} : { startTime: startMs }) };
    const span = this.#tracer.startSpan(name, options, parent === '' ? ROOT_CONTEXT : contextOf(parent));
    const { traceId, spanId, traceFlags } = span.spanContext();
    const trace = traceBelow(parent, { traceId, spanId, flags: traceFlags });
    return span.isRecording() ? new Recorded(span, trace) : new NotRecorded(trace);
  }

  async close(): Promise<void> {
    const late = new Promise<void>((resolve) => setTimeout(resolve, CLOSE_MS).unref());
    // A receiver that is away has been warned of.
    await Promise.race([this.#provider.shutdown().catch(() => undefined), late]);
  }
}

/**
 * The ids of traces that begin here. Whether one is recorded follows from its id, and is decided before anything of a span is made:
 * most are not.
 */
class RootTraces implements IdGenerator {
  readonly #sampler: Sampler;
  readonly #random = new RandomIdGenerator();
  #drawn: string | undefined;

  constructor(sampler: Sampler) {
    this.#sampler = sampler;
  }

  /** Draws the id of the next trace; returns whether it is recorded. */
  draw(): boolean {
    const traceId = this.#random.generateTraceId();
    const { decision } = this.#sampler.shouldSample(ROOT_CONTEXT, traceId, '', OtelKind.INTERNAL, {}, []);
    if (decision !== SamplingDecision.RECORD_AND_SAMPLED) return false;
    this.#drawn = traceId;
    return true;
  }

  generateTraceId(): string {
    const traceId = this.#drawn ?? this.#random.generateTraceId();
    this.#drawn = undefined;
    return traceId;
  }

  generateSpanId(): string {
    return this.#random.generateSpanId();
  }
}

class Recorded implements Span {
  readonly isRecorded = true;
  readonly trace: string;
  readonly #span: OtelSpan;

  constructor(span: OtelSpan, trace: string) {
    this.#span = span;
    this.trace = trace;
  }

  rename(name: string): void {
    this.#span.updateName(name);
  }

  set(attributes: Attributes): void {
    this.#span.setAttributes(wellFormed(attributes));
  }

  event(name: string, atMs: number): void {
    this.#span.addEvent(name, {}, atMs);
  }

  fail(message: string): void {
    this.#span.setStatus({ code: SpanStatusCode.ERROR, message: cut(message) });
  }

  end(atMs?: number): void {
    if (this.#span.isRecording()) this.#span.end(atMs);
  }
}

/** Receivers refuse a whole batch for text that is no valid Unicode, and user code writes some of it. */
function cut(text: string): string {
  return text.slice(0, MAX_TEXT).toWellFormed();
}

function wellFormed(attributes: Attributes): Attributes {
  return Object.fromEntries(Object.entries(attributes).map(([name, value]) => [name, typeof value === 'string' ? cut(value) : value]));
}

function contextOf(parent: string): Context {
  const { traceId, spanId, flags } = traceParent(parent);
  const { tracestate } = traceHeaders(parent);
  const remote: SpanContext = {
    traceId,
    spanId,
    traceFlags: flags,
    isRemote: true,
    ...(tracestate === undefined ? {} : { traceState: createTraceState(tracestate) }),
  };
  return api.setSpanContext(ROOT_CONTEXT, remote);
}

function samplerOf({ tracesSampler, tracesSamplerArg }: TelemetrySettings): Sampler {
  const root = (kind: string): Sampler => {
    if (kind === 'always_off') return new AlwaysOffSampler();
    return kind === 'always_on' ? new AlwaysOnSampler() : new TraceIdRatioBasedSampler(tracesSamplerArg);
  };
  const [, ofRoot] = /^parentbased_(.*)$/.exec(tracesSampler) ?? [];
  return ofRoot === undefined ? root(tracesSampler) : new ParentBasedSampler({ root: root(ofRoot) });
}

/** Warns of batches that were not accepted, once a minute. */
class ExportWarnings {
  readonly #warn: TracedPart['warn'];
  #next = 0;

  constructor(warn: TracedPart['warn']) {
    this.#warn = warn;
  }

  /** The exporter, watched. */
  of(exporter: SpanExporter, overGrpc: boolean): SpanExporter {
    return {
      export: (spans, done) =>
        exporter.export(spans, (result) => {
          // ExportResultCode.SUCCESS is 0.
          if (result.code !== 0) this.#report(exportFailure(result.error, overGrpc));
          done(result);
        }),
      forceFlush: async () => exporter.forceFlush?.(),
      shutdown: () => exporter.shutdown(),
    };
  }

  /** The libraries report what they drop themselves, too. Their messages may hold what the receiver wrote. */
  listen(): void {
    const report = (): void => this.#report('the library dropped them');
    const ignore = (): void => undefined;
    diag.setLogger(
      { error: report, warn: report, info: ignore, debug: ignore, verbose: ignore },
      { logLevel: DiagLogLevel.WARN, suppressOverrideMessage: true },
    );
  }

  #report(reason: string): void {
    const now = performance.now();
    if (now < this.#next) return;
    this.#next = now + WARN_MS;
    this.#warn({ reason }, 'spans were not exported');
  }
}

function isGrpc(settings: TelemetrySettings): boolean {
  return otlpExport('TRACES', telemetryEnvironment(settings))?.protocol === 'grpc';
}
