/** The agent's configuration: one schema, read once from flags and the environment. */
import { readFileSync } from 'node:fs';
import { homedir, hostname, tmpdir } from 'node:os';
import { resolve } from 'node:path';

import { z } from 'zod';

import { CapstanError } from '../lib/errors.ts';
import { isSchedulerAddress, SCHEDULER_RULE } from '../lib/owner/addresses.ts';
import { telemetrySettings } from '../lib/telemetry/settings.ts';
import { tlsSettings } from '../lib/tls-settings.ts';
import { ISOLATION_SETTINGS } from './sandbox/isolation-setting.ts';
import { DESTINATION_RULE, readDestination } from './sandbox/network/destinations.ts';
import { readSettings, setting } from '../lib/settings.ts';
import { otlpExport } from '../lib/telemetry/otlp-protocol.ts';

const whole = (max: number): z.ZodCoercedNumber => z.coerce.number().int().min(0).max(max);
const DAY_MS = 86_400_000;

const destinationList = z.preprocess(
  (text) => (typeof text === 'string' ? text.split(',').flatMap((each) => each.trim() || []) : text),
  z.array(
    z.string().transform((text, context) => {
      const destination = readDestination(text);
      if (destination !== undefined) return destination;
      context.addIssue({ code: 'custom', message: `${JSON.stringify(text)} ${DESTINATION_RULE}` });
      return z.NEVER;
    }),
  ),
);

const pathList = z.preprocess(
  (value) => (typeof value === 'string' ? value.split(':').filter(Boolean) : value),
  z.array(z.string().startsWith('/', 'must be absolute paths, separated by colons')),
);

export const agentConfig = z.object({
  dataDir: setting(
    'CAPSTAN_DATA_DIR',
    z.string().min(1).default('.capstan'),
    'Data folder; the agent keeps all of its data in the subfolder `agent`',
  ),
  scheduler: setting(
    'CAPSTAN_SCHEDULER',
    z.string().refine(isSchedulerAddress, SCHEDULER_RULE).default('127.0.0.1:7070'),
    'Addresses of the schedulers, `host:port`, separated by commas; a host name stands for all of its addresses (cluster.md). Or `unix:<path>`',
  ),
  ...tlsSettings,
  ...telemetrySettings,
  joinToken: setting('CAPSTAN_JOIN_TOKEN', z.string().min(1).optional(), 'Secret with which a new node joins; not used after that'),
  joinTokenFile: setting(
    'CAPSTAN_JOIN_TOKEN_FILE',
    z.string().min(1).optional(),
    'File whose first line is the join token, read at each join',
  ),
  publicUrl: setting(
    'CAPSTAN_PUBLIC_URL',
    z.union([z.literal(''), z.url({ protocol: /^https?$/, error: 'must be an http or https URL' })]).default(''),
    'Base URL of the HTTP API as workers of this node reach it; the scheduler’s setting when empty',
  ),
  nodeName: setting(
    'CAPSTAN_NODE_NAME',
    z.string().min(1).max(128).default(hostname()),
    'Display name of the node; the host name when empty',
  ),
  logLevel: setting(
    'CAPSTAN_LOG_LEVEL',
    z.enum(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent']).default('info'),
    'Minimum level of log lines',
  ),
  nvidiaSmi: setting('CAPSTAN_NVIDIA_SMI', z.string().min(1).default('nvidia-smi'), 'The nvidia-smi program: a path, or a name on PATH'),
  nvidiaSmiTimeoutMs: setting('CAPSTAN_NVIDIA_SMI_TIMEOUT_MS', whole(600_000).default(20_000), 'Timeout of one call of nvidia-smi, ms'),
  kernelLog: setting(
    'CAPSTAN_KERNEL_LOG',
    z.string().min(1).default('/dev/kmsg'),
    'The kernel log, where the NVIDIA driver writes its errors (Xid); ignored when the agent has no permission to read it',
  ),
  inventoryMs: setting(
    'CAPSTAN_INVENTORY_MS',
    whole(3_600_000).default(5_000),
    'Interval between light probes of devices and host, ms; a failing worker with GPUs triggers one immediately',
  ),
  gpuViewMs: setting(
    'CAPSTAN_GPU_VIEW_MS',
    whole(DAY_MS).default(30_000),
    'Interval at which the agent looks from the place of each worker with GPUs whether it can use them, ms; a failed job, or a line of the worker about NVML, triggers a look immediately',
  ),
  inventoryFullMs: setting('CAPSTAN_INVENTORY_FULL_MS', whole(DAY_MS).default(300_000), 'Interval between full probes of the devices, ms'),
  cacheBytes: setting(
    'CAPSTAN_CACHE_BYTES',
    whole(Number.MAX_SAFE_INTEGER).default(20_000_000_000),
    'Disk space for unpacked builds, bytes; builds in use are kept beyond it',
  ),
  spareHosts: setting('CAPSTAN_SPARE_HOSTS', whole(64).default(1), 'Host processes kept started in advance for each runtime and language'),
  drainMs: setting('CAPSTAN_DRAIN_MS', whole(DAY_MS).default(10_000), 'Time that running jobs have to finish when the agent stops, ms'),
  logFileBytes: setting(
    'CAPSTAN_LOG_FILE_BYTES',
    whole(Number.MAX_SAFE_INTEGER).default(10_000_000),
    "Size at which a segment of an endpoint's log is closed and compressed, bytes",
  ),
  logEndpointBytes: setting(
    'CAPSTAN_LOG_ENDPOINT_BYTES',
    whole(Number.MAX_SAFE_INTEGER).default(256_000_000),
    'Disk space for the log lines of an endpoint on this node, bytes; its oldest segments are deleted first',
  ),
  logDays: setting('CAPSTAN_LOG_DAYS', whole(3_650).min(1).default(7), 'How long log lines are kept, days'),
  logAccountBytes: setting(
    'CAPSTAN_LOG_ACCOUNT_BYTES',
    whole(Number.MAX_SAFE_INTEGER).default(2_000_000_000),
    'Disk space for the log lines of an account’s endpoints on this node, bytes; the oldest segments of the account are deleted first',
  ),
  forwardQueueLines: setting(
    'OTEL_BLRP_MAX_QUEUE_SIZE',
    whole(1_000_000).min(1).default(2_048),
    'Log lines that wait to be forwarded (logs.md); further ones are dropped and counted',
  ),
  forwardBatchLines: setting(
    'OTEL_BLRP_MAX_EXPORT_BATCH_SIZE',
    whole(10_000).min(1).default(512),
    'Most log lines that are forwarded at once',
  ),
  forwardDelayMs: setting(
    'OTEL_BLRP_SCHEDULE_DELAY',
    whole(3_600_000).min(1).default(1_000),
    'How long a log line waits for others to be forwarded with, ms',
  ),
  forwardTimeoutMs: setting(
    'OTEL_BLRP_EXPORT_TIMEOUT',
    whole(3_600_000).min(1).default(30_000),
    'Longest time of forwarding one batch of log lines, tries included, ms; then it is dropped',
  ),
  workerApiHost: setting(
    'CAPSTAN_WORKER_API_HOST',
    z.string().min(1).default('127.0.0.1'),
    'Address that the worker HTTP API for foreign workers listens on',
  ),
  workerApiPort: setting('CAPSTAN_WORKER_API_PORT', whole(65_535).default(0), 'Port of the worker HTTP API; 0 picks a free port'),
  workerPingMs: setting(
    'CAPSTAN_WORKER_PING_MS',
    whole(3_600_000).min(1_000).default(10_000),
    'Interval of the pings that foreign workers send, ms; whole seconds',
  ),
  workerFetchMs: setting(
    'CAPSTAN_WORKER_FETCH_MS',
    whole(DAY_MS).min(1_000).default(60_000),
    'Time within which an idle foreign worker must fetch a waiting job, ms; after that it counts as hung and is replaced',
  ),
  isolation: setting(
    'CAPSTAN_ISOLATION',
    z.enum(ISOLATION_SETTINGS).default('auto'),
    'How strongly thread and process workers are isolated (sandboxes.md): `sandbox`, `user`, `none`, or `auto` for the strongest of them that works here. The agent does not start when the named level does not work',
  ),
  workerNetwork: setting(
    'CAPSTAN_WORKER_NETWORK',
    z.enum(['auto', 'outbound', 'host']).default('auto'),
    'Network of thread and process workers whose endpoint and account name none (worker-network.md): `outbound` (public addresses and the gateway), `host`, or `auto` for `outbound` where it works, else `host`, or `none` for accounts whose rule is `auto` (account-rules.md). The agent does not start when `outbound` is named and does not work',
  ),
  workerNetworkAllow: setting(
    'CAPSTAN_WORKER_NETWORK_ALLOW',
    destinationList.default([]),
    'More destinations of workers with the network `outbound`, separated by commas: 10.0.0.5, 10.1.0.0/16, 10.0.0.5:5432, [fd00::5]:5432',
  ),
  sandboxTmpBytes: setting(
    'CAPSTAN_SANDBOX_TMP_BYTES',
    whole(Number.MAX_SAFE_INTEGER).min(1_048_576).default(1_073_741_824),
    'Size of /tmp, and of the working folder, in a sandbox, bytes each; their contents are in memory',
  ),
  sandboxShmBytes: setting(
    'CAPSTAN_SANDBOX_SHM_BYTES',
    whole(Number.MAX_SAFE_INTEGER).min(65_536).default(1_073_741_824),
    'Size of /dev/shm in a sandbox, bytes',
  ),
  sandboxPaths: setting(
    'CAPSTAN_SANDBOX_PATHS',
    pathList.default([]),
    'More files and folders of the host that workers in sandboxes read, such as models: absolute paths, separated by colons',
  ),
  workerPids: setting(
    'CAPSTAN_WORKER_PIDS',
    z.coerce.number().int().min(32).max(4_194_304).default(4_096),
    'Limit on the processes and threads of one worker that is not a container, where the agent may create control groups',
  ),
  containerSocket: setting(
    'CAPSTAN_CONTAINER_SOCKET',
    z.string().min(1).default('auto'),
    "Socket of the container engine: a path; `auto` for the default paths of Docker and Podman; `none` for no engine (the agent ignores Docker's own DOCKER_HOST)",
  ),
  containerNetwork: setting(
    'CAPSTAN_CONTAINER_NETWORK',
    z.string().min(1).default('auto'),
    "Network of worker containers: a network of the engine, `host`, `none`, or `auto`: the engine's bridge, if it has one, else `none` (`host` for foreign workers)",
  ),
  containerOutboundNetwork: setting(
    'CAPSTAN_CONTAINER_OUTBOUND_NETWORK',
    z.string().min(1).optional(),
    'Network of the engine for containers of workers with the network `outbound`: one whose rules keep them from private addresses. Without it the node offers no `outbound` to containers',
  ),
  containerRuntime: setting(
    'CAPSTAN_CONTAINER_RUNTIME',
    z.string().min(1).optional(),
    "Runtime of the engine for worker containers, for instance `runsc` (gVisor); the engine's default when empty",
  ),
  containerReadOnly: setting(
    'CAPSTAN_CONTAINER_READ_ONLY',
    z.enum(['base-images', 'always', 'never']).default('base-images'),
    'Images whose containers get a read-only root, with an in-memory /tmp that is also HOME',
  ),
  containerTmpBytes: setting(
    'CAPSTAN_CONTAINER_TMP_BYTES',
    whole(Number.MAX_SAFE_INTEGER).default(1_073_741_824),
    "Size of that /tmp, bytes; its contents count towards the container's memory",
  ),
  containerShmBytes: setting(
    'CAPSTAN_CONTAINER_SHM_BYTES',
    whole(Number.MAX_SAFE_INTEGER).default(1_073_741_824),
    'Size of /dev/shm in a container, bytes',
  ),
  containerPids: setting(
    'CAPSTAN_CONTAINER_PIDS',
    z.coerce.number().int().min(16).max(4_194_304).default(4_096),
    'Limit on the processes and threads of one container',
  ),
  containerSpares: setting(
    'CAPSTAN_CONTAINER_SPARES',
    whole(64).default(2),
    'Containers kept started in advance, one for each kind (image, devices, limits) that workers of this node used most recently; none while less than a tenth of the memory is free',
  ),
  containerSpareMs: setting(
    'CAPSTAN_CONTAINER_SPARE_MS',
    whole(DAY_MS).default(600_000),
    'How long such a container is kept after the last start or end of a worker of its kind, ms',
  ),
  containerGpus: setting(
    'CAPSTAN_CONTAINER_GPUS',
    z.enum(['nvidia', 'cdi', 'environment']).default('nvidia'),
    "How containers get their GPUs: device requests of Docker's NVIDIA driver, CDI names (Podman), or only NVIDIA_VISIBLE_DEVICES, for an engine whose default runtime is NVIDIA's",
  ),
  registryAuthFile: setting(
    'CAPSTAN_REGISTRY_AUTH_FILE',
    z.string().min(1).optional(),
    'Credentials for image registries: a file in the format of `docker login` (config.json), read at each pull',
  ),
  workerUids: setting(
    'CAPSTAN_WORKER_UIDS',
    z.string().min(1).optional(),
    'User ids of workers when the agent is root, `<first>-<last>`, the same for all agents of a host; 1900000000-1900065535, or 30000-59999 in a container with few ids, when empty',
  ),
  workerDir: setting(
    'CAPSTAN_WORKER_DIR',
    z.string().startsWith('/', 'must be an absolute path').default('/var/lib/capstan-workers'),
    'Folder of the workers’ folders when each has a user id of its own (level `user`), outside of the data folder; every user must be able to pass through its parents',
  ),
  otelEnv: setting(
    '',
    z.record(z.string(), z.string()).default({}),
    "The variables OTEL_* of the agent's environment, for OpenTelemetry's libraries; workers do not receive them",
  ),
  hostEnv: setting(
    '',
    z.record(z.string(), z.string()).default({}),
    'Environment variables that worker hosts inherit: PATH, HOME, USER, LANG, LC_ALL, TZ, TMPDIR, LD_LIBRARY_PATH, CUDA_HOME, and those that name certificate authorities: NODE_EXTRA_CA_CERTS, SSL_CERT_FILE, SSL_CERT_DIR, REQUESTS_CA_BUNDLE',
  ),
});

export type AgentConfig = Readonly<z.output<typeof agentConfig>>;
export type AgentConfigInput = z.input<typeof agentConfig>;

/**
 * Names that worker hosts receive. The agent's environment may hold its own secrets (join token, API key), so only
 * these names are passed on.
 */
const INHERITED = [
  ...['PATH', 'HOME', 'USER', 'LANG', 'LC_ALL', 'TZ', 'TMPDIR', 'LD_LIBRARY_PATH', 'CUDA_HOME'],
  // Calls between endpoints go to a gateway whose certificate may be signed by the operator's own authority.
  ...['NODE_EXTRA_CA_CERTS', 'SSL_CERT_FILE', 'SSL_CERT_DIR', 'REQUESTS_CA_BUNDLE'],
];

/**
 * Reads the agent's settings: overrides (flags, tests), then the environment, then the defaults. Throws CONFIG, which
 * names the invalid setting.
 */
export function readConfig(overrides: Partial<AgentConfigInput> = {}, env: NodeJS.ProcessEnv = process.env): AgentConfig {
  const given = {
    ...overrides,
    hostEnv: overrides.hostEnv ?? hostEnvironment(env),
    otelEnv: overrides.otelEnv ?? telemetryEnvironment(env),
  };
  const config = readSettings(agentConfig, given, env);
  // Refuses what is not supported, before anything starts.
  otlpExport('LOGS', config.otelEnv);
  return Object.freeze({ ...config, dataDir: resolve(config.dataDir) });
}

/**
 * Returns the join token, if one is configured. Reads its file each time, since the file may appear later. Throws
 * CONFIG.
 */
export function readJoinToken(config: AgentConfig): string | undefined {
  if (config.joinToken !== undefined) return config.joinToken;
  if (config.joinTokenFile === undefined) return undefined;
  try {
    const [line] = readFileSync(config.joinTokenFile, 'utf8').split('\n');
    return line?.trim() || undefined;
  } catch (error) {
    throw new CapstanError('CONFIG', `CAPSTAN_JOIN_TOKEN_FILE: cannot read ${config.joinTokenFile}`, {
      field: 'joinTokenFile',
      cause: error,
    });
  }
}

function hostEnvironment(env: NodeJS.ProcessEnv): Record<string, string> {
  const kept: Record<string, string> = { PATH: '/usr/local/bin:/usr/bin:/bin', HOME: homedir(), TMPDIR: tmpdir() };
  for (const name of INHERITED) {
    const value = env[name];
    if (value !== undefined) kept[name] = value;
  }
  return kept;
}

function telemetryEnvironment(env: NodeJS.ProcessEnv): Record<string, string> {
  return Object.fromEntries(
    Object.entries(env).flatMap(([name, value]) => (name.startsWith('OTEL_') && value !== undefined ? [[name, value]] : [])),
  );
}
