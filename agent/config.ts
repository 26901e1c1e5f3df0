/** The agent's configuration: one schema, read once from flags and the environment. */
import { readFileSync } from 'node:fs';
import { homedir, hostname, tmpdir } from 'node:os';
import { resolve } from 'node:path';

import { z } from 'zod';

import { CapstanError } from '../lib/errors.ts';
import { tlsSettings } from '../lib/tls-settings.ts';
import { readSettings, setting } from '../lib/settings.ts';

const whole = (max: number): z.ZodCoercedNumber => z.coerce.number().int().min(0).max(max);
const DAY_MS = 86_400_000;

export const agentConfig = z.object({
  dataDir: setting(
    'CAPSTAN_DATA_DIR',
    z.string().min(1).default('.capstan'),
    'Data folder; the agent keeps everything in its subfolder `agent`',
  ),
  scheduler: setting(
    'CAPSTAN_SCHEDULER',
    z.string().min(1).default('127.0.0.1:7070'),
    'Address of the scheduler, `host:port` or `unix:<path>`',
  ),
  ...tlsSettings,
  joinToken: setting('CAPSTAN_JOIN_TOKEN', z.string().min(1).optional(), 'Secret that lets a new node join; not needed once it has'),
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
    'Name of the node for people; the host name when none is given',
  ),
  logLevel: setting(
    'CAPSTAN_LOG_LEVEL',
    z.enum(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent']).default('info'),
    'Least level that is logged',
  ),
  nvidiaSmi: setting('CAPSTAN_NVIDIA_SMI', z.string().min(1).default('nvidia-smi'), 'The nvidia-smi program, a name on the path or a path'),
  nvidiaSmiTimeoutMs: setting('CAPSTAN_NVIDIA_SMI_TIMEOUT_MS', whole(600_000).default(20_000), 'Time one call of nvidia-smi has, ms'),
  kernelLog: setting(
    'CAPSTAN_KERNEL_LOG',
    z.string().min(1).default('/dev/kmsg'),
    "The kernel's log, where the NVIDIA driver writes its errors (Xid); unread where the agent may not",
  ),
  inventoryMs: setting(
    'CAPSTAN_INVENTORY_MS',
    whole(3_600_000).default(5_000),
    'Time between light probes of devices and host, ms; a worker with GPUs that fails causes one at once',
  ),
  inventoryFullMs: setting('CAPSTAN_INVENTORY_FULL_MS', whole(DAY_MS).default(300_000), 'Time between full probes of the devices, ms'),
  cacheBytes: setting(
    'CAPSTAN_CACHE_BYTES',
    whole(Number.MAX_SAFE_INTEGER).default(20_000_000_000),
    'Size of unpacked builds that are kept, bytes; those in use stay',
  ),
  spareHosts: setting('CAPSTAN_SPARE_HOSTS', whole(64).default(1), 'Host processes of each runtime and language kept started ahead'),
  drainMs: setting('CAPSTAN_DRAIN_MS', whole(DAY_MS).default(10_000), 'Time running jobs have to finish when the agent ends, ms'),
  logFileBytes: setting(
    'CAPSTAN_LOG_FILE_BYTES',
    whole(Number.MAX_SAFE_INTEGER).default(10_000_000),
    "Size at which an endpoint's log file is rotated, bytes; two are kept",
  ),
  logAccountBytes: setting(
    'CAPSTAN_LOG_ACCOUNT_BYTES',
    whole(Number.MAX_SAFE_INTEGER).default(2_000_000_000),
    'Log files of all endpoints of an account on this node, bytes; past it the account’s oldest go',
  ),
  workerApiHost: setting(
    'CAPSTAN_WORKER_API_HOST',
    z.string().min(1).default('127.0.0.1'),
    'Address on which the agent listens for workers that speak the worker HTTP protocol',
  ),
  workerApiPort: setting('CAPSTAN_WORKER_API_PORT', whole(65_535).default(0), 'Its port; 0 takes a free one'),
  workerPingMs: setting(
    'CAPSTAN_WORKER_PING_MS',
    whole(3_600_000).min(1_000).default(10_000),
    'Time between the pings of such workers, ms; whole seconds',
  ),
  workerFetchMs: setting(
    'CAPSTAN_WORKER_FETCH_MS',
    whole(DAY_MS).min(1_000).default(60_000),
    'Time in which such a worker that has no job asks for one that waits for it, ms; then it hangs, and is replaced',
  ),
  containerSocket: setting(
    'CAPSTAN_CONTAINER_SOCKET',
    z.string().min(1).default('auto'),
    "Socket of the container engine: a path; `auto` for the usual places of Docker and Podman; `none` to do without (the agent does not read Docker's own DOCKER_HOST)",
  ),
  containerNetwork: setting(
    'CAPSTAN_CONTAINER_NETWORK',
    z.string().min(1).default('auto'),
    "Network of worker containers: a network of the engine, `host`, `none`, or `auto`: the engine's bridge; without one, none, and for foreign workers the host's",
  ),
  containerReadOnly: setting(
    'CAPSTAN_CONTAINER_READ_ONLY',
    z.enum(['base-images', 'always', 'never']).default('base-images'),
    'Which images get a read-only root, with a /tmp in memory that is also their HOME',
  ),
  containerTmpBytes: setting(
    'CAPSTAN_CONTAINER_TMP_BYTES',
    whole(Number.MAX_SAFE_INTEGER).default(1_073_741_824),
    "Size of that /tmp, bytes; what is in it counts as the container's memory",
  ),
  containerShmBytes: setting(
    'CAPSTAN_CONTAINER_SHM_BYTES',
    whole(Number.MAX_SAFE_INTEGER).default(1_073_741_824),
    'Size of /dev/shm in a container, bytes',
  ),
  containerPids: setting(
    'CAPSTAN_CONTAINER_PIDS',
    z.coerce.number().int().min(16).max(4_194_304).default(4_096),
    'Processes and threads that one container may have',
  ),
  containerSpares: setting(
    'CAPSTAN_CONTAINER_SPARES',
    whole(64).default(2),
    'Containers kept started ahead, one for each kind (image, devices, limits) that workers of this node used last; none where less than a tenth of the memory is free',
  ),
  containerSpareMs: setting(
    'CAPSTAN_CONTAINER_SPARE_MS',
    whole(DAY_MS).default(600_000),
    'Time after the last start or end of a worker of its kind that such a container is kept, ms',
  ),
  containerGpus: setting(
    'CAPSTAN_CONTAINER_GPUS',
    z.enum(['nvidia', 'cdi', 'environment']).default('nvidia'),
    "How containers get their GPUs: device requests of Docker's NVIDIA driver, CDI names (Podman), or NVIDIA_VISIBLE_DEVICES alone for an engine whose default runtime is NVIDIA's",
  ),
  registryAuthFile: setting(
    'CAPSTAN_REGISTRY_AUTH_FILE',
    z.string().min(1).optional(),
    'Credentials for image registries: a file as `docker login` writes it (config.json), read at each pull',
  ),
  hostEnv: setting(
    '',
    z.record(z.string(), z.string()).default({}),
    'What worker hosts inherit of the environment: PATH, HOME, USER, LANG, LC_ALL, TZ, TMPDIR, LD_LIBRARY_PATH, CUDA_HOME, and the files of further certificate authorities: NODE_EXTRA_CA_CERTS, SSL_CERT_FILE, SSL_CERT_DIR, REQUESTS_CA_BUNDLE',
  ),
});

export type AgentConfig = Readonly<z.output<typeof agentConfig>>;
export type AgentConfigInput = z.input<typeof agentConfig>;

/** The agent's own secrets (join token, API key) may be in its environment: hosts get these names and no others. */
const INHERITED = [
  ...['PATH', 'HOME', 'USER', 'LANG', 'LC_ALL', 'TZ', 'TMPDIR', 'LD_LIBRARY_PATH', 'CUDA_HOME'],
  // Calls between endpoints go to a gateway whose certificate may be of an authority of the operator's own.
  ...['NODE_EXTRA_CA_CERTS', 'SSL_CERT_FILE', 'SSL_CERT_DIR', 'REQUESTS_CA_BUNDLE'],
];

/** The agent's settings: overrides (flags, tests), then the environment, then the defaults. CONFIG names what is wrong. */
export function readConfig(overrides: Partial<AgentConfigInput> = {}, env: NodeJS.ProcessEnv = process.env): AgentConfig {
  const config = readSettings(agentConfig, { ...overrides, hostEnv: overrides.hostEnv ?? hostEnvironment(env) }, env);
  return Object.freeze({ ...config, dataDir: resolve(config.dataDir) });
}

/** The join token, if one is configured; its file is read each time, since it may appear later. Throws CONFIG. */
export function readJoinToken(config: AgentConfig): string | undefined {
  if (config.joinToken !== undefined) return config.joinToken;
  if (config.joinTokenFile === undefined) return undefined;
  try {
    const [line] = readFileSync(config.joinTokenFile, 'utf8').split('\n');
    return line?.trim() || undefined;
  } catch (error) {
    throw new CapstanError('CONFIG', `CAPSTAN_JOIN_TOKEN_FILE: the file cannot be read: ${config.joinTokenFile}`, {
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
