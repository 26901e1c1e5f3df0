/** The core's settings, from the scheduler's configuration. */
import type { GpuTable } from '../../lib/gpu-table.ts';
import type { SchedulerConfig } from '../config.ts';
import { defaultSettings, type Settings } from '../core/settings.ts';

const MEBIBYTE = 1024 * 1024;

export function coreSettings(config: SchedulerConfig, gpus: GpuTable): Settings {
  const {
    workerQuota,
    accountIsolation,
    accountNetwork,
    buildQuotaBytes,
    bodyQuotaBytes,
    maxAttempts,
    nodeGraceMs,
    heartbeatMs,
    silenceMs,
    runRetentionMs,
    runsyncRetentionMs,
    idempotencyRetentionMs,
  } = config;
  const { rateLimits: limits, requestsPerWorker, buildsKept, publicUrl } = config;
  const times = { nodeGraceMs, heartbeatMs, silenceMs, runRetentionMs, runsyncRetentionMs, idempotencyRetentionMs };
  const placement = {
    gpus,
    cpuOvercommit: config.cpuOvercommit,
    memoryOvercommit: config.memoryOvercommit,
    memoryReserveBytes: config.memoryReserveMb * MEBIBYTE,
    diskReserveBytes: config.diskReserveMb * MEBIBYTE,
    unsizedCpuMillis: Math.round(config.unsizedCpu * 1_000),
    unsizedMemoryBytes: config.unsizedMemoryMb * MEBIBYTE,
  };
  return {
    ...defaultSettings,
    ...times,
    ...placement,
    workerQuota,
    accountIsolation,
    accountNetwork,
    buildQuotaBytes,
    bodyQuotaBytes,
    maxAttempts,
    limits,
    requestsPerWorker,
    buildsKept,
    publicUrl,
  };
}
