/** The history of a device, as the gateway returns it. */
import type { Values } from '../ui/plot.tsx';
import type { Device } from './devices.tsx';

export interface DeviceHistory {
  readonly step: number;
  readonly at: readonly number[];
  readonly utilization: Values;
  readonly powerWatts: Values;
  readonly memoryUsedBytes: Values;
  readonly temperatureCelsius: Values;
  readonly throttleReasons: readonly (readonly string[])[];
  readonly eccCorrected: Values;
  readonly eccUncorrected: Values;
  readonly xid: Values;
}

/** A device with its history. */
export interface Recorded {
  readonly title: string;
  readonly device: Device;
  readonly history: DeviceHistory;
}
