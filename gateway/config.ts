/**
 * Everything the gateway can be told, read once at start and then frozen. Each setting names its
 * environment variable, default and unit; the table in the documentation comes from here.
 */
import { readFileSync } from 'node:fs';

import { z } from 'zod';

import { CapstanError } from '../proto/errors.ts';
import { readSettings, setting } from '../proto/settings.ts';

function integer(min: number, max: number, byDefault: number): z.ZodDefault<z.ZodType<number>> {
  const rule = `must be an integer between ${min} and ${max}`;
  const number = z.coerce.number<string | number>({ error: rule }).int(rule).min(min, rule).max(max, rule);
  return (number as z.ZodType<number>).default(byDefault);
}

const MiB = 1024 * 1024;

export const gatewayConfig = z.object({
  host: setting('CAPSTAN_HTTP_HOST', z.string().min(1).default('127.0.0.1'), 'Address the HTTP server listens on.'),
  port: setting('CAPSTAN_HTTP_PORT', integer(0, 65_535, 8080), 'Port of the HTTP server; 0 picks a free one.'),
  scheduler: setting(
    'CAPSTAN_SCHEDULER',
    z
      .string()
      .regex(/^(unix:.+|.+:\d{1,5})$/, 'must be host:port or unix:<path>')
      .default('127.0.0.1:7070'),
    'Address of the scheduler’s gRPC server, host:port or unix:<path>.',
  ),
  token: setting('CAPSTAN_GATEWAY_TOKEN', z.string().min(1).optional(), 'Token that this gateway shows the scheduler. Secret.'),
  tokenFile: setting('CAPSTAN_GATEWAY_TOKEN_FILE', z.string().min(1).optional(), 'File whose first line is the gateway token.'),
  logLevel: setting(
    'CAPSTAN_LOG_LEVEL',
    z.enum(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent']).default('info'),
    'Least level of the log lines written to stderr.',
  ),
  corsOrigins: setting(
    'CAPSTAN_CORS_ORIGINS',
    z
      .string()
      .default('')
      .transform((list) =>
        list
          .split(',')
          .map((origin) => origin.trim())
          .filter((origin) => origin !== ''),
      ),
    'Web origins whose pages may call the API, separated by commas; * for all. Empty: none, because a key inside a web page is a key given away.',
  ),
  maxRunBytes: setting('CAPSTAN_MAX_RUN_BYTES', integer(1024, 64 * MiB, 10 * MiB), 'Largest body of POST /run, bytes.'),
  maxRunsyncBytes: setting('CAPSTAN_MAX_RUNSYNC_BYTES', integer(1024, 64 * MiB, 20 * MiB), 'Largest body of POST /runsync, bytes.'),
  maxInFlight: setting('CAPSTAN_GATEWAY_MAX_IN_FLIGHT', integer(1, 1_000_000, 20_000), 'Requests that may wait for the scheduler at once.'),
  maxBodyMemoryBytes: setting(
    'CAPSTAN_GATEWAY_BODY_MEMORY_BYTES',
    integer(64 * 1024, 64 * 1024 * MiB, 512 * MiB),
    'Memory for request bodies, received or waiting for the scheduler, bytes. Requests beyond it are answered 503.',
  ),
  submitTimeoutMs: setting(
    'CAPSTAN_GATEWAY_SUBMIT_TIMEOUT_MS',
    integer(100, 600_000, 20_000),
    'How long a submission is kept and sent again while the scheduler cannot be reached, ms; then 503.',
  ),
  readTimeoutMs: setting(
    'CAPSTAN_GATEWAY_READ_TIMEOUT_MS',
    integer(100, 600_000, 10_000),
    'How long every other call is kept while the scheduler cannot be reached, ms; then 503.',
  ),
  requestTimeoutMs: setting(
    'CAPSTAN_HTTP_REQUEST_TIMEOUT_MS',
    integer(1000, 3_600_000, 120_000),
    'Time a client has to send a whole request, ms.',
  ),
  keepAliveMs: setting('CAPSTAN_HTTP_KEEP_ALIVE_MS', integer(0, 3_600_000, 72_000), 'How long an idle connection is kept, ms.'),
  closeGraceMs: setting(
    'CAPSTAN_GATEWAY_CLOSE_GRACE_MS',
    integer(0, 600_000, 10_000),
    'How long requests under way may still take when the gateway closes, ms.',
  ),
  metrics: setting(
    'CAPSTAN_METRICS',
    z.enum(['auto', 'open', 'key', 'off']).default('auto'),
    'Who may read /metrics: anyone (open), holders of a key of the scope ALL or READ_ONLY (key), nobody (off); auto is open while the HTTP server listens on a loopback address, else key.',
  ),
  keyCacheSize: setting('CAPSTAN_GATEWAY_KEY_CACHE', integer(1, 1_000_000, 10_000), 'Authorization headers whose hash is remembered.'),
  lookupsPerSecond: setting(
    'CAPSTAN_GATEWAY_LOOKUPS_PER_SECOND',
    integer(1, 100_000, 50),
    'Unknown keys and endpoints that are looked up at the scheduler, per second.',
  ),
});

export type GatewayConfig = Readonly<z.output<typeof gatewayConfig>>;

/** The gateway's settings: `overrides` (flags, tests), then the environment, then the defaults. CONFIG names what is wrong. */
export function readConfig(overrides: Readonly<Record<string, unknown>> = {}, env: NodeJS.ProcessEnv = process.env): GatewayConfig {
  const { corsOrigins } = overrides;
  return readSettings(gatewayConfig, { ...overrides, ...(Array.isArray(corsOrigins) ? { corsOrigins: corsOrigins.join(',') } : {}) }, env);
}

/**
 * The token to show the scheduler.
 * @throws CapstanError CONFIG when none is configured or its file cannot be read.
 */
export function gatewayToken(config: GatewayConfig): string {
  if (config.token !== undefined) return config.token;
  if (config.tokenFile === undefined) {
    throw new CapstanError('CONFIG', 'CAPSTAN_GATEWAY_TOKEN or CAPSTAN_GATEWAY_TOKEN_FILE: one of them must be set', {
      field: 'CAPSTAN_GATEWAY_TOKEN',
    });
  }
  let text: string;
  try {
    text = readFileSync(config.tokenFile, 'utf8');
  } catch (cause) {
    const code = cause instanceof Error && 'code' in cause ? String(cause.code) : 'unreadable';
    throw new CapstanError('CONFIG', `CAPSTAN_GATEWAY_TOKEN_FILE: cannot read ${config.tokenFile} (${code})`, {
      field: 'CAPSTAN_GATEWAY_TOKEN_FILE',
      cause,
    });
  }
  const token = (text.split('\n', 1)[0] ?? '').trim();
  if (token === '') {
    throw new CapstanError('CONFIG', `CAPSTAN_GATEWAY_TOKEN_FILE: ${config.tokenFile} is empty`, { field: 'CAPSTAN_GATEWAY_TOKEN_FILE' });
  }
  return token;
}
