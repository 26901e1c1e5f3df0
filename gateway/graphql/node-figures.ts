/** Converts the capacity and state of a node into the schema's numbers and words. */
import type { NodeInfo } from '../../proto/gen/capstan/v1/control.ts';
import type { HostHardware, NodeIsolation } from '../../proto/gen/capstan/v1/nodes.ts';
import type * as Schema from './gen/schema.ts';
import { orNull, time } from './message-values.ts';

/** Largest Int of GraphQL. */
const MAX_INT = 0x7fff_ffff;

/** Bytes and milliseconds become numbers. A value that the agent does not report is null; texts may be empty. */
export function nodeFigures(node: NodeInfo) {
  const { id, name, connected, draining, workers, jobs, inventory } = node;
  const gauges = node.offerOnly ? undefined : inventory;
  return {
    id,
    name,
    connected,
    lastSeenAt: node.lastSeenMs === undefined ? null : time(node.lastSeenMs),
    draining,
    workers,
    jobs,
    cpus: inventory === undefined ? null : Math.min(inventory.cpuCount, MAX_INT),
    memoryBytes: inventory === undefined ? null : Number(inventory.memoryBytes),
    allocated: { cpus: node.cpuMillisAllocated / 1_000, memoryBytes: Number(node.memoryBytesAllocated), devices: node.devicesAllocated },
    // 0 means that the agent does not report it.
    allocatable: { cpus: node.cpuMillisAllocatable / 1_000 || null, memoryBytes: Number(node.memoryBytesAllocatable) || null },
    memoryAvailableBytes: gauges === undefined ? null : Number(gauges.memoryAvailableBytes),
    // A disk without a size is one that the agent cannot read.
    diskAvailableBytes: gauges === undefined || gauges.diskBytes === 0n ? null : Number(gauges.diskAvailableBytes),
    cpuPercent: gauges?.cpuPercent ?? null,
    runtimes: inventory?.runtimes ?? [],
    packages: inventory?.packages ?? {},
    devices: (inventory?.devices ?? []).map((device) => ({
      uuid: device.uuid,
      model: device.model,
      memoryBytes: Number(device.memoryBytes),
      // 0 where the key may not see it.
      memoryUsedBytes: Number(device.memoryUsedBytes) || null,
      healthy: device.healthy,
      problem: device.problem,
      temperatureCelsius: device.temperatureCelsius ?? null,
      utilizationPercent: device.utilizationPercent ?? null,
      powerWatts: device.powerMilliwatts === undefined ? null : device.powerMilliwatts / 1_000,
      driverVersion: device.driverVersion || null,
      cudaVersion: device.cudaVersion || null,
      computeCapability: device.computeCapability || null,
      eccCorrected: device.eccCorrected === undefined ? null : Number(device.eccCorrected),
      eccUncorrected: device.eccUncorrected === undefined ? null : Number(device.eccUncorrected),
      recoveryAction: device.recoveryAction,
      pciBusId: device.pciBusId,
      xids: device.xids.map(({ code, text, atMs }) => ({ code, text, at: time(atMs) })),
    })),
    deviceProblem: inventory?.deviceProblem ?? '',
    unreachableGateways: inventory?.unreachableGateways ?? [],
    isolation: isolationOf(inventory?.isolation),
    hardware: hardwareOf(inventory?.hardware),
    agentVersion: orNull(node.agentVersion),
  };
}

/** Null from agents that do not report it. */
function isolationOf(isolation: NodeIsolation | undefined): Schema.Isolation | null {
  if (isolation === undefined) return null;
  const { processes, containers, processNetworks, containerNetworks, missing } = isolation;
  return { processes, containers: orNull(containers), processNetworks, containerNetworks, missing };
}

/** A number of a node beyond GraphQL's Int would hide all nodes from their operator. */
function positiveInt(value: number): number | null {
  return value > 0 && value <= MAX_INT ? value : null;
}

/** Null until the agent has read it. A number that the host does not say is null, a text empty. */
function hardwareOf(hardware: HostHardware | undefined): Schema.Hardware | null {
  if (hardware === undefined) return null;
  const { manufacturer, model, isVirtual, cpuCores, cpuSockets, swapBytes, disks, networkInterfaces } = hardware;
  return {
    manufacturer,
    model,
    isVirtual,
    cpuCores: positiveInt(cpuCores),
    cpuSockets: positiveInt(cpuSockets),
    swapBytes: Number(swapBytes),
    disks: disks.map((disk) => ({ ...disk, sizeBytes: Number(disk.sizeBytes) })),
    networkInterfaces: networkInterfaces.map((each) => ({ ...each, mtu: positiveInt(each.mtu), speedMbps: positiveInt(each.speedMbps) })),
  };
}
