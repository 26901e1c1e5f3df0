/** A worker as the tool prints it. */
import type { WorkerInfo } from '../../proto/gen/capstan/v1/control.ts';

export interface WorkerRow {
  readonly id: string;
  readonly endpointId: string;
  /** Name of the endpoint. */
  readonly endpoint: string;
  /** State of the worker: `IDLE`, `RUNNING`, … */
  readonly state: string;
  readonly reason: string;
  readonly detail: string;
  readonly jobs: number;
  readonly maxConcurrency: number;
  readonly nodeId: string;
  readonly decision: string;
  readonly devices: readonly string[];
  readonly releaseId: string;
  readonly runtime: string;
  /** Starts that failed in a row. */
  readonly failures: number;
  /** Phases of the last start, ms since it was asked for; 0 when not reached. */
  readonly start: { readonly artifactMs: number; readonly startedMs: number; readonly loadedMs: number };
}

/** `names` are those of the endpoints, by id. */
export function workerRow(
  { status, nodeId, jobs, maxConcurrency, decision, runtime }: WorkerInfo,
  names: ReadonlyMap<string, string>,
): WorkerRow {
  const endpointId = status?.endpointId ?? '';
  return {
    id: status?.workerId ?? '',
    endpointId,
    endpoint: names.get(endpointId) ?? endpointId,
    state: (status?.state ?? '').replace(/^WORKER_STATE_/, ''),
    reason: status?.reason ?? '',
    detail: status?.detail ?? '',
    jobs,
    maxConcurrency,
    nodeId,
    decision,
    devices: status?.deviceUuids ?? [],
    releaseId: status?.releaseId ?? '',
    runtime,
    failures: status?.failures ?? 0,
    start: { artifactMs: status?.artifactMs ?? 0, startedMs: status?.startedMs ?? 0, loadedMs: status?.loadedMs ?? 0 },
  };
}
