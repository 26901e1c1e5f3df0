/** Gauges of devices over time, for plots. They show what all accounts do, so operators alone read them. */
import type { ControlServiceServer, GetDeviceHistoryResponse } from '../../proto/gen/capstan/v1/control.ts';
import { nodeNotFound } from '../core/fleet/nodes.ts';
import type { DeviceMinute } from '../history/device-minutes.ts';
import { readDeviceSeries, type DeviceSeries } from '../history/device-series.ts';
import { unary } from './calls.ts';
import type { ControlDeps } from './control-deps.ts';
import { timeOf } from './history-service.ts';

export function deviceHistoryHandlers(deps: ControlDeps): Pick<ControlServiceServer, 'getDeviceHistory'> {
  const { engine, auth, log, clock, deviceHistory } = deps;
  return {
    getDeviceHistory: unary(log, 'GetDeviceHistory', async ({ nodeId, device, fromMs, toMs, stepS }, metadata) => {
      auth.operator(metadata);
      if (!engine.state.nodes.has(nodeId)) throw nodeNotFound(nodeId);
      const now = clock.now().wall;
      const range = { from: timeOf('from', fromMs, now), to: timeOf('to', toMs, now), step: stepS };
      return response(await readDeviceSeries(deviceHistory, { node: nodeId, device, ...range }, now));
    }),
  };
}

function response({ from, step, values }: DeviceSeries): GetDeviceHistoryResponse {
  const series = (of: (value: DeviceMinute) => number | null): number[] => values.map((value) => of(value) ?? Number.NaN);
  return {
    fromMs: BigInt(from),
    stepS: step,
    steps: values.length,
    utilizationPercent: series(({ utilization }) => utilization),
    powerWatts: series(({ power }) => power),
    memoryUsedBytes: series(({ memory }) => memory),
    temperatureCelsius: series(({ temperature }) => temperature),
    throttleReasons: values.map(({ throttle }) => BigInt(throttle)),
    eccCorrected: series(({ eccCorrected }) => eccCorrected),
    eccUncorrected: series(({ eccUncorrected }) => eccUncorrected),
    xid: values.map(({ xid }) => xid),
  };
}
