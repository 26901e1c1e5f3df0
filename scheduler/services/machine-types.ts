/**
 * The machine types of the fleet, for deployers: the number of nodes with each processor, GPUs, packages and images.
 * Equal nodes are one entry, so that single nodes cannot be distinguished.
 */
import type { DeviceType, MachineType } from '../../proto/gen/capstan/v1/control.ts';
import type { Inventory } from '../../proto/gen/capstan/v1/nodes.ts';
import type { State } from '../core/state.ts';
import { baseImagesOf } from './shared-hosts.ts';

const GIB = 1024n ** 3n;

/** Returns the types of the connected nodes that accept work; the largest groups first. */
export function machineTypes(state: State): MachineType[] {
  const types = new Map<string, MachineType>();
  for (const { config, session, inventory } of state.nodes.values()) {
    if (session === null || config.draining || inventory === null) continue;
    const type = typeOf(inventory);
    const key = JSON.stringify(type, (_key, value: unknown) => (typeof value === 'bigint' ? String(value) : value));
    const known = types.get(key);
    types.set(key, { ...type, nodes: (known?.nodes ?? 0) + 1 });
  }
  return [...types].toSorted(([a, x], [b, y]) => y.nodes - x.nodes || (a < b ? -1 : 1)).map(([, type]) => type);
}

/** Lists fields explicitly so that a new field is private by default. */
function typeOf(inventory: Inventory): MachineType {
  const { os, arch, cpuCount, cpuModel, memoryBytes, runtimes, packages, nodeVersion, pythonVersion } = inventory;
  return {
    nodes: 0,
    ...{ os, arch, cpus: cpuCount, cpuModel },
    // Equal machines report memory sizes that differ by the part their firmware reserves.
    memoryBytes: rounded(memoryBytes),
    runtimes: runtimes.toSorted(),
    packages: Object.fromEntries(Object.entries(packages).toSorted(([a], [b]) => (a < b ? -1 : 1))),
    images: baseImagesOf(inventory).toSorted(),
    devices: deviceTypes(inventory),
    ...{ nodeVersion, pythonVersion },
  };
}

function deviceTypes({ devices }: Inventory): DeviceType[] {
  const types = new Map<string, DeviceType>();
  for (const { model, memoryBytes, healthy } of devices) {
    if (!healthy) continue;
    const key = `${model} ${memoryBytes}`;
    types.set(key, { model, memoryBytes, count: (types.get(key)?.count ?? 0) + 1 });
  }
  return [...types].toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([, type]) => type);
}

function rounded(bytes: bigint): bigint {
  return ((bytes + GIB / 2n) / GIB) * GIB;
}
