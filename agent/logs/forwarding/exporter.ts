/**
 * Sends log records by OTLP. Runs in the forwarding thread, whose environment holds the agent's OTEL_* variables and nothing else: the
 * exporters read address, headers, time-out, compression and certificates from it.
 */
import type { LogRecordExporter } from '@opentelemetry/sdk-logs';

import { assertNever } from '../../../lib/errors.ts';
import type { OtlpProtocol } from '../../../lib/telemetry/otlp-protocol.ts';

export async function openExporter(protocol: OtlpProtocol): Promise<LogRecordExporter> {
  switch (protocol) {
    case 'http/protobuf':
      return new (await import('@opentelemetry/exporter-logs-otlp-proto')).OTLPLogExporter();
    case 'http/json':
      return new (await import('@opentelemetry/exporter-logs-otlp-http')).OTLPLogExporter();
    case 'grpc':
      return new (await import('@opentelemetry/exporter-logs-otlp-grpc')).OTLPLogExporter();
    default:
      return assertNever(protocol);
  }
}
