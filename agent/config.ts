/** The agent's configuration: one schema, read once from flags and the environment. */
import { readFileSync } from 'node:fs';
import { homedir, hostname, tmpdir } from 'node:os';
import { resolve } from 'node:path';

import { z } from 'zod';

import { CapstanError } from '../proto/errors.ts';

const whole = (max: number): z.ZodCoercedNumber => z.coerce.number().int().min(0).max(max);
const DAY_MS = 86_400_000;

export const agentConfig = z.object({
  dataDir: z.string().min(1).default('.capstan').describe('Data folder; the agent keeps everything in its subfolder `agent`'),
  scheduler: z.string().min(1).default('127.0.0.1:7070').describe('Address of the scheduler, `host:port` or `unix:<path>`'),
  joinToken: z.string().min(1).optional().describe('Secret that lets a new node join; not needed once it has'),
  joinTokenFile: z.string().min(1).optional().describe('File whose first line is the join token, read at each join'),
  nodeName: z.string().min(1).max(128).default(hostname()).describe('Name of the node for people; the host name when none is given'),
  logLevel: z.enum(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent']).default('info').describe('Least level that is logged'),
  nvidiaSmi: z.string().min(1).default('nvidia-smi').describe('The nvidia-smi program, a name on the path or a path'),
  nvidiaSmiTimeoutMs: whole(600_000).default(20_000).describe('Time one call of nvidia-smi has, ms'),
  inventoryMs: whole(3_600_000).default(10_000).describe('Time between light probes of devices and host, ms'),
  inventoryFullMs: whole(DAY_MS).default(300_000).describe('Time between full probes of the devices, ms'),
  cacheBytes: whole(Number.MAX_SAFE_INTEGER)
    .default(20_000_000_000)
    .describe('Size of unpacked builds that are kept, bytes; those in use stay'),
  spareHosts: whole(64).default(1).describe('Host processes kept started ahead'),
  drainMs: whole(DAY_MS).default(10_000).describe('Time running jobs have to finish when the agent ends, ms'),
  logFileBytes: whole(Number.MAX_SAFE_INTEGER)
    .default(10_000_000)
    .describe("Size at which an endpoint's log file is rotated, bytes; two are kept"),
  hostEnv: z
    .record(z.string(), z.string())
    .default({})
    .describe('What worker hosts inherit of the environment: PATH, HOME, USER, LANG, LC_ALL, TZ, TMPDIR, LD_LIBRARY_PATH, CUDA_HOME'),
});

export type AgentConfig = Readonly<z.output<typeof agentConfig>>;
export type AgentConfigInput = z.input<typeof agentConfig>;

/** Environment variables, by option. */
export const agentEnv: Readonly<Record<Exclude<keyof AgentConfig, 'hostEnv'>, string>> = {
  dataDir: 'CAPSTAN_DATA_DIR',
  scheduler: 'CAPSTAN_SCHEDULER',
  joinToken: 'CAPSTAN_JOIN_TOKEN',
  joinTokenFile: 'CAPSTAN_JOIN_TOKEN_FILE',
  nodeName: 'CAPSTAN_NODE_NAME',
  logLevel: 'CAPSTAN_LOG_LEVEL',
  nvidiaSmi: 'CAPSTAN_NVIDIA_SMI',
  nvidiaSmiTimeoutMs: 'CAPSTAN_NVIDIA_SMI_TIMEOUT_MS',
  inventoryMs: 'CAPSTAN_INVENTORY_MS',
  inventoryFullMs: 'CAPSTAN_INVENTORY_FULL_MS',
  cacheBytes: 'CAPSTAN_CACHE_BYTES',
  spareHosts: 'CAPSTAN_SPARE_HOSTS',
  drainMs: 'CAPSTAN_DRAIN_MS',
  logFileBytes: 'CAPSTAN_LOG_FILE_BYTES',
};

/** The agent's own secrets (join token, API key) may be in its environment: hosts get these names and no others. */
const INHERITED = ['PATH', 'HOME', 'USER', 'LANG', 'LC_ALL', 'TZ', 'TMPDIR', 'LD_LIBRARY_PATH', 'CUDA_HOME'];

/** The configuration from overrides (flags, tests), then the environment, then the defaults. CONFIG names what is wrong. */
export function readConfig(overrides: Partial<AgentConfigInput> = {}, env: NodeJS.ProcessEnv = process.env): AgentConfig {
  const given: Record<string, unknown> = { hostEnv: overrides.hostEnv ?? hostEnvironment(env) };
  for (const [option, variable] of Object.entries(agentEnv)) {
    const value = overrides[option as keyof AgentConfig] ?? env[variable];
    if (value !== undefined && value !== '') given[option] = value;
  }
  const parsed = agentConfig.safeParse(given);
  if (parsed.success) return Object.freeze({ ...parsed.data, dataDir: resolve(parsed.data.dataDir) });
  const issue = parsed.error.issues[0];
  const option = String(issue?.path[0] ?? '');
  const name = (agentEnv as Readonly<Record<string, string>>)[option] ?? option;
  throw new CapstanError('CONFIG', `${name}: ${issue?.message ?? 'is not valid'}`, { field: option });
}

/** The join token, if one is configured; its file is read each time, since it may appear later. Throws CONFIG. */
export function readJoinToken(config: AgentConfig): string | undefined {
  if (config.joinToken !== undefined) return config.joinToken;
  if (config.joinTokenFile === undefined) return undefined;
  try {
    const [line] = readFileSync(config.joinTokenFile, 'utf8').split('\n');
    return line?.trim() || undefined;
  } catch (error) {
    throw new CapstanError('CONFIG', `${agentEnv.joinTokenFile}: the file cannot be read: ${config.joinTokenFile}`, {
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
