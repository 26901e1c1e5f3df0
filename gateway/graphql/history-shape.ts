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
import type * as Schema from './gen/schema.ts';
import { milliseconds } from './job-shape.ts';

/** @throws CapstanError INVALID_ARGUMENT */
export function historyMessage({ endpoint, from, to, step }: Schema.HistoryArguments): GetHistoryRequest {
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

export function historyShape(history: GetHistoryResponse): Schema.History {
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
      placed: roundedOrNull(history.startPlacedMs),
      artifact: roundedOrNull(history.startArtifactMs),
      started: roundedOrNull(history.startStartedMs),
      loaded: roundedOrNull(history.startLoadedMs),
    },
  };
}

/** @throws CapstanError INVALID_ARGUMENT */
export function deviceHistoryMessage({ node, device, from, to, step }: Schema.DeviceHistoryArguments): GetDeviceHistoryRequest {
  return {
    nodeId: node,
    device,
    fromMs: milliseconds('from', from),
    toMs: milliseconds('to', to ?? 0),
    stepS: whole('step', step ?? 0),
  };
}

export function deviceHistoryShape(history: GetDeviceHistoryResponse): Schema.DeviceHistory {
  return {
    step: history.stepS,
    at: timesOf(history),
    utilization: roundedOrNull(history.utilizationPercent),
    powerWatts: roundedOrNull(history.powerWatts),
    memoryUsedBytes: roundedOrNull(history.memoryUsedBytes),
    temperatureCelsius: roundedOrNull(history.temperatureCelsius),
    throttleReasons: history.throttleReasons.map(throttleNames),
    eccCorrected: roundedOrNull(history.eccCorrected),
    eccUncorrected: roundedOrNull(history.eccUncorrected),
    xid: history.xid.map((code) => (code === 0 ? null : code)),
  };
}

export function durations(of: HistoryDurations | undefined, steps: number): Schema.HistoryDurations {
  const none = Array<number>(steps).fill(Number.NaN);
  return { p50: roundedOrNull(of?.p50Ms ?? none), p95: roundedOrNull(of?.p95Ms ?? none), p99: roundedOrNull(of?.p99Ms ?? none) };
}

/** To hundredths: they came as numbers of 32 bits. */
function rounded(values: readonly number[]): number[] {
  return values.map((value) => Math.round(value * 100) / 100);
}

/** The same; null for what is not there. */
function roundedOrNull(values: readonly number[]): (number | null)[] {
  return rounded(values).map((value) => (Number.isNaN(value) ? null : value));
}
