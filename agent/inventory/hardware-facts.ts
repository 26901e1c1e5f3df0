/** What of systeminformation's answers is reported, as the messages take it: a value that they cannot carry would end the node's stream. */
import type { Systeminformation } from 'systeminformation';

import type { HostHardware } from '../../proto/gen/capstan/v1/nodes.ts';

const MAX_UINT32 = 0xff_ff_ff_ff;
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

/** As the library says them; where a program or a file that it reads is missing, a value may be of another type than declared. */
export interface RawHardware {
  readonly system: Systeminformation.SystemData;
  readonly osInfo: Systeminformation.OsData;
  readonly cpu: Systeminformation.CpuData;
  readonly memory: Systeminformation.MemData;
  readonly devices: readonly Systeminformation.BlockDevicesData[];
  readonly interfaces: readonly Systeminformation.NetworkInterfacesData[];
}

export function readingOf({ system, osInfo, cpu, memory, devices, interfaces }: RawHardware): HardwareReading {
  return {
    os: words([osInfo.distro, osInfo.release, osInfo.kernel]),
    cpuModel: words([cpu.manufacturer, cpu.brand]),
    memoryBytes: bytes(memory.total),
    hardware: {
      manufacturer: text(system.manufacturer),
      model: text(system.model),
      isVirtual: system.virtual,
      cpuCores: count(cpu.physicalCores),
      cpuSockets: count(cpu.processors),
      swapBytes: bytes(memory.swaptotal),
      disks: devices
        .filter(({ type, size }) => type === 'disk' && size > 0)
        .slice(0, MAX_LISTED)
        .map(diskOf),
      networkInterfaces: interfaces
        .filter(({ internal, iface }) => !internal && !CONTAINER_END.test(iface))
        .toSorted((one, other) => Number(other.default) - Number(one.default))
        .slice(0, MAX_LISTED)
        .map(interfaceOf),
    },
  };
}

function diskOf({ name, model, physical, size }: Systeminformation.BlockDevicesData): HostHardware['disks'][number] {
  return { name: text(name), model: text(model), kind: text(physical), sizeBytes: bytes(size) };
}

function interfaceOf(each: Systeminformation.NetworkInterfacesData): HostHardware['networkInterfaces'][number] {
  return {
    name: text(each.iface),
    kind: text(each.type),
    addresses: [each.ip4, each.ip6].map(text).filter((address) => address !== ''),
    mtu: count(each.mtu),
    // The kernel says -1 where an interface has no speed.
    speedMbps: count(each.speed),
    isDefault: each.default,
  };
}

/** Wi-Fi has speeds like 866.7, and an interface that vanishes during the reading has NaN. */
function count(value: unknown): number {
  return typeof value === 'number' && Number.isFinite(value) ? Math.min(Math.max(0, Math.round(value)), MAX_UINT32) : 0;
}

function bytes(value: unknown): bigint {
  if (typeof value !== 'number' || !Number.isFinite(value)) return 0n;
  return BigInt(Math.min(Math.max(0, Math.trunc(value)), Number.MAX_SAFE_INTEGER));
}

function text(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

function words(parts: readonly unknown[]): string {
  return parts
    .map(text)
    .filter((part) => part !== '')
    .join(' ');
}
