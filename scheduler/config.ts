/** Configuration of the scheduler: one schema, read once. */
import { resolve } from 'node:path';

import { z } from 'zod';

import { otlpExport, type OtlpExport } from '../lib/telemetry/otlp-protocol.ts';
import { telemetryEnvironment, telemetrySettings } from '../lib/telemetry/settings.ts';
import { tlsSettings } from '../lib/tls-settings.ts';
import { CapstanError } from '../lib/errors.ts';
import { readSettings, setting } from '../lib/settings.ts';
import { CELL_NAME, CELL_NAME_RULE, DEFAULT_CELL } from '../lib/cells.ts';
import { ACCOUNT_NETWORKS, ISOLATION_LEVELS } from '../lib/isolation.ts';
import { defaultSettings } from './core/settings.ts';
import { defaultLimits, DEFAULT_REQUESTS_PER_WORKER, type Limit, type LimitedOperation, type Limits } from './core/state/rate-limits.ts';

/** Parses `run=1000/200,status=0/0`. */
function readLimits(text: string, context: z.RefinementCtx): Limits {
  const limits: Record<LimitedOperation, Limit> = { ...defaultLimits };
  for (const entry of text.split(',').filter((part) => part.trim() !== '')) {
    const [, operation = '', requests, concurrent] = /^\s*([a-z-]+)=(\d{1,7})\/(\d{1,7})\s*$/.exec(entry) ?? [];
    if (!Object.hasOwn(defaultLimits, operation)) {
      const message = `${JSON.stringify(entry)} must be <operation>=<requests>/<concurrent>; the operations are ${Object.keys(defaultLimits).join(', ')}`;
      context.addIssue({ code: 'custom', message });
      return z.NEVER;
    }
    limits[operation as LimitedOperation] = { requests: Number(requests), concurrent: Number(concurrent) };
  }
  return limits;
}

export const schedulerConfig = z.object({
  dataDir: setting('CAPSTAN_DATA_DIR', z.string().min(1), 'Folder of the queue, the builds and the secrets'),
  store: setting(
    'CAPSTAN_STORE',
    z.string().default(''),
    'Where the queue is stored: empty for SQLite in the data folder, or postgres://user@host:port/database, with the password in the file that PGPASSFILE names (cluster.md)',
  ),
  cell: setting(
    'CAPSTAN_CELL',
    z.string().regex(CELL_NAME, CELL_NAME_RULE).default(DEFAULT_CELL),
    'Cell of the database that this scheduler serves; cells other than `default` are created by `capstan cell create` (cluster.md)',
  ),
  blobDir: setting(
    'CAPSTAN_BLOB_DIR',
    z.string().min(1).optional(),
    'Folder of bodies above 64 KiB and of builds; scheduler/blobs in the data folder when empty',
  ),
  isBlobDirShared: setting(
    'CAPSTAN_BLOB_DIR_SHARED',
    z.stringbool().default(false),
    'Declares that CAPSTAN_BLOB_DIR is the same folder for every scheduler; a standby requires it, or all blobs in S3-compatible storage',
  ),
  advertise: setting(
    'CAPSTAN_ADVERTISE',
    z
      .string()
      .regex(/^(?:[A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\]):\d{1,5}$/, { error: 'must be host:port' })
      .refine((address) => Number(address.split(':').at(-1)) <= 65_535, { error: 'must have a port up to 65535' })
      .optional(),
    'host:port at which gateways, agents and other schedulers reach this one; when empty, the address that it listens on, with the host’s name for a wildcard',
  ),
  host: setting('CAPSTAN_GRPC_HOST', z.string().min(1).default('127.0.0.1'), 'Address that the gRPC server listens on'),
  port: setting(
    'CAPSTAN_GRPC_PORT',
    z.coerce.number().int().min(0).max(65_535).default(7070),
    'Port that the gRPC server listens on; 0 picks a free port',
  ),
  ...tlsSettings,
  ...telemetrySettings,
  auditExporter: setting(
    'CAPSTAN_AUDIT_EXPORTER',
    z.enum(['none', 'otlp'], 'must be none or otlp').default('none'),
    'otlp exports the audit log to the receiver of OTEL_EXPORTER_OTLP_LOGS_ENDPOINT or OTEL_EXPORTER_OTLP_ENDPOINT (audit.md)',
  ),
  otlpLogsEndpoint: setting(
    'OTEL_EXPORTER_OTLP_LOGS_ENDPOINT',
    z.string().min(1).optional(),
    'OTLP receiver of the audit log, an http or https URL with its path; overrides OTEL_EXPORTER_OTLP_ENDPOINT',
  ),
  otlpLogsProtocol: setting(
    'OTEL_EXPORTER_OTLP_LOGS_PROTOCOL',
    z.string().min(1).optional(),
    'Its protocol: http/protobuf, http/json or grpc; overrides OTEL_EXPORTER_OTLP_PROTOCOL',
  ),
  auditExportTimeoutMs: setting(
    'OTEL_BLRP_EXPORT_TIMEOUT',
    z.coerce.number().int().min(1).max(3_600_000).default(30_000),
    'Longest time of exporting one batch of the audit log, tries included, ms; then it is sent again',
  ),
  apiKey: setting('SERVICE_API_KEY', z.string().min(1).optional(), "The account's API key at the first start; generated when empty"),
  logLevel: setting(
    'CAPSTAN_LOG_LEVEL',
    z.enum(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent']).default('info'),
    'Minimum level of log lines',
  ),
  workerQuota: setting(
    'CAPSTAN_WORKER_QUOTA',
    z.coerce.number().int().min(0).default(30),
    'Limit on the sum of workersMax over the endpoints of an account',
  ),
  accountIsolation: setting(
    'CAPSTAN_ACCOUNT_ISOLATION',
    z.enum(ISOLATION_LEVELS).default('sandbox'),
    'Minimum level of isolation of a new account’s workers; existing accounts keep theirs (capstan account set --isolation)',
  ),
  accountNetwork: setting(
    'CAPSTAN_ACCOUNT_NETWORK',
    z.enum(ACCOUNT_NETWORKS).default('auto'),
    'Widest network of a new account’s workers; `auto` is that of the node, without the right to request the host’s. Existing accounts keep theirs (capstan account set --network)',
  ),
  buildQuotaBytes: setting(
    'CAPSTAN_BUILD_QUOTA_BYTES',
    z.coerce.number().int().min(1).max(Number.MAX_SAFE_INTEGER).default(20_000_000_000),
    'Limit on the builds of an account in the artifact store, unfinished uploads included, bytes',
  ),
  bodyQuotaBytes: setting(
    'CAPSTAN_BODY_QUOTA_BYTES',
    z.coerce.number().int().min(1).max(Number.MAX_SAFE_INTEGER).default(10_000_000_000),
    'Limit on the inputs, outputs and chunks of an account’s jobs and undelivered webhooks, bytes',
  ),
  maxAttempts: setting(
    'CAPSTAN_MAX_ATTEMPTS',
    z.coerce.number().int().min(1).max(1_000).default(2),
    'Charged attempts after which a job whose workers died ends FAILED',
  ),
  nodeGraceMs: setting(
    'CAPSTAN_NODE_GRACE_MS',
    z.coerce.number().int().min(100).default(15_000),
    'How long the jobs of a disconnected node stay leased to it, ms',
  ),
  heartbeatMs: setting(
    'CAPSTAN_HEARTBEAT_MS',
    z.coerce.number().int().min(100).default(2_000),
    'Interval within which an agent sends at least one message, ms',
  ),
  silenceMs: setting(
    'CAPSTAN_SILENCE_MS',
    z.coerce.number().int().min(500).default(10_000),
    'Silence after which a session is considered lost, ms',
  ),
  runRetentionMs: setting(
    'CAPSTAN_RUN_RETENTION_MS',
    z.coerce.number().int().min(1_000).default(1_800_000),
    'Retention of the results of /run after the end of the job, ms',
  ),
  runsyncRetentionMs: setting(
    'CAPSTAN_RUNSYNC_RETENTION_MS',
    z.coerce.number().int().min(1_000).max(300_000).default(60_000),
    'Retention of the results of /runsync after the end of the job, ms',
  ),
  idempotencyRetentionMs: setting(
    'CAPSTAN_IDEMPOTENCY_RETENTION_MS',
    z.coerce.number().int().min(1_000).max(604_800_000).default(86_400_000),
    'Retention of an Idempotency-Key after its first submission, ms',
  ),
  webhookAllow: setting(
    'CAPSTAN_WEBHOOK_ALLOW',
    z.string().default(''),
    'Networks, addresses and host names that webhooks may reach although they are not public, separated by commas',
  ),
  webhookAllowOperator: setting(
    'CAPSTAN_WEBHOOK_ALLOW_OPERATOR',
    z.string().default(''),
    'The same, for webhooks of the operator’s account (default) only; capstan up allows loopback here',
  ),
  webhookConnectMs: setting(
    'CAPSTAN_WEBHOOK_CONNECT_MS',
    z.coerce.number().int().min(10).default(5_000),
    'Timeout for connecting to the receiver of a webhook, ms',
  ),
  webhookTimeoutMs: setting(
    'CAPSTAN_WEBHOOK_TIMEOUT_MS',
    z.coerce.number().int().min(10).default(10_000),
    'Timeout of one attempt to deliver a webhook, ms; plus one second for each MiB of its payload',
  ),
  alertDelayMs: setting(
    'CAPSTAN_ALERT_DELAY_MS',
    z.coerce.number().int().min(0).max(86_400_000).default(30_000),
    'How long an incident lasts before alerts tell of it, and how long it is over before they tell of its end, ms',
  ),
  smtpUrl: setting(
    'CAPSTAN_SMTP_URL',
    z.url({ protocol: /^smtps?$/, error: 'must be an smtp or smtps URL' }).optional(),
    'Mail server that sends alerts by e-mail: smtp://user:password@host:587, or smtps:// for TLS from the start; none are sent when empty. With a user TLS is required (?requireTLS=false: not). Secret',
  ),
  smtpFrom: setting(
    'CAPSTAN_SMTP_FROM',
    z
      .string()
      .regex(/^[^\r\n]*@[^\r\n]*$/, 'must be an e-mail address')
      .optional(),
    'Sender of these e-mails; required with CAPSTAN_SMTP_URL',
  ),
  rateLimits: setting(
    'CAPSTAN_RATE_LIMITS',
    z.string().default('').transform(readLimits),
    'Rate limits of endpoints that set none: `<operation>=<requests per 10 s>/<concurrent>`, separated by commas; 0 for no limit. Operations not listed keep the built-in limits (api.md)',
  ),
  requestsPerWorker: setting(
    'CAPSTAN_REQUESTS_PER_WORKER',
    z.coerce.number().int().min(0).max(1_000_000).default(DEFAULT_REQUESTS_PER_WORKER),
    'Requests per 10 s that each running worker adds to the limits of its endpoint',
  ),
  buildsKept: setting(
    'CAPSTAN_BUILDS_KEPT',
    z.coerce.number().int().min(1).max(1_000).default(10),
    'Builds kept per endpoint for rollback; older ones are deleted',
  ),
  publicUrl: setting(
    'CAPSTAN_PUBLIC_URL',
    z.union([z.literal(''), z.url({ protocol: /^https?$/, error: 'must be an http or https URL' })]).default(''),
    'Base URL of the HTTP API as workers reach it, for calls between endpoints; the agent’s own setting takes precedence',
  ),
  gpuTable: setting(
    'CAPSTAN_GPU_TABLE',
    z.string().default(''),
    'JSON file with GPU types and groups to add to the built-in table (gpus.md)',
  ),
  cpuOvercommit: setting(
    'CAPSTAN_CPU_OVERCOMMIT',
    z.coerce.number().min(0.1).max(1_000).default(defaultSettings.cpuOvercommit),
    'CPU that workers may reserve on a node, as a multiple of its cores',
  ),
  memoryOvercommit: setting(
    'CAPSTAN_MEMORY_OVERCOMMIT',
    z.coerce.number().min(0.1).max(1_000).default(defaultSettings.memoryOvercommit),
    'Memory that CPU workers may reserve on a node, as a multiple of its memory',
  ),
  memoryReserveMb: setting(
    'CAPSTAN_MEMORY_RESERVE_MB',
    z.coerce.number().int().min(0).default(512),
    'Memory of each node that is not allocated to workers, MiB',
  ),
  diskReserveMb: setting(
    'CAPSTAN_DISK_RESERVE_MB',
    z.coerce.number().int().min(0).default(512),
    'Disk space of each node that builds must leave free, MiB',
  ),
  unsizedCpu: setting(
    'CAPSTAN_UNSIZED_CPU',
    z.coerce.number().min(0).max(512).default(0.1),
    'Cores reserved for a worker whose endpoint selects neither a GPU nor a CPU',
  ),
  unsizedMemoryMb: setting(
    'CAPSTAN_UNSIZED_MEMORY_MB',
    z.coerce.number().int().min(0).default(128),
    'Memory reserved for such a worker, MiB; its limit is that of the smallest CPU selection',
  ),
  s3Endpoint: setting(
    'CAPSTAN_S3_ENDPOINT',
    z.url({ protocol: /^https?$/, error: 'must be an http or https URL' }).optional(),
    'Base URL of S3-compatible storage for builds, and with CAPSTAN_S3_BODIES for bodies; when empty, they are stored in CAPSTAN_BLOB_DIR',
  ),
  s3Bucket: setting(
    'CAPSTAN_S3_BUCKET',
    z
      .string()
      .regex(/^[a-z0-9][a-z0-9._-]{1,62}$/i, 'must be the name of a bucket')
      .optional(),
    'Bucket of the storage, which no other installation uses',
  ),
  s3Bodies: setting(
    'CAPSTAN_S3_BODIES',
    z.stringbool().optional(),
    'Also stores bodies above 64 KiB in the S3-compatible storage; when empty, it does so with CAPSTAN_STORE and without CAPSTAN_BLOB_DIR_SHARED',
  ),
  s3Region: setting('CAPSTAN_S3_REGION', z.string().min(1).default('us-east-1'), 'Region in the signatures of requests to the storage'),
  s3AccessKeyId: setting('CAPSTAN_S3_ACCESS_KEY_ID', z.string().min(1).optional(), 'Access key id for the storage'),
  s3SecretAccessKey: setting('CAPSTAN_S3_SECRET_ACCESS_KEY', z.string().min(1).optional(), 'Secret access key for the storage. Secret'),
  encryptPayloads: setting(
    'CAPSTAN_ENCRYPT_PAYLOADS',
    z.stringbool().default(false),
    'Encrypts new inputs, outputs and chunks in the database and in the blob store with a key of the master key (security.md). Those stored before stay as they are, and all stay readable when it is off again',
  ),
  minFreePercent: setting(
    'CAPSTAN_DISK_MIN_FREE_PERCENT',
    z.coerce.number().min(0).max(90).default(5),
    "Free space on the data folder's disk below which new jobs, bodies and builds are rejected, percent; 0: no limit",
  ),
  payloadCacheMb: setting(
    'CAPSTAN_PAYLOAD_CACHE_MB',
    z.coerce.number().int().min(1).default(64),
    'Memory for inputs of running jobs and of the first waiting ones, MB; other inputs are read from the store when they are dispatched',
  ),
});

export type SchedulerConfig = Readonly<z.output<typeof schedulerConfig>>;

export interface S3Config {
  /** Base URL of the storage; the bucket is part of the path. */
  readonly endpoint: string;
  readonly bucket: string;
  readonly region: string;
  readonly accessKeyId: string;
  /** Secret. */
  readonly secretAccessKey: string;
}

/** Returns the S3 storage; null for the folder. Throws CONFIG if only some of the settings are present. */
export function s3Of(config: SchedulerConfig): S3Config | null {
  const {
    s3Endpoint: endpoint,
    s3Bucket: bucket,
    s3Region: region,
    s3AccessKeyId: accessKeyId,
    s3SecretAccessKey: secretAccessKey,
  } = config;
  if (endpoint === undefined) {
    if (config.s3Bodies === true)
      throw new CapstanError('CONFIG', 'CAPSTAN_S3_BODIES: requires CAPSTAN_S3_ENDPOINT', { field: 'CAPSTAN_S3_BODIES' });
    return null;
  }
  if (bucket === undefined || accessKeyId === undefined || secretAccessKey === undefined)
    throw new CapstanError(
      'CONFIG',
      'CAPSTAN_S3_ENDPOINT: requires CAPSTAN_S3_BUCKET, CAPSTAN_S3_ACCESS_KEY_ID and CAPSTAN_S3_SECRET_ACCESS_KEY',
      {
        field: 'CAPSTAN_S3_ENDPOINT',
      },
    );
  return { endpoint, bucket, region, accessKeyId, secretAccessKey };
}

/**
 * Returns where the audit log is exported to; null where it is not. OTEL_LOGS_EXPORTER does not decide it: that is for lines of workers.
 * @throws CapstanError CONFIG, which names the variable.
 */
export function auditTarget(config: SchedulerConfig): (OtlpExport & { readonly url: string }) | null {
  const { auditExporter, otelDisabled, otlpEndpoint = '', otlpLogsEndpoint, otlpLogsProtocol } = config;
  if (auditExporter === 'none' || otelDisabled === 'true') return null;
  const target = otlpExport('LOGS', {
    ...telemetryEnvironment(config),
    OTEL_LOGS_EXPORTER: 'otlp',
    OTEL_EXPORTER_OTLP_LOGS_ENDPOINT: otlpLogsEndpoint,
    OTEL_EXPORTER_OTLP_LOGS_PROTOCOL: otlpLogsProtocol,
  });
  if (target === undefined) {
    const field = 'CAPSTAN_AUDIT_EXPORTER';
    throw new CapstanError('CONFIG', `${field}: otlp requires OTEL_EXPORTER_OTLP_LOGS_ENDPOINT or OTEL_EXPORTER_OTLP_ENDPOINT`, { field });
  }
  // An endpoint for all signals is the base of the paths of each; one for logs is used as it is.
  const url = otlpLogsEndpoint ?? (target.protocol === 'grpc' ? otlpEndpoint : `${otlpEndpoint.replace(/\/+$/, '')}/v1/logs`);
  return { ...target, url };
}

/** Whether bodies are in the S3-compatible storage, too. */
export function holdsBodiesInS3({ s3Endpoint, s3Bodies, store, isBlobDirShared }: SchedulerConfig): boolean {
  return s3Endpoint !== undefined && (s3Bodies ?? (store !== '' && !isBlobDirShared));
}

/** @throws CapstanError CONFIG if other schedulers of the queue do not have the blobs that this one stores. */
export function requireSharedBlobs(config: SchedulerConfig, because: string): void {
  if (config.isBlobDirShared || holdsBodiesInS3(config)) return;
  const setting = config.s3Endpoint === undefined ? 'CAPSTAN_BLOB_DIR_SHARED' : 'CAPSTAN_S3_BODIES';
  const instead =
    config.s3Endpoint === undefined
      ? 'CAPSTAN_BLOB_DIR_SHARED, or the storage of CAPSTAN_S3_ENDPOINT'
      : 'CAPSTAN_S3_BODIES, or CAPSTAN_BLOB_DIR_SHARED';
  throw new CapstanError('CONFIG', `${because}; a standby requires ${instead}, so that it has the owner's bodies`, { field: setting });
}

/**
 * Reads the scheduler's settings: overrides (flags, tests), then the environment, then the defaults. CONFIG names the
 * invalid setting.
 */
export function readConfig(
  overrides: Readonly<Partial<Record<keyof SchedulerConfig, unknown>>> = {},
  env: NodeJS.ProcessEnv = process.env,
): SchedulerConfig {
  const config = readSettings(schedulerConfig, overrides, env);
  s3Of(config);
  auditTarget(config);
  if ((config.smtpUrl === undefined) !== (config.smtpFrom === undefined)) {
    const missing = config.smtpUrl === undefined ? 'CAPSTAN_SMTP_URL' : 'CAPSTAN_SMTP_FROM';
    throw new CapstanError('CONFIG', `${missing}: CAPSTAN_SMTP_URL and CAPSTAN_SMTP_FROM must be set together`, { field: missing });
  }
  return Object.freeze({ ...config, dataDir: resolve(config.dataDir) });
}
