/** What placement looks at of a node's inventory: without gauges, so that it changes seldom. */
import { imageReference } from '../../../../lib/base-images.ts';
import type { Inventory } from '../../../../proto/gen/capstan/v1/nodes.ts';

import type { GpuFacts } from '../../../../lib/gpu-table.ts';

export interface DeviceFacts extends GpuFacts {
  readonly uuid: string;
  readonly healthy: boolean;
  /** Why it is not. */
  readonly problem: string;
}

/** Devices of one model and memory: a selection means all of them or none. */
export interface DeviceKind extends GpuFacts {
  readonly devices: readonly DeviceFacts[];
}

export interface NodeFacts {
  readonly runtimes: ReadonlySet<string>;
  /** As the host tells it; empty where there is no Python. */
  readonly pythonVersion: string;
  /** Its processor, as Node names it; empty when not told. */
  readonly arch: string;
  readonly packages: ReadonlySet<string>;
  /** Full references of the images that the engine has. */
  readonly images: ReadonlySet<string>;
  /** Digests of the builds in the cache. */
  readonly builds: ReadonlySet<string>;
  readonly devices: readonly DeviceFacts[];
  readonly kinds: readonly DeviceKind[];
  /** Why devices are missing or cannot be read. */
  readonly deviceProblem: string;
  /** The agent has not read its devices yet: that a device is missing here says nothing. */
  readonly devicesUnread: boolean;
  /** Thousandths of a core, without overcommitment; 0 when not told. */
  readonly cpuMillis: number;
  /** 0 when not told. */
  readonly memoryBytes: number;
  /** Free disk, rounded down so that small changes do not show; null when not told. */
  readonly diskFreeBytes: number | null;
  /** Equal for equal facts. */
  readonly digest: string;
}

const DISK_GRAIN = 256 * 1024 * 1024;

export function factsOf(inventory: Inventory): NodeFacts {
  // A device that is told twice is one device.
  const told = [...new Map(inventory.devices.map((device) => [device.uuid, device])).values()];
  const devices = told.map(({ uuid, model, memoryBytes, parentUuid, healthy, problem }) => ({
    uuid,
    model,
    memoryBytes: Number(memoryBytes),
    slice: parentUuid !== '',
    healthy,
    problem,
  }));
  const facts = {
    runtimes: new Set(inventory.runtimes),
    pythonVersion: inventory.pythonVersion,
    arch: inventory.arch,
    packages: new Set(Object.keys(inventory.packages)),
    images: new Set(inventory.images.map(imageReference)),
    builds: new Set(inventory.builds),
    devices,
    deviceProblem: inventory.deviceProblem,
    devicesUnread: inventory.devicesUnread,
    cpuMillis: inventory.cpuCount * 1_000,
    memoryBytes: Number(inventory.memoryBytes),
    diskFreeBytes: inventory.diskBytes === 0n ? null : Math.floor(Number(inventory.diskAvailableBytes) / DISK_GRAIN) * DISK_GRAIN,
  };
  const digest = JSON.stringify(facts, (_key, value: unknown) => (value instanceof Set ? [...(value as Set<string>)].sort() : value));
  return { ...facts, kinds: kindsOf(devices), digest };
}

function kindsOf(devices: readonly DeviceFacts[]): DeviceKind[] {
  const kinds = Map.groupBy(devices, ({ model, memoryBytes, slice }) => `${model} ${memoryBytes} ${slice}`);
  return [...kinds.values()].flatMap((alike) => {
    const [first] = alike;
    if (first === undefined) return [];
    const { model, memoryBytes, slice } = first;
    return [{ model, memoryBytes, slice, devices: alike.toSorted((a, b) => (a.uuid < b.uuid ? -1 : 1)) }];
  });
}
