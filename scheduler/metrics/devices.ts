/** Gauges of the GPUs and MIG slices of connected nodes, as their agents read them every few seconds. */
import { THROTTLE_REASONS } from '../../lib/throttle-reasons.ts';
import type { Device } from '../../proto/gen/capstan/v1/nodes.ts';
import type { State } from '../core/state.ts';
import type { Level } from './levels.ts';

const LABELS = ['node', 'device', 'endpoint', 'account'] as const;

interface Placed {
  readonly device: Device;
  readonly labels: Readonly<Record<(typeof LABELS)[number], string>>;
}

/** The devices of connected nodes; `endpoint` and `account` are those of the worker that has the device, or empty. */
function* placedDevices({ nodes, workers, endpoints }: State): Generator<Placed> {
  for (const [node, { inventory, session, usage }] of nodes) {
    if (session === null) continue;
    for (const device of inventory?.devices ?? []) {
      const endpoint = workers.get(usage.devices.get(device.uuid) ?? '')?.endpoint ?? '';
      const account = endpoints.get(endpoint)?.config.account ?? '';
      yield { device, labels: { node, device: device.uuid, endpoint, account } };
    }
  }
}

/** A gauge whose value a card does not report is absent, not 0. */
export function addDevices(level: Level<State>): void {
  const perDevice = (name: string, help: string, value: (device: Device) => number | bigint | undefined): void =>
    level(name, help, [...LABELS], (gauge, state) => {
      for (const { device, labels } of placedDevices(state)) {
        const now = value(device);
        if (now !== undefined) gauge.set(labels, Number(now));
      }
    });
  perDevice('capstan_device_utilization_ratio', 'Share of time in which a kernel ran, 0 to 1.', ({ utilizationPercent }) =>
    utilizationPercent === undefined ? undefined : utilizationPercent / 100,
  );
  perDevice('capstan_device_memory_bytes', 'Memory of the device.', ({ memoryBytes }) => memoryBytes);
  perDevice('capstan_device_memory_used_bytes', 'Used memory of the device.', ({ memoryUsedBytes }) => memoryUsedBytes);
  perDevice('capstan_device_power_watts', 'Power draw of the GPU.', ({ powerMilliwatts }) =>
    powerMilliwatts === undefined ? undefined : powerMilliwatts / 1_000,
  );
  perDevice('capstan_device_temperature_celsius', 'Temperature of the GPU.', ({ temperatureCelsius }) => temperatureCelsius);
  level('capstan_device_throttle', 'Whether a reason lowers the clocks of the GPU now: 1 or 0.', [...LABELS, 'reason'], (gauge, state) => {
    for (const { device, labels } of placedDevices(state)) {
      if (device.throttleReasons === undefined) continue;
      for (const [bit, reason] of THROTTLE_REASONS) gauge.set({ ...labels, reason }, (device.throttleReasons & bit) === 0n ? 0 : 1);
    }
  });
  level('capstan_device_ecc_errors', 'Memory errors since the driver was loaded.', [...LABELS, 'kind'], (gauge, state) => {
    for (const { device, labels } of placedDevices(state)) {
      if (device.eccCorrected !== undefined) gauge.set({ ...labels, kind: 'corrected' }, Number(device.eccCorrected));
      if (device.eccUncorrected !== undefined) gauge.set({ ...labels, kind: 'uncorrected' }, Number(device.eccUncorrected));
    }
  });
  level(
    'capstan_device_xid_timestamp_seconds',
    'Time of the last error of the driver on the GPU (Xid), by its number.',
    [...LABELS, 'xid'],
    (gauge, state) => {
      for (const { device, labels } of placedDevices(state))
        for (const { code, atMs } of device.xids) gauge.set({ ...labels, xid: String(code) }, Number(atMs) / 1_000);
    },
  );
}
