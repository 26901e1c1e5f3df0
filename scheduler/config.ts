/** Configuration of the scheduler: one schema, read once. */
import { resolve } from 'node:path';

import { z } from 'zod';

import { CapstanError } from '../proto/errors.ts';

export const schedulerConfig = z.object({
  dataDir: z.string().min(1).describe('Folder of the queue, the builds and the secrets'),
  host: z.string().min(1).default('127.0.0.1').describe('Address the gRPC server listens on'),
  port: z.coerce.number().int().min(0).max(65_535).default(7070).describe('Port the gRPC server listens on; 0 takes a free one'),
  apiKey: z.string().min(1).optional().describe("The account's API key at the first start; one is made when it is not given"),
  logLevel: z.enum(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent']).default('info').describe('Least level that is logged'),
  workerQuota: z.coerce.number().int().min(0).default(30).describe('Workers an account may have: the sum of workersMax over its endpoints'),
  maxAttempts: z.coerce
    .number()
    .int()
    .min(1)
    .max(1_000)
    .default(2)
    .describe('Started attempts before a job whose workers died ends FAILED'),
  nodeGraceMs: z.coerce
    .number()
    .int()
    .min(100)
    .default(15_000)
    .describe('How long the jobs of a node without a session are kept for it, ms'),
  heartbeatMs: z.coerce.number().int().min(100).default(2_000).describe('Agents send something at least this often, ms'),
  silenceMs: z.coerce.number().int().min(500).default(10_000).describe('A session silent for this long is dead, ms'),
  runRetentionMs: z.coerce.number().int().min(1_000).default(1_800_000).describe('Results of /run are kept this long after the end, ms'),
  runsyncRetentionMs: z.coerce
    .number()
    .int()
    .min(1_000)
    .max(300_000)
    .default(60_000)
    .describe('Results of /runsync are kept this long after the end, ms'),
  payloadCacheMb: z.coerce.number().int().min(1).default(64).describe('Inputs of waiting jobs kept in memory, MB'),
});

export type SchedulerConfig = z.infer<typeof schedulerConfig>;

/** Environment variables, by option. */
export const schedulerEnv: Readonly<Record<keyof SchedulerConfig, string>> = {
  dataDir: 'CAPSTAN_DATA_DIR',
  host: 'CAPSTAN_GRPC_HOST',
  port: 'CAPSTAN_GRPC_PORT',
  apiKey: 'SERVICE_API_KEY',
  logLevel: 'CAPSTAN_LOG_LEVEL',
  workerQuota: 'CAPSTAN_WORKER_QUOTA',
  maxAttempts: 'CAPSTAN_MAX_ATTEMPTS',
  nodeGraceMs: 'CAPSTAN_NODE_GRACE_MS',
  heartbeatMs: 'CAPSTAN_HEARTBEAT_MS',
  silenceMs: 'CAPSTAN_SILENCE_MS',
  runRetentionMs: 'CAPSTAN_RUN_RETENTION_MS',
  runsyncRetentionMs: 'CAPSTAN_RUNSYNC_RETENTION_MS',
  payloadCacheMb: 'CAPSTAN_PAYLOAD_CACHE_MB',
};

/** The configuration from overrides (flags, tests), then the environment, then the defaults. CONFIG names what is wrong. */
export function readConfig(
  overrides: Partial<Record<keyof SchedulerConfig, unknown>> = {},
  env: NodeJS.ProcessEnv = process.env,
): SchedulerConfig {
  const given: Record<string, unknown> = {};
  for (const [option, variable] of Object.entries(schedulerEnv)) {
    const value = overrides[option as keyof SchedulerConfig] ?? env[variable];
    if (value !== undefined && value !== '') given[option] = value;
  }
  const parsed = schedulerConfig.safeParse(given);
  if (parsed.success) return Object.freeze({ ...parsed.data, dataDir: resolve(parsed.data.dataDir) });
  const issue = parsed.error.issues[0];
  const option = String(issue?.path[0] ?? '');
  throw new CapstanError('CONFIG', `${schedulerEnv[option as keyof SchedulerConfig] ?? option}: ${issue?.message ?? 'is not valid'}`, {
    field: option,
  });
}
