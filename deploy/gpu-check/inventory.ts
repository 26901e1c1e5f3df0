/** The inventory of the service against nvidia-smi. */
import { setTimeout as pause } from 'node:timers/promises';

import { gpus, throttleReasons, type GpuRow } from './nvidia.ts';
import { act, type World } from './world.ts';

interface Device {
  readonly uuid: string;
  readonly model: string;
  readonly memoryBytes: number;
  readonly healthy: boolean;
  readonly problem: string | null;
  readonly driverVersion: string | null;
  readonly cudaVersion: string | null;
  readonly powerWatts: number | null;
  readonly utilizationPercent: number | null;
  readonly temperatureCelsius: number | null;
  readonly eccUncorrected: number | null;
  readonly xids: readonly { readonly code: number }[];
}

const QUERY = `{ nodes { devices { uuid model memoryBytes healthy problem driverVersion cudaVersion powerWatts utilizationPercent
  temperatureCelsius eccUncorrected xids { code } } } }`;
/** Agents read the gauges every 5 s; a change of gauges alone is reported every 30 s. */
const REPORTED_MS = 40_000;
/** Most time of each check, s. */
const GAUGES_S = 60;
const THROTTLE_S = 40;
/** Length of one job of the load, s. */
const LOAD_S = 4;
const BUSY_PERCENT = 50;
/** NVML's bits and the names of the service. */
const REASONS: readonly (readonly [bigint, string])[] = [
  [0x04n, 'sw_power_cap'],
  [0x08n, 'hw_slowdown'],
  [0x10n, 'sync_boost'],
  [0x20n, 'sw_thermal_slowdown'],
  [0x40n, 'hw_thermal_slowdown'],
  [0x80n, 'hw_power_brake_slowdown'],
];
const CLOSE = { utilization: 5, powerShare: 0.15, powerWatts: 15, celsius: 4 };

async function devicesOf({ service }: World): Promise<readonly Device[]> {
  const { nodes } = await service.graphql<{ nodes: readonly { devices: readonly Device[] }[] }>(QUERY);
  return nodes.flatMap(({ devices }) => devices);
}

/** Facts that do not change. */
export async function checkFacts(world: World): Promise<void> {
  const { report } = world;
  const rows = await gpus();
  report.fact('gpus', rows);
  await report.run('inventory: each GPU, with its facts', 'as nvidia-smi', 20, async () => {
    const devices = await devicesOf(world);
    report.fact('devices', devices);
    const wrong = rows.flatMap((row) => (row['mig.mode.current'] === 'Enabled' ? [] : differences(row, devices)));
    const whole = rows.filter((row) => row['mig.mode.current'] !== 'Enabled').length;
    return { passed: wrong.length === 0, value: wrong.length === 0 ? `${whole} whole of ${rows.length}` : wrong.join('; ') };
  });
  await report.run('inventory: Xid and ECC are read', 'present where the card has them', 20, async () => {
    const devices = await devicesOf(world);
    const withEcc = rows.filter((row) => /^\d+$/.test(row['ecc.errors.uncorrected.volatile.total']));
    const missing = withEcc.filter((row) => devices.find(({ uuid }) => uuid === row.uuid)?.eccUncorrected === null);
    const xids = devices.flatMap((device) => device.xids.map(({ code }) => code));
    return { passed: missing.length === 0, value: `${withEcc.length} with ECC, Xids ${xids.length === 0 ? 'none' : xids.join()}` };
  });
}

function differences(row: GpuRow, devices: readonly Device[]): string[] {
  const device = devices.find(({ uuid }) => uuid === row.uuid);
  if (device === undefined) return [`${row.uuid} is missing`];
  const mebibytes = Math.round(device.memoryBytes / 2 ** 20);
  return [
    device.model === row.name ? '' : `name ${device.model}, not ${row.name}`,
    String(mebibytes) === row['memory.total'] ? '' : `memory ${mebibytes} MiB, not ${row['memory.total']}`,
    device.driverVersion === row.driver_version ? '' : `driver ${String(device.driverVersion)}, not ${row.driver_version}`,
    device.cudaVersion === null ? 'no CUDA version' : '',
    device.healthy ? '' : `not healthy: ${device.problem ?? ''}`,
  ].filter((text) => text !== '');
}

/** Gauges, idle or under load: both sides are read several times, since they change. */
export async function checkGauges(world: World, load?: Load): Promise<void> {
  const when = load === undefined ? 'idle' : 'under load';
  await world.report.run(`inventory: gauges ${when}`, 'near nvidia-smi', GAUGES_S, async () => {
    if (load !== undefined) await untilBusy(load);
    const latest = performance.now() + REPORTED_MS;
    let last = '';
    for (;;) {
      const [rows, devices] = await Promise.all([gpus(), devicesOf(world)]);
      const wrong = rows.filter((row) => row['mig.mode.current'] !== 'Enabled').flatMap((row) => farGauges(row, devices));
      last = wrong.join('; ');
      if (wrong.length === 0) {
        const [row] = rows;
        return {
          passed: true,
          value: `${row?.['utilization.gpu'] ?? ''} %, ${row?.['power.draw'] ?? ''} W, ${row?.['temperature.gpu'] ?? ''} °C`,
        };
      }
      if (performance.now() > latest) return { passed: false, value: last };
      await pause(1_000);
    }
  });
}

function farGauges(row: GpuRow, devices: readonly Device[]): string[] {
  const device = devices.find(({ uuid }) => uuid === row.uuid);
  if (device === undefined) return [`${row.uuid} is missing`];
  const far = (name: string, own: number | null, theirs: string, most: (value: number) => number): string => {
    const value = Number(theirs);
    if (theirs === '' || Number.isNaN(value)) return '';
    return own !== null && Math.abs(own - value) <= most(value) ? '' : `${name} ${String(own)}, not ${theirs}`;
  };
  return [
    far('utilization', device.utilizationPercent, row['utilization.gpu'], () => CLOSE.utilization),
    far('power', device.powerWatts, row['power.draw'], (watts) => Math.max(CLOSE.powerWatts, watts * CLOSE.powerShare)),
    far('temperature', device.temperatureCelsius, row['temperature.gpu'], () => CLOSE.celsius),
  ].filter((text) => text !== '');
}

async function untilBusy(load: Load): Promise<void> {
  for (;;) {
    if (load.error !== undefined) throw new Error('the load has failed');
    // A card in MIG mode reports no utilization.
    const busy = (await gpus()).filter((row) => !/^\d+$/.test(row['utilization.gpu']) || Number(row['utilization.gpu']) >= BUSY_PERCENT);
    if (busy.length > 0) return;
    await pause(250);
  }
}

/** The reasons for lower clocks in the metrics of the service against nvidia-smi's mask. They change: one match is enough. */
export async function checkThrottle(world: World): Promise<void> {
  await world.report.run('inventory: reasons for lower clocks', 'as nvidia-smi', THROTTLE_S, async () => {
    const latest = performance.now() + THROTTLE_S * 900;
    for (;;) {
      const [masks, metrics] = await Promise.all([throttleReasons(), world.service.metrics()]);
      if (masks === undefined) return { passed: true, value: 'nvidia-smi has no such column' };
      const wrong = [...masks].flatMap(([uuid, mask]) => {
        const theirs = REASONS.filter(([bit]) => (mask & bit) !== 0n).map(([, name]) => name);
        const lines = metrics
          .split('\n')
          .filter((line) => line.startsWith('capstan_device_throttle{') && line.includes(`device="${uuid}"`));
        const own = REASONS.map(([, name]) => name).filter((name) =>
          lines.some((line) => line.includes(`reason="${name}"`) && line.endsWith(' 1')),
        );
        return own.join() === theirs.join() ? [] : [`${own.join() || 'none'}, not ${theirs.join() || 'none'}`];
      });
      if (wrong.length === 0) return { passed: true, value: [...masks.values()].map((mask) => `0x${mask.toString(16)}`).join() };
      if (performance.now() > latest) return { passed: false, value: wrong.join('; ') };
      await pause(500);
    }
  });
}

/** Jobs that compute while a check looks. */
interface Load {
  haveChecksEnded: boolean;
  error: Error | undefined;
}

/** The gauges while a worker computes, in short jobs one after the other until both checks have ended. */
export async function checkUnderLoad(world: World): Promise<void> {
  const load: Load = { haveChecksEnded: false, error: undefined };
  const computing = (async () => {
    while (!load.haveChecksEnded) await act<number>(world, 'matmul', { seconds: LOAD_S });
  })().catch((error: unknown) => {
    load.error = error instanceof Error ? error : new Error('the load failed', { cause: error });
  });
  await checkGauges(world, load);
  await checkThrottle(world);
  load.haveChecksEnded = true;
  await world.report.run('inventory: the load itself', 'completes', LOAD_S + 20, async () => {
    await computing;
    return { passed: load.error === undefined, value: load.error === undefined ? 'matrix products' : load.error.message };
  });
}
