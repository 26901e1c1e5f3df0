/** Runs in a thread of its own (hardware.ts): reads the host with systeminformation and posts one result. */
import { parentPort } from 'node:worker_threads';

import information, { type Systeminformation } from 'systeminformation';

import type { HostHardware } from '../../proto/gen/capstan/v1/nodes.ts';

/** Most disks and interfaces that are reported. */
const MAX_LISTED = 32;
/** The host's ends of containers' networks: they come and go with every container. */
const CONTAINER_END = /^veth/;

export interface HardwareReading {
  /** Distribution, its version and the kernel's; empty if the host does not say. */
  readonly os: string;
  readonly cpuModel: string;
  readonly memoryBytes: bigint;
  readonly hardware: HostHardware;
}

async function read(): Promise<HardwareReading> {
  const [system, osInfo, cpu, memory, devices, interfaces] = await Promise.all([
    information.system(),
    information.osInfo(),
    information.cpu(),
    information.mem(),
    information.blockDevices(),
    information.networkInterfaces(),
  ]);
  return {
    os: words([osInfo.distro, osInfo.release, osInfo.kernel]),
    cpuModel: words([cpu.manufacturer, cpu.brand]),
    memoryBytes: bytes(memory.total),
    hardware: {
      manufacturer: system.manufacturer,
      model: system.model,
      isVirtual: system.virtual,
      cpuCores: cpu.physicalCores,
      cpuSockets: cpu.processors,
      swapBytes: bytes(memory.swaptotal),
      disks: devices
        .filter(({ type, size }) => type === 'disk' && size > 0)
        .slice(0, MAX_LISTED)
        .map(diskOf),
      networkInterfaces: [interfaces]
        .flat()
        .filter(({ internal, iface }) => !internal && !CONTAINER_END.test(iface))
        .toSorted((one, other) => Number(other.default) - Number(one.default))
        .slice(0, MAX_LISTED)
        .map(interfaceOf),
    },
  };
}

function diskOf({ name, model, physical, size }: Systeminformation.BlockDevicesData): HostHardware['disks'][number] {
  return { name, model, kind: physical, sizeBytes: bytes(size) };
}

function interfaceOf(each: Systeminformation.NetworkInterfacesData): HostHardware['networkInterfaces'][number] {
  return {
    name: each.iface,
    kind: each.type,
    addresses: [each.ip4, each.ip6].filter((address) => address !== ''),
    mtu: each.mtu ?? 0,
    // The kernel says -1 where an interface has no speed.
    speedMbps: Math.max(0, each.speed ?? 0),
    isDefault: each.default,
  };
}

function bytes(value: number): bigint {
  return BigInt(Math.max(0, Math.trunc(value)));
}

function words(parts: readonly string[]): string {
  return parts.filter((part) => part !== '').join(' ');
}

parentPort?.postMessage(await read());
