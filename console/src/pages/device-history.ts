/** The history of a device, as the gateway returns it. */
import type { DeviceHistory } from '../api/graphql/gen/operations.ts';
import type { Device } from './devices.tsx';

export type { DeviceHistory };

/** A device with its history. */
export interface Recorded {
  readonly title: string;
  readonly device: Device;
  readonly history: DeviceHistory;
}
