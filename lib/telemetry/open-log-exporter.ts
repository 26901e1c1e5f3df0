/**
 * Opens the exporter of log records: one library for each protocol, loaded only when it is used. The exporters read headers, time-out,
 * compression and certificates, and the address where none is given, from the variables OTEL_* of the thread's environment.
 */
import type { Agent } from 'node:http';

import type { LogRecordExporter } from '@opentelemetry/sdk-logs';

import { assertNever } from '../errors.ts';
import type { OtlpProtocol } from './otlp-protocol.ts';

export interface LogExporterOptions {
  readonly url?: string;
  /** Makes what holds the connections of the exporters over HTTP. */
  readonly httpAgentOptions?: (protocol: string) => Promise<Agent>;
}

export async function openLogExporter(
  protocol: OtlpProtocol,
  { url, httpAgentOptions }: LogExporterOptions = {},
): Promise<LogRecordExporter> {
  const address = url === undefined ? {} : { url };
  const connections = httpAgentOptions === undefined ? {} : { httpAgentOptions };
  switch (protocol) {
    case 'http/protobuf':
      return new (await import('@opentelemetry/exporter-logs-otlp-proto')).OTLPLogExporter({ ...address, ...connections });
    case 'http/json':
      return new (await import('@opentelemetry/exporter-logs-otlp-http')).OTLPLogExporter({ ...address, ...connections });
    case 'grpc':
      return new (await import('@opentelemetry/exporter-logs-otlp-grpc')).OTLPLogExporter(address);
    default:
      return assertNever(protocol);
  }
}
