/** Constants of one scheduler, from its configuration. */
import type { AccountNetwork, IsolationLevel } from '../../lib/isolation.ts';
import { GpuTable } from '../../lib/gpu-table.ts';
import { defaultLimits, DEFAULT_REQUESTS_PER_WORKER, type Limits } from './state/rate-limits.ts';

/** Times in ms. */
export interface Settings {
  /** Defaults of a job's policy. */
  readonly executionTimeoutMs: number;
  readonly ttlMs: number;
  readonly runRetentionMs: number;
  readonly runsyncRetentionMs: number;
  /** Counted from the submission. */
  readonly idempotencyRetentionMs: number;
  /** Charged attempts before a job ends FAILED. */
  readonly maxAttempts: number;
  /** Default quota for the sum of workersMax of an account. */
  readonly workerQuota: number;
  /** Rules for the workers of a new account. */
  readonly accountIsolation: IsolationLevel;
  readonly accountNetwork: AccountNetwork;
  /** Bytes that an account may store in the artifact store, and in bodies of its jobs above the inline size. */
  readonly buildQuotaBytes: number;
  readonly bodyQuotaBytes: number;
  /** Maximum interval between two messages of an agent. */
  readonly heartbeatMs: number;
  /** Silence after which a session is dead. */
  readonly silenceMs: number;
  /** Time for which the leases of a node without a session are kept. */
  readonly nodeGraceMs: number;
  /** Time within which a worker must become ready. */
  readonly startTimeoutMs: number;
  /** A start is recorded in the store if the job still runs after this time. */
  readonly recordStartAfterMs: number;
  /** Queued jobs kept in memory per endpoint and priority. */
  readonly windowSize: number;
  /** Bytes of chunks kept per job, and for all jobs together. */
  readonly streamBytes: number;
  readonly allStreamsBytes: number;
  /** Rate limits of an account's endpoints without their own limits. */
  readonly limits: Limits;
  readonly requestsPerWorker: number;
  /** Concurrent webhook deliveries: in total, and to one host. */
  readonly deliveriesOpen: number;
  readonly deliveriesPerHost: number;
  /** Builds kept for each endpoint, including the present one. */
  readonly buildsKept: number;
  /** Time for which an undeployed build is kept after it was last sent or requested. */
  readonly uploadKeepMs: number;
  /** Base URL of the HTTP API as workers reach it; empty if not configured. */
  readonly publicUrl: string;
  /** The table of GPU types that `gpuIds` selects from. */
  readonly gpus: GpuTable;
  /** Allocatable processor time as a multiple of a node's cores; the same for its memory. */
  readonly cpuOvercommit: number;
  readonly memoryOvercommit: number;
  /** Bytes of a node's memory and disk that are not allocatable. */
  readonly memoryReserveBytes: number;
  readonly diskReserveBytes: number;
  /** Reserved for a worker whose endpoint names neither gpu nor cpu: thousandths of a core, bytes. */
  readonly unsizedCpuMillis: number;
  readonly unsizedMemoryBytes: number;
}

export const defaultSettings: Settings = {
  executionTimeoutMs: 600_000,
  ttlMs: 86_400_000,
  runRetentionMs: 1_800_000,
  runsyncRetentionMs: 60_000,
  idempotencyRetentionMs: 86_400_000,
  maxAttempts: 2,
  workerQuota: 30,
  accountIsolation: 'sandbox',
  accountNetwork: 'auto',
  buildQuotaBytes: 20_000_000_000,
  bodyQuotaBytes: 10_000_000_000,
  heartbeatMs: 2_000,
  silenceMs: 10_000,
  nodeGraceMs: 15_000,
  startTimeoutMs: 900_000,
  recordStartAfterMs: 1_000,
  windowSize: 1_000,
  streamBytes: 16 * 1024 * 1024,
  allStreamsBytes: 128 * 1024 * 1024,
  limits: defaultLimits,
  requestsPerWorker: DEFAULT_REQUESTS_PER_WORKER,
  deliveriesOpen: 256,
  deliveriesPerHost: 8,
  buildsKept: 10,
  uploadKeepMs: 3_600_000,
  publicUrl: '',
  gpus: new GpuTable(),
  cpuOvercommit: 4,
  memoryOvercommit: 1,
  memoryReserveBytes: 512 * 1024 * 1024,
  diskReserveBytes: 512 * 1024 * 1024,
  unsizedCpuMillis: 100,
  unsizedMemoryBytes: 128 * 1024 * 1024,
};
