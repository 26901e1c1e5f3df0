/** An endpoint as `capstan endpoints get` prints it. */
import type { GetEndpointResponse } from '../../proto/gen/capstan/v1/control.ts';
import { endpointRow, type EndpointRow } from './endpoint-row.ts';
import { shownSettings, type ShownSettings } from './shown-settings.ts';
import { workerRow, type WorkerRow } from './worker-row.ts';

export interface EndpointDetail extends EndpointRow {
  readonly settings: ShownSettings;
  /** By what they do. */
  readonly workerCounts: Readonly<Record<string, number>>;
  readonly workerList: readonly WorkerRow[];
  /** Why no node could take the last worker that was wanted. */
  readonly rejections: readonly {
    readonly reason: string;
    readonly nodes: number;
    readonly examples: readonly { readonly node: string; readonly detail: string }[];
  }[];
  /** Starts that failed in a row. */
  readonly failedStarts: number;
  readonly lastStartError: string;
  /** Oldest first. */
  readonly decisions: readonly {
    /** ISO 8601. */
    readonly at: string;
    readonly kind: string;
    readonly worker: string;
    readonly node: string;
    readonly reason: string;
  }[];
}

/** `base` is that of the HTTP API; null when the answer holds no endpoint. */
export function endpointDetail(detail: GetEndpointResponse, base: string): EndpointDetail | null {
  const { info, workerCounts, workers, rejections, decisions, failedStarts, lastStartError } = detail;
  if (info === undefined) return null;
  const row = endpointRow(info, base);
  return {
    ...row,
    settings: shownSettings(info.spec),
    workerCounts,
    workerList: workers.map((worker) => workerRow(worker, new Map([[row.id, row.name]]))),
    rejections,
    failedStarts,
    lastStartError,
    decisions: decisions.map(({ atMs, kind, workerId, nodeId, reason }) => ({
      at: new Date(Number(atMs)).toISOString(),
      kind,
      worker: workerId,
      node: nodeId,
      reason,
    })),
  };
}
