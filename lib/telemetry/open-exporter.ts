/** Opens the exporter of spans: one library for each protocol, loaded only when it is used. */
import type { SpanExporter } from '@opentelemetry/sdk-trace';

import { assertNever } from '../errors.ts';
import { otlpExport } from './otlp-protocol.ts';
import { telemetryEnvironment, type TelemetrySettings } from './settings.ts';

/**
 * Undefined when tracing is off.
 * @throws CapstanError CONFIG, which names the variable.
 */
export async function openExporter(settings: TelemetrySettings): Promise<SpanExporter | undefined> {
  const target = otlpExport('TRACES', telemetryEnvironment(settings));
  if (target === undefined) return undefined;
  const { protocol } = target;
  const { otlpEndpoint = '', otlpTracesEndpoint } = settings;
  // An endpoint for all signals is the base of the paths of each; one for traces is used as it is.
  const url = otlpTracesEndpoint ?? (protocol === 'grpc' ? otlpEndpoint : `${otlpEndpoint.replace(/\/+$/, '')}/v1/traces`);
  switch (protocol) {
    case 'http/protobuf':
      return new (await import('@opentelemetry/exporter-trace-otlp-proto')).OTLPTraceExporter({ url });
    case 'http/json':
      return new (await import('@opentelemetry/exporter-trace-otlp-http')).OTLPTraceExporter({ url });
    case 'grpc':
      return new (await import('@opentelemetry/exporter-trace-otlp-grpc')).OTLPTraceExporter({ url });
    default:
      return assertNever(protocol);
  }
}
