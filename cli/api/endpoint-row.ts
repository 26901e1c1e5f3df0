/** An endpoint as the tool prints it. */
import { EndpointKind } from '../../proto/gen/capstan/v1/common.ts';
import type { EndpointInfo } from '../../proto/gen/capstan/v1/control.ts';

export interface EndpointRow {
  readonly id: string;
  readonly name: string;
  readonly kind: 'queue' | 'load-balanced';
  readonly url: string;
  readonly environment: string;
  readonly workersMin: number;
  readonly workersMax: number;
  readonly workers: number;
  readonly jobsInQueue: number;
  readonly jobsInProgress: number;
  /** Why jobs wait; empty when nothing is wrong (invariant 11). */
  readonly queueReason: string;
  readonly queueDetail: string;
  readonly functions: readonly string[];
  /** `<METHOD> <path>` → function name. */
  readonly routes: Readonly<Record<string, string>>;
  readonly buildDigest: string;
  readonly releaseId: string;
}

/** `base` is that of the HTTP API. */
export function endpointRow(endpoint: EndpointInfo, base: string): EndpointRow {
  const { spec } = endpoint;
  return {
    id: endpoint.id,
    name: spec?.name ?? '',
    kind: spec?.kind === EndpointKind.LOAD_BALANCED ? 'load-balanced' : 'queue',
    url: `${base}/${spec?.kind === EndpointKind.LOAD_BALANCED ? 'lb' : 'v2'}/${endpoint.id}`,
    environment: endpoint.environment,
    workersMin: spec?.workersMin ?? 0,
    workersMax: spec?.workersMax ?? 0,
    workers: endpoint.workers,
    jobsInQueue: endpoint.jobsInQueue,
    jobsInProgress: endpoint.jobsInProgress,
    queueReason: endpoint.queueReason,
    queueDetail: endpoint.queueDetail,
    functions: (spec?.functions ?? []).map(({ name }) => name),
    routes: spec?.routes ?? {},
    buildDigest: endpoint.buildDigest,
    releaseId: endpoint.releaseId,
  };
}
