/** Opens the exporter of spans: one library for each protocol, loaded only when it is used. */
import type { SpanExporter } from '@opentelemetry/sdk-trace';

import { assertNever } from '../errors.ts';
import type { TelemetrySettings } from './settings.ts';

/** Undefined when tracing is off. */
export async function openExporter(settings: TelemetrySettings): Promise<SpanExporter | undefined> {
  const { otlpEndpoint, otlpTracesEndpoint, otelDisabled, tracesExporter } = settings;
  const base = otlpTracesEndpoint ?? otlpEndpoint;
  if (base === undefined || otelDisabled === 'true' || tracesExporter === 'none') return undefined;
  const protocol = settings.otlpTracesProtocol ?? settings.otlpProtocol ?? 'http/protobuf';
  // An endpoint for all signals is the base of the paths of each; one for traces is used as it is.
  const url = otlpTracesEndpoint ?? `${base.replace(/\/+$/, '')}/v1/traces`;
  switch (protocol) {
    case 'http/protobuf':
      return new (await import('@opentelemetry/exporter-trace-otlp-proto')).OTLPTraceExporter({ url });
    case 'http/json':
      return new (await import('@opentelemetry/exporter-trace-otlp-http')).OTLPTraceExporter({ url });
    case 'grpc':
      return new (await import('@opentelemetry/exporter-trace-otlp-grpc')).OTLPTraceExporter({ url: base });
    default:
      return assertNever(protocol);
  }
}
