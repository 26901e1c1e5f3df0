/** The inventory of the service against nvidia-smi. */
import { setTimeout as pause } from 'node:timers/promises';

import { gpus, type GpuRow } from './nvidia.ts';
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
/** Agents read the gauges every 5 s and report them every 10 s at most. */
const REPORTED_MS = 20_000;
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
  await report.run('inventory: each GPU, with its facts', 'as nvidia-smi', async () => {
    const devices = await devicesOf(world);
    report.fact('devices', devices);
    const wrong = rows.flatMap((row) => (row['mig.mode.current'] === 'Enabled' ? [] : differences(row, devices)));
    const whole = rows.filter((row) => row['mig.mode.current'] !== 'Enabled').length;
    return { passed: wrong.length === 0, value: wrong.length === 0 ? `${whole} whole of ${rows.length}` : wrong.join('; ') };
  });
  await report.run('inventory: Xid and ECC are read', 'present where the card has them', async () => {
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
export async function checkGauges(world: World, when: string): Promise<void> {
  await world.report.run(`inventory: gauges ${when}`, 'near nvidia-smi', async () => {
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

/** The gauges while a worker computes. */
export async function checkUnderLoad(world: World): Promise<void> {
  const load = act<number>(world, 'matmul', { seconds: 25 });
  await pause(8_000);
  await checkGauges(world, 'under load');
  await load.catch((error: unknown) => world.report.add('inventory: the load', false, String(error), ''));
}
