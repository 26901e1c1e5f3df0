/** What happened at an endpoint over time, in GraphQL. */
import { throttleNames } from '../../lib/throttle-reasons.ts';
import type {
  GetDeviceHistoryRequest,
  GetDeviceHistoryResponse,
  GetHistoryRequest,
  GetHistoryResponse,
  HistoryDurations,
} from '../../proto/gen/capstan/v1/control.ts';

import { whole } from './endpoint-form.ts';
import { milliseconds } from './job-shape.ts';

/** Arguments of the fields about a range of time. */
export interface HistoryArguments {
  readonly endpoint: string;
  readonly from: number;
  readonly to?: number | null;
  readonly step?: number | null;
}

/** @throws CapstanError INVALID_ARGUMENT */
export function historyMessage({ endpoint, from, to, step }: HistoryArguments): GetHistoryRequest {
  return {
    endpointId: endpoint,
    fromMs: milliseconds('from', from),
    toMs: milliseconds('to', to ?? 0),
    stepS: whole('step', step ?? 0),
    byRoute: false,
    noStepPercentiles: false,
  };
}

/** When each step begins, ms since 1970. */
export function timesOf({ fromMs, stepS, steps }: Pick<GetHistoryResponse, 'fromMs' | 'stepS' | 'steps'>): number[] {
  return Array.from({ length: steps }, (_, i) => Number(fromMs) + i * stepS * 1000);
}

export function historyShape(history: GetHistoryResponse): object {
  const { stepS, steps } = history;
  return {
    step: stepS,
    at: timesOf(history),
    openSteps: history.openSteps,
    submitted: history.submitted.map(Number),
    completed: history.completed.map(Number),
    failed: history.failed.map(Number),
    cancelled: history.cancelled.map(Number),
    timedOut: history.timedOut.map(Number),
    expired: history.expired.map(Number),
    lost: history.lost.map(Number),
    inQueue: rounded(history.inQueue),
    longestQueue: rounded(history.longestQueue),
    inProgress: rounded(history.inProgress),
    workers: {
      idle: rounded(history.workersIdle),
      running: rounded(history.workersRunning),
      initializing: rounded(history.workersInitializing),
      throttled: rounded(history.workersThrottled),
      unhealthy: rounded(history.workersUnhealthy),
    },
    delay: durations(history.delay, steps),
    execution: durations(history.execution, steps),
    starts: {
      count: history.starts.map(Number),
      placed: rounded(history.startPlacedMs),
      artifact: rounded(history.startArtifactMs),
      started: rounded(history.startStartedMs),
      loaded: rounded(history.startLoadedMs),
    },
  };
}

export interface DeviceHistoryArguments extends Omit<HistoryArguments, 'endpoint'> {
  readonly node: string;
  readonly device: string;
}

/** @throws CapstanError INVALID_ARGUMENT */
export function deviceHistoryMessage({ node, device, from, to, step }: DeviceHistoryArguments): GetDeviceHistoryRequest {
  return {
    nodeId: node,
    device,
    fromMs: milliseconds('from', from),
    toMs: milliseconds('to', to ?? 0),
    stepS: whole('step', step ?? 0),
  };
}

export function deviceHistoryShape(history: GetDeviceHistoryResponse): object {
  return {
    step: history.stepS,
    at: timesOf(history),
    utilization: rounded(history.utilizationPercent),
    powerWatts: rounded(history.powerWatts),
    memoryUsedBytes: rounded(history.memoryUsedBytes),
    temperatureCelsius: rounded(history.temperatureCelsius),
    throttleReasons: history.throttleReasons.map(throttleNames),
    eccCorrected: rounded(history.eccCorrected),
    eccUncorrected: rounded(history.eccUncorrected),
    xid: history.xid.map((code) => (code === 0 ? null : code)),
  };
}

export function durations(of: HistoryDurations | undefined, steps: number): object {
  const none = Array<number>(steps).fill(Number.NaN);
  return { p50: rounded(of?.p50Ms ?? none), p95: rounded(of?.p95Ms ?? none), p99: rounded(of?.p99Ms ?? none) };
}

/** To hundredths: they came as numbers of 32 bits. Null for what is not there. */
function rounded(values: readonly number[]): (number | null)[] {
  return values.map((value) => (Number.isNaN(value) ? null : Math.round(value * 100) / 100));
}
