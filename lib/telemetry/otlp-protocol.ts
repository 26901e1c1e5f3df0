/**
 * Reads from the standard variables of OpenTelemetry whether a signal is exported, where to and by which protocol. The environment is
 * an argument: each part reads its own once. Headers, time-outs, certificates and compression are read by the exporters themselves.
 */
import { CapstanError } from '../errors.ts';

/** Variables of an environment. */
export type Environment = Readonly<Record<string, string | undefined>>;

export type TelemetrySignal = 'TRACES' | 'LOGS';

const PROTOCOLS = ['http/protobuf', 'http/json', 'grpc'] as const;
export type OtlpProtocol = (typeof PROTOCOLS)[number];

export interface OtlpExport {
  readonly protocol: OtlpProtocol;
  /** Host and port of the receiver, without credentials: for log lines. */
  readonly receiver: string;
}

const SHARED_ENDPOINT = 'OTEL_EXPORTER_OTLP_ENDPOINT';

/**
 * Returns how a signal is exported; undefined when it is not. Traces are exported when an endpoint is set; log records when an endpoint
 * of their own is set, or the common one together with `OTEL_LOGS_EXPORTER=otlp`, since a common endpoint may accept traces only.
 * Throws CONFIG, which names the variable and never its value, for an exporter, a protocol or an endpoint that is not supported.
 */
export function otlpExport(signal: TelemetrySignal, env: Environment): OtlpExport | undefined {
  if (valueOf(env, 'OTEL_SDK_DISABLED')?.toLowerCase() === 'true') return undefined;
  const ownEndpoint = `OTEL_EXPORTER_OTLP_${signal}_ENDPOINT`;
  const endpoint = [ownEndpoint, SHARED_ENDPOINT].find((name) => valueOf(env, name) !== undefined);
  if (endpoint === undefined) return undefined;
  const exporter = exporterOf(signal, env);
  if (exporter === 'none') return undefined;
  if (exporter === undefined && signal === 'LOGS' && endpoint === SHARED_ENDPOINT) return undefined;
  const protocol = protocolOf(signal, env);
  return { protocol, receiver: receiverOf(endpoint, valueOf(env, endpoint) ?? '', protocol) };
}

function exporterOf(signal: TelemetrySignal, env: Environment): 'otlp' | 'none' | undefined {
  const name = `OTEL_${signal}_EXPORTER`;
  const value = valueOf(env, name)?.toLowerCase();
  if (value === undefined || value === 'otlp' || value === 'none') return value;
  throw refusal(name, 'must be otlp or none');
}

function protocolOf(signal: TelemetrySignal, env: Environment): OtlpProtocol {
  const name = [`OTEL_EXPORTER_OTLP_${signal}_PROTOCOL`, 'OTEL_EXPORTER_OTLP_PROTOCOL'].find((each) => valueOf(env, each) !== undefined);
  if (name === undefined) return 'http/protobuf';
  const protocol = PROTOCOLS.find((each) => each === valueOf(env, name));
  if (protocol === undefined) throw refusal(name, `must be one of ${PROTOCOLS.join(', ')}`);
  return protocol;
}

/** gRPC also takes `host:port`, with TLS unless `OTEL_EXPORTER_OTLP_INSECURE` is true. */
function receiverOf(name: string, value: string, protocol: OtlpProtocol): string {
  const text = protocol === 'grpc' && !value.includes('://') ? `https://${value}` : value;
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url !== undefined && /^https?:$/.test(url.protocol) && url.host !== '') return url.host;
  throw refusal(name, protocol === 'grpc' ? 'must be an http or https URL, or host:port' : 'must be an http or https URL');
}

/** An empty variable counts as absent. */
function valueOf(env: Environment, name: string): string | undefined {
  return env[name]?.trim() || undefined;
}

function refusal(name: string, rule: string): CapstanError {
  return new CapstanError('CONFIG', `${name}: ${rule}`, { field: name });
}
