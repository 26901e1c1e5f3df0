/** What telemetry says about the process that it comes from: the attributes of OpenTelemetry's resource. */
import { CapstanError } from '../errors.ts';
import type { Environment } from './otlp-protocol.ts';

export interface TelemetrySource {
  /** Name of the part, for example `agent`: the service is `capstan-agent`. */
  readonly part: string;
  readonly version: string;
  /** What tells this process from others of the part, for example a node's id. */
  readonly instanceId: string;
  readonly hostName: string;
}

const ATTRIBUTES = 'OTEL_RESOURCE_ATTRIBUTES';

/**
 * Returns the attributes of a part's resource. `OTEL_RESOURCE_ATTRIBUTES` overrides them, and `OTEL_SERVICE_NAME` overrides both.
 * Throws CONFIG, which names the variable and never its value, for attributes that are not `key=value` pairs.
 */
export function resourceAttributes({ part, version, instanceId, hostName }: TelemetrySource, env: Environment): Record<string, string> {
  const serviceName = env['OTEL_SERVICE_NAME']?.trim() ?? '';
  return {
    'service.name': `capstan-${part}`,
    'service.version': version,
    'service.instance.id': instanceId,
    'host.name': hostName,
    ...readAttributes(env[ATTRIBUTES] ?? ''),
    ...(serviceName === '' ? {} : { 'service.name': serviceName }),
  };
}

/** Commas and equals signs of keys and values are percent-encoded. */
function readAttributes(text: string): Record<string, string> {
  const pairs = text.split(',').filter((pair) => pair.trim() !== '');
  return Object.fromEntries(
    pairs.map((pair) => {
      const [key = '', value, ...more] = pair.split('=').map((piece) => decoded(piece.trim()));
      if (key === '' || value === undefined || more.length > 0) throw notPairs();
      return [key, value];
    }),
  );
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch (error) {
    if (error instanceof URIError) throw notPairs();
    throw error;
  }
}

function notPairs(): CapstanError {
  return new CapstanError('CONFIG', `${ATTRIBUTES}: must be key=value pairs, separated by commas and percent-encoded`, {
    field: ATTRIBUTES,
  });
}
