/**
 * The standard variables of OpenTelemetry that decide whether and how a part traces. The exporters' library reads the others itself:
 * OTEL_EXPORTER_OTLP_HEADERS, _TIMEOUT, _COMPRESSION, _CERTIFICATE, _CLIENT_CERTIFICATE, _CLIENT_KEY (each also with TRACES_ after OTLP_),
 * and OTEL_BSP_*.
 */
import { z } from 'zod';

import { setting, variableOf } from '../settings.ts';
import type { Environment } from './otlp-protocol.ts';

/** What they may be is checked with the protocol (otlp-protocol.ts). */
const text = z.string().min(1).optional();

/** What OTEL_TRACES_SAMPLER may be. */
export const SAMPLERS = [
  'always_on',
  'always_off',
  'traceidratio',
  'parentbased_always_on',
  'parentbased_always_off',
  'parentbased_traceidratio',
] as const;

export const telemetrySettings = {
  otlpEndpoint: setting(
    'OTEL_EXPORTER_OTLP_ENDPOINT',
    text,
    'OTLP receiver of traces, an http or https URL (tracing.md). Tracing is off without it and without OTEL_EXPORTER_OTLP_TRACES_ENDPOINT.',
  ),
  otlpTracesEndpoint: setting(
    'OTEL_EXPORTER_OTLP_TRACES_ENDPOINT',
    text,
    'The same for traces alone, with its path; overrides OTEL_EXPORTER_OTLP_ENDPOINT.',
  ),
  otlpProtocol: setting(
    'OTEL_EXPORTER_OTLP_PROTOCOL',
    text,
    'Protocol of the receiver: http/protobuf, http/json or grpc; http/protobuf by default.',
  ),
  otlpTracesProtocol: setting(
    'OTEL_EXPORTER_OTLP_TRACES_PROTOCOL',
    text,
    'The same for traces alone; overrides OTEL_EXPORTER_OTLP_PROTOCOL.',
  ),
  tracesExporter: setting('OTEL_TRACES_EXPORTER', text, 'otlp, the default, or none, which turns tracing off.'),
  otelDisabled: setting(
    'OTEL_SDK_DISABLED',
    z.enum(['true', 'false'], 'must be true or false').default('false'),
    'true turns tracing off.',
  ),
  tracesSampler: setting(
    'OTEL_TRACES_SAMPLER',
    z.enum(SAMPLERS, `must be one of ${SAMPLERS.join(', ')}`).default('parentbased_always_on'),
    'Which traces are recorded: always_on, always_off, traceidratio, or these with parentbased_ before them, which follow the caller where it has decided.',
  ),
  tracesSamplerArg: setting(
    'OTEL_TRACES_SAMPLER_ARG',
    z.coerce
      .number<string | number>('must be a number from 0 to 1')
      .min(0, 'must be a number from 0 to 1')
      .max(1, 'must be a number from 0 to 1')
      .default(1),
    'Share of traces that the samplers traceidratio and parentbased_traceidratio record, 0 to 1.',
  ),
  otelServiceName: setting(
    'OTEL_SERVICE_NAME',
    z.string().min(1).max(255).optional(),
    'Attribute service.name of spans; capstan-scheduler, capstan-gateway and capstan-agent by default.',
  ),
  otelResourceAttributes: setting(
    'OTEL_RESOURCE_ATTRIBUTES',
    z.string().max(8192).optional(),
    'Further attributes of the part, key=value pairs separated by commas.',
  ),
} as const;

export type TelemetrySettings = Readonly<z.output<z.ZodObject<typeof telemetrySettings>>>;

/** Returns the settings under the names of their variables. */
export function telemetryEnvironment(settings: TelemetrySettings): Environment {
  const named = Object.entries(telemetrySettings).map(
    ([key, schema]) => [variableOf(schema), settings[key as keyof TelemetrySettings]] as const,
  );
  return Object.fromEntries(named.flatMap(([name, value]) => (name === undefined || value === undefined ? [] : [[name, String(value)]])));
}
