/**
 * The settings of the gateway, read once at start and then frozen. Each setting names its environment variable, default
 * and unit; the table in the documentation is generated from here.
 */
import { readFileSync } from 'node:fs';

import { z } from 'zod';

import { CapstanError } from '../lib/errors.ts';
import { isSchedulerAddress, SCHEDULER_RULE } from '../lib/owner/addresses.ts';
import { telemetrySettings } from '../lib/telemetry/settings.ts';
import { tlsSettings } from '../lib/tls-settings.ts';
import { readSettings, setting } from '../lib/settings.ts';
import { errnoOf } from '../lib/to-error.ts';

function integer(min: number, max: number, byDefault: number): z.ZodDefault<z.ZodType<number>> {
  const rule = `must be an integer between ${min} and ${max}`;
  const number = z.coerce.number<string | number>({ error: rule }).int(rule).min(min, rule).max(max, rule);
  return (number as z.ZodType<number>).default(byDefault);
}

const MEBIBYTE = 1024 * 1024;

const METRICS_TOKEN = /^\S{32,200}$/;

export const gatewayConfig = z.object({
  host: setting('CAPSTAN_HTTP_HOST', z.string().min(1).default('127.0.0.1'), 'Address that the HTTP server listens on.'),
  port: setting('CAPSTAN_HTTP_PORT', integer(0, 65_535, 8080), 'Port of the HTTP server; 0 picks a free port.'),
  processes: setting(
    'CAPSTAN_GATEWAY_PROCESSES',
    integer(0, 64, 0),
    'Processes that serve the port; 0 is one for every two cores, at most 8, and 1 where CAPSTAN_INVOKE_PORT or CAPSTAN_INVOKE_ADDRESS is set. The limits of memory, of requests that wait and of look-ups are divided among them.',
  ),
  scheduler: setting(
    'CAPSTAN_SCHEDULER',
    z.string().refine(isSchedulerAddress, SCHEDULER_RULE).default('127.0.0.1:7070'),
    'Addresses of the schedulers’ gRPC servers, host:port, separated by commas; a host name stands for all of its addresses (cluster.md). Or unix:<path>.',
  ),
  ...tlsSettings,
  ...telemetrySettings,
  token: setting(
    'CAPSTAN_GATEWAY_TOKEN',
    z.string().min(1).optional(),
    'Token that this gateway authenticates with at the scheduler. Secret.',
  ),
  tokenFile: setting('CAPSTAN_GATEWAY_TOKEN_FILE', z.string().min(1).optional(), 'File whose first line is the gateway token.'),
  logLevel: setting(
    'CAPSTAN_LOG_LEVEL',
    z.enum(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent']).default('info'),
    'Minimum level of log lines on stderr.',
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
    'Web origins whose pages may call the API and load-balanced endpoints, separated by commas; * for all. Empty by default, because a key in a web page is public.',
  ),
  publicUrl: setting(
    'CAPSTAN_PUBLIC_URL',
    z.union([z.literal(''), z.url({ protocol: /^https?$/, error: 'must be an http or https URL' })]).default(''),
    'Base URL of the HTTP API, used for endpoint URLs in responses; when empty, the URL that the caller used',
  ),
  console: setting('CAPSTAN_CONSOLE', z.enum(['on', 'off']).default('on'), 'Whether the gateway serves the web console at /console.'),
  hidePayloads: setting(
    'CAPSTAN_HIDE_PAYLOADS',
    z.enum(['on', 'off']).default('off'),
    'Whether the web console shows inputs and outputs of jobs only when asked for, one by one.',
  ),
  graphqlPerSecond: setting(
    'CAPSTAN_GRAPHQL_PER_SECOND',
    integer(1, 100_000, 50),
    'Requests to /graphql, and for logs, per second and key.',
  ),
  maxRunBytes: setting('CAPSTAN_MAX_RUN_BYTES', integer(1024, 64 * MEBIBYTE, 10 * MEBIBYTE), 'Largest body of POST /run, bytes.'),
  maxRunsyncBytes: setting(
    'CAPSTAN_MAX_RUNSYNC_BYTES',
    integer(1024, 64 * MEBIBYTE, 20 * MEBIBYTE),
    'Largest body of POST /runsync, bytes.',
  ),
  maxInFlight: setting(
    'CAPSTAN_GATEWAY_MAX_IN_FLIGHT',
    integer(1, 1_000_000, 20_000),
    'Requests that may wait for the scheduler at the same time.',
  ),
  maxBodyMemoryBytes: setting(
    'CAPSTAN_GATEWAY_BODY_MEMORY_BYTES',
    integer(64 * 1024, 64 * 1024 * MEBIBYTE, 512 * MEBIBYTE),
    'Memory for request bodies that are being received or wait for the scheduler, bytes. An account may use at most as much as is free, which is half of it when no other account uses any. Requests above that get 429, and 503 when all of the memory is in use.',
  ),
  uploadMinBytes: setting(
    'CAPSTAN_HTTP_UPLOAD_MIN_BYTES',
    integer(1, 64 * MEBIBYTE, 16 * 1024),
    'Minimum bytes of a body that must arrive in each CAPSTAN_HTTP_UPLOAD_WINDOW_MS until it is complete; else 408.',
  ),
  uploadWindowMs: setting(
    'CAPSTAN_HTTP_UPLOAD_WINDOW_MS',
    integer(100, 600_000, 10_000),
    'Window in which CAPSTAN_HTTP_UPLOAD_MIN_BYTES must arrive, ms. Time in which the gateway itself does not read is not counted.',
  ),
  submitTimeoutMs: setting(
    'CAPSTAN_GATEWAY_SUBMIT_TIMEOUT_MS',
    integer(100, 600_000, 20_000),
    'How long a submission is kept and resent while the scheduler is unreachable, ms; then 503.',
  ),
  readTimeoutMs: setting(
    'CAPSTAN_GATEWAY_READ_TIMEOUT_MS',
    integer(100, 600_000, 10_000),
    'How long every other call is kept while the scheduler is unreachable, ms; then 503.',
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
    'How long requests in progress may continue after the gateway starts to close, ms.',
  ),
  httpTlsCert: setting(
    'CAPSTAN_HTTP_TLS_CERT',
    z.string().min(1).optional(),
    'File with the certificate and chain (PEM) of the HTTP server, which then serves HTTPS; for load-balanced endpoints it must cover *.<domain>.',
  ),
  httpTlsKey: setting('CAPSTAN_HTTP_TLS_KEY', z.string().min(1).optional(), 'File with the private key (PEM) of that certificate.'),
  httpTlsCheckMs: setting(
    'CAPSTAN_HTTP_TLS_CHECK_MS',
    integer(10, 86_400_000, 60_000),
    'How often the certificate and key files are checked, ms; a renewed certificate is loaded without a restart.',
  ),
  trustedProxies: setting(
    'CAPSTAN_TRUSTED_PROXIES',
    z
      .string()
      .default('')
      .transform((list) => list.split(/[\s,]+/).filter((entry) => entry !== '')),
    'Addresses and CIDR ranges of proxies whose X-Forwarded-For, -Proto and -Host headers are trusted, separated by commas.',
  ),
  lbDomain: setting(
    'CAPSTAN_LB_DOMAIN',
    z
      .string()
      .regex(/^[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?$/, 'must be a host name')
      .default('lb.localhost')
      .transform((domain) => domain.toLowerCase()),
    'Domain of load-balanced endpoints: each has the host <endpoint id>.<domain>. Names under localhost need no DNS.',
  ),
  lbMaxBodyBytes: setting(
    'CAPSTAN_LB_MAX_BODY_BYTES',
    integer(1024, 1024 * MEBIBYTE, 30 * MEBIBYTE),
    'Largest body of a request to a load-balanced endpoint, bytes.',
  ),
  lbHoldMs: setting(
    'CAPSTAN_LB_HOLD_MS',
    integer(100, 3_600_000, 120_000),
    'How long a request to a load-balanced endpoint waits for a worker, ms; then 503.',
  ),
  lbMaxHeld: setting(
    'CAPSTAN_LB_MAX_HELD',
    integer(1, 1_000_000, 1000),
    'Requests that may wait for a worker of a load-balanced endpoint at the same time; more get 503.',
  ),
  lbTimeoutMs: setting(
    'CAPSTAN_LB_TIMEOUT_MS',
    integer(100, 86_400_000, 330_000),
    'How long a worker may take to respond to a request, ms; then 500, and the function is stopped.',
  ),
  lbMaxWebSockets: setting(
    'CAPSTAN_LB_MAX_WEBSOCKETS',
    integer(1, 1_000_000, 10_000),
    'WebSockets that may be open or wait for a worker at the same time. An account may have at most as many as are left, which is half of them when no other account has any; more get 429, and 503 when all are in use.',
  ),
  lbWebSocketIdleMs: setting(
    'CAPSTAN_LB_WEBSOCKET_IDLE_MS',
    integer(100, 86_400_000, 600_000),
    'How long a WebSocket may be open without a byte in either direction, ms; then it is closed with 1001. Pings count.',
  ),
  lbWebSocketMaxMs: setting(
    'CAPSTAN_LB_WEBSOCKET_MAX_MS',
    integer(100, 604_800_000, 86_400_000),
    'How long a WebSocket may be open in all, ms; then it is closed with 1001.',
  ),
  invokeHost: setting(
    'CAPSTAN_INVOKE_HOST',
    z.string().default(''),
    'Address that the gRPC server for agents listens on (load-balanced requests). When empty: the address that this gateway uses towards the scheduler; on the scheduler’s own host all addresses, if certificates are set or CAPSTAN_GRPC_PLAIN=anywhere, else loopback.',
  ),
  invokePort: setting(
    'CAPSTAN_INVOKE_PORT',
    integer(0, 65_535, 0),
    'Port of that address; 0 picks a free port, which agents learn from the scheduler. Each further gateway process has the next port.',
  ),
  invokeAddress: setting(
    'CAPSTAN_INVOKE_ADDRESS',
    z
      .string()
      .regex(/^.+:\d{1,5}$/, 'must be host:port')
      .optional(),
    'Address that agents dial, host:port, when it differs from the one above (another name, a forwarded port). When empty, agents of a gateway that listens on all addresses dial the one that it uses towards the scheduler, or the scheduler’s.',
  ),
  metrics: setting(
    'CAPSTAN_METRICS',
    z.enum(['auto', 'open', 'key', 'off']).default('key'),
    'Who may read /metrics: holders of the metrics token, or of a key of the account default with the scope READ_ONLY, ALL or OPERATOR (key); everyone who reaches the gateway, workers of all accounts included (open); nobody (off). auto is the same as key.',
  ),
  metricsTokenFile: setting(
    'CAPSTAN_METRICS_TOKEN_FILE',
    z.string().min(1).optional(),
    'File whose first line is the metrics token: a bearer token of at least 32 characters that permits reading /metrics and nothing else.',
  ),
  keyCacheSize: setting('CAPSTAN_GATEWAY_KEY_CACHE', integer(1, 1_000_000, 10_000), 'Authorization headers whose hash is cached.'),
  lookupsPerSecond: setting(
    'CAPSTAN_GATEWAY_LOOKUPS_PER_SECOND',
    integer(1, 100_000, 50),
    'Look-ups at the scheduler per second of unknown items: a separate budget for keys, worker tokens and endpoints, a quarter of each per peer (endpoints: per account). When the budget is used up, such requests get 503.',
  ),
});

export type GatewayConfig = Readonly<z.output<typeof gatewayConfig>>;

/**
 * Reads the gateway's settings: `overrides` (flags, tests), then the environment, then the defaults. CONFIG names the
 * invalid setting.
 */
export function readConfig(overrides: Readonly<Record<string, unknown>> = {}, env: NodeJS.ProcessEnv = process.env): GatewayConfig {
  const { corsOrigins } = overrides;
  return readSettings(gatewayConfig, { ...overrides, ...(Array.isArray(corsOrigins) ? { corsOrigins: corsOrigins.join(',') } : {}) }, env);
}

/**
 * Returns the token that authenticates the gateway to the scheduler.
 * @throws CapstanError CONFIG when none is configured or its file cannot be read.
 */
export function gatewayToken(config: GatewayConfig): string {
  if (config.token !== undefined) return config.token;
  if (config.tokenFile === undefined) {
    throw new CapstanError('CONFIG', 'CAPSTAN_GATEWAY_TOKEN or CAPSTAN_GATEWAY_TOKEN_FILE: one of them is required', {
      field: 'CAPSTAN_GATEWAY_TOKEN',
    });
  }
  return firstLine(config.tokenFile, 'CAPSTAN_GATEWAY_TOKEN_FILE');
}

/**
 * Returns the token that permits reading /metrics; undefined without one.
 * @throws CapstanError CONFIG when its file cannot be read, or the token is too short to be secret.
 */
export function metricsToken({ metricsTokenFile }: GatewayConfig): string | undefined {
  if (metricsTokenFile === undefined) return undefined;
  const field = 'CAPSTAN_METRICS_TOKEN_FILE';
  const token = firstLine(metricsTokenFile, field);
  if (!METRICS_TOKEN.test(token))
    throw new CapstanError('CONFIG', `${field}: the token in ${metricsTokenFile} must be 32 to 200 characters without spaces`, { field });
  return token;
}

/** Returns the first line of a file that holds a token. @throws CapstanError CONFIG */
function firstLine(file: string, field: string): string {
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch (cause) {
    const code = errnoOf(cause) ?? 'unreadable';
    throw new CapstanError('CONFIG', `${field}: cannot read ${file} (${code})`, { field, cause });
  }
  const token = (text.split('\n', 1)[0] ?? '').trim();
  if (token === '') throw new CapstanError('CONFIG', `${field}: ${file} is empty`, { field });
  return token;
}
