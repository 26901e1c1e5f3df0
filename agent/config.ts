/** The agent's configuration: one schema, read once from the environment and flags. */
import { readFileSync } from 'node:fs';
import { homedir, hostname, tmpdir } from 'node:os';
import { resolve } from 'node:path';

import { z } from 'zod';

import { CapstanError } from '../proto/errors.ts';

const count = (max: number) => z.coerce.number().int().min(0).max(max);

export const configSchema = z.object({
  dataDir: z
    .string()
    .min(1)
    .describe(
      'CAPSTAN_DATA_DIR: data folder; the agent keeps everything in its subfolder `agent`. Default: `.capstan` in the current folder.',
    ),
  scheduler: z
    .string()
    .min(1)
    .default('127.0.0.1:7070')
    .describe('CAPSTAN_SCHEDULER: address of the scheduler, `host:port` or `unix:<path>`. Default: 127.0.0.1:7070.'),
  joinToken: z.string().optional().describe('CAPSTAN_JOIN_TOKEN: secret that lets a new node join. Needed until the node has joined.'),
  joinTokenFile: z
    .string()
    .optional()
    .describe('CAPSTAN_JOIN_TOKEN_FILE: file whose first line is the join token; read at each join. Default: none.'),
  nodeName: z
    .string()
    .min(1)
    .max(200)
    .default(hostname())
    .describe("CAPSTAN_NODE_NAME: the node's name for people. Default: the host name."),
  logLevel: z
    .enum(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'])
    .default('info')
    .describe("CAPSTAN_LOG_LEVEL: least level of the agent's own log. Default: info."),
  nvidiaSmi: z
    .string()
    .min(1)
    .default('nvidia-smi')
    .describe('CAPSTAN_NVIDIA_SMI: the nvidia-smi program, a name on PATH or a path. Default: nvidia-smi.'),
  nvidiaSmiTimeoutMs: count(600_000)
    .default(20_000)
    .describe('CAPSTAN_NVIDIA_SMI_TIMEOUT_MS: time one call of nvidia-smi has, ms. Default: 20000.'),
  inventoryFullMs: count(86_400_000)
    .default(300_000)
    .describe('CAPSTAN_INVENTORY_FULL_MS: time between full probes of the devices, ms. Default: 300000.'),
  inventoryMs: count(3_600_000)
    .default(10_000)
    .describe('CAPSTAN_INVENTORY_MS: time between light probes of devices and host, ms. Default: 10000.'),
  cacheBytes: count(Number.MAX_SAFE_INTEGER)
    .default(20_000_000_000)
    .describe('CAPSTAN_CACHE_BYTES: size that unpacked builds may have together, bytes; builds in use stay. Default: 20000000000.'),
  spareHosts: count(64).default(1).describe('CAPSTAN_SPARE_HOSTS: host processes kept started ahead. Default: 1.'),
  drainMs: count(86_400_000)
    .default(10_000)
    .describe('CAPSTAN_DRAIN_MS: time running jobs have to finish when the agent is told to end, ms. Default: 10000.'),
  logFileBytes: count(Number.MAX_SAFE_INTEGER)
    .default(10_000_000)
    .describe("CAPSTAN_LOG_FILE_BYTES: size at which an endpoint's log file is rotated, bytes; two are kept. Default: 10000000."),
  hostEnv: z
    .record(z.string(), z.string())
    .default({})
    .describe(
      'What worker hosts inherit of the environment: PATH, HOME, USER, LANG, LC_ALL, TZ, TMPDIR, LD_LIBRARY_PATH, CUDA_HOME. Nothing else.',
    ),
});

export type AgentConfig = Readonly<z.output<typeof configSchema>>;
export type AgentConfigInput = z.input<typeof configSchema>;

/** The agent's own secrets (join token, API key) are in its environment: hosts get these names and no others. */
const INHERITED = ['PATH', 'HOME', 'USER', 'LANG', 'LC_ALL', 'TZ', 'TMPDIR', 'LD_LIBRARY_PATH', 'CUDA_HOME'];

/** Reads the environment, overridden by `flags`. Throws CONFIG, naming the variable. */
export function readConfig(flags: Partial<AgentConfigInput> = {}, env: NodeJS.ProcessEnv = process.env): AgentConfig {
  const text = (name: string): string | undefined => (env[name] === '' ? undefined : env[name]);
  const fromEnv = {
    dataDir: resolve(text('CAPSTAN_DATA_DIR') ?? '.capstan'),
    scheduler: text('CAPSTAN_SCHEDULER'),
    joinToken: text('CAPSTAN_JOIN_TOKEN'),
    joinTokenFile: text('CAPSTAN_JOIN_TOKEN_FILE'),
    nodeName: text('CAPSTAN_NODE_NAME'),
    logLevel: text('CAPSTAN_LOG_LEVEL'),
    nvidiaSmi: text('CAPSTAN_NVIDIA_SMI'),
    nvidiaSmiTimeoutMs: text('CAPSTAN_NVIDIA_SMI_TIMEOUT_MS'),
    inventoryFullMs: text('CAPSTAN_INVENTORY_FULL_MS'),
    inventoryMs: text('CAPSTAN_INVENTORY_MS'),
    cacheBytes: text('CAPSTAN_CACHE_BYTES'),
    spareHosts: text('CAPSTAN_SPARE_HOSTS'),
    drainMs: text('CAPSTAN_DRAIN_MS'),
    logFileBytes: text('CAPSTAN_LOG_FILE_BYTES'),
    hostEnv: hostEnvironment(env),
  };
  return parseConfig({ ...fromEnv, ...flags });
}

/** Checks a configuration given as values. Throws CONFIG, naming the setting. */
export function parseConfig(input: unknown): AgentConfig {
  const parsed = configSchema.safeParse(input);
  if (parsed.success) return Object.freeze(parsed.data);
  const [issue] = parsed.error.issues;
  const field = issue?.path.join('.') ?? '';
  throw new CapstanError('CONFIG', `agent setting ${field}: ${issue?.message ?? 'invalid'}`, { field });
}

/** The join token, if one is configured; its file is read each time, since it may appear later. */
export function readJoinToken(config: AgentConfig): string | undefined {
  if (config.joinToken !== undefined) return config.joinToken;
  if (config.joinTokenFile === undefined) return undefined;
  try {
    const [line] = readFileSync(config.joinTokenFile, 'utf8').split('\n');
    return line?.trim() || undefined;
  } catch (error) {
    throw new CapstanError('CONFIG', `the join token file cannot be read: ${config.joinTokenFile}`, {
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
