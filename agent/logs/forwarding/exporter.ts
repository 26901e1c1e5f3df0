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

/** Codes of Node and of the system, for example ECONNREFUSED. */
const CODE = /^[A-Z][A-Z\d_]{2,63}$/;

/**
 * Returns why records were not accepted, from codes alone: messages may hold what the receiver wrote, or a header that this agent
 * sent.
 */
export function reasonOf(error: unknown, protocol: OtlpProtocol): string {
  const code: unknown = typeof error === 'object' && error !== null && 'code' in error ? error.code : undefined;
  if (typeof code === 'string' && CODE.test(code)) return code;
  if (typeof code === 'number' && Number.isSafeInteger(code)) return protocol === 'grpc' ? `gRPC status ${code}` : `HTTP status ${code}`;
  return 'the receiver did not accept them';
}
