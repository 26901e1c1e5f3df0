/** Gauges of GPUs (scheduler/metrics/devices.ts): whose each device is, and what a card does not report. */
import test from 'ava';
import { Registry } from 'prom-client';

import { Inventory, type Device } from '../../../proto/gen/capstan/v1/nodes.ts';
import type { State } from '../../../scheduler/core/state.ts';
import { noUsage } from '../../../scheduler/core/state/fleet.ts';
import { addDevices } from '../../../scheduler/metrics/devices.ts';
import { levelsOf } from '../../../scheduler/metrics/levels.ts';

/** A connected node with these devices, of which a worker of the endpoint `model` has the first, and one that is away. */
function stateOf(devices: readonly Partial<Device>[]): Pick<State, 'nodes' | 'workers' | 'endpoints'> {
  const inventory = Inventory.fromPartial({ devices: [...devices] });
  const usage = noUsage();
  usage.devices.set('GPU-a', 'worker');
  const nodes = new Map([
    ['here', { inventory, session: 1, usage }],
    ['away', { inventory, session: null, usage: noUsage() }],
  ]);
  return {
    nodes,
    workers: new Map([['worker', { endpoint: 'model' }]]),
    endpoints: new Map([['model', { config: { account: 'team' } }]]),
  } as unknown as Pick<State, 'nodes' | 'workers' | 'endpoints'>;
}

async function scrape(devices: readonly Partial<Device>[]): Promise<string[]> {
  const registry = new Registry();
  addDevices(levelsOf(registry, () => stateOf(devices) as State));
  return (await registry.metrics()).split('\n').filter((line) => line.startsWith('capstan_'));
}

test('each device of a connected node has its gauges, with the endpoint and account of its worker', async (t) => {
  const full: Partial<Device> = {
    uuid: 'GPU-a',
    memoryBytes: 80n,
    memoryUsedBytes: 20n,
    utilizationPercent: 97,
    powerMilliwatts: 301_500,
    temperatureCelsius: 61,
    throttleReasons: 0x24n,
    eccCorrected: 3n,
    eccUncorrected: 0n,
    xids: [{ code: 48, text: 'double bit error', atMs: 1_700_000_000_000n }],
  };
  const labels = 'node="here",device="GPU-a",endpoint="model",account="team"';
  const lines = await scrape([full]);
  for (const line of [
    `capstan_device_utilization_ratio{${labels}} 0.97`,
    `capstan_device_memory_bytes{${labels}} 80`,
    `capstan_device_memory_used_bytes{${labels}} 20`,
    `capstan_device_power_watts{${labels}} 301.5`,
    `capstan_device_temperature_celsius{${labels}} 61`,
    `capstan_device_throttle{${labels},reason="sw_power_cap"} 1`,
    `capstan_device_throttle{${labels},reason="sw_thermal_slowdown"} 1`,
    `capstan_device_throttle{${labels},reason="hw_slowdown"} 0`,
    `capstan_device_ecc_errors{${labels},kind="corrected"} 3`,
    `capstan_device_ecc_errors{${labels},kind="uncorrected"} 0`,
    `capstan_device_xid_timestamp_seconds{${labels},xid="48"} 1700000000`,
  ])
    t.true(lines.includes(line), `${line}\n${lines.join('\n')}`);
  t.false(lines.some((line) => line.includes('node="away"')));
});

test('what a card does not report is absent, and a device without a worker has no owner', async (t) => {
  const lines = await scrape([{ uuid: 'MIG-1', memoryBytes: 10n }]);
  t.deepEqual(lines, [
    'capstan_device_memory_bytes{node="here",device="MIG-1",endpoint="",account=""} 10',
    'capstan_device_memory_used_bytes{node="here",device="MIG-1",endpoint="",account=""} 0',
  ]);
});
