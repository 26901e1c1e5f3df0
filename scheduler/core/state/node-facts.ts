/** The part of a node's inventory that placement reads. It contains no gauges, so it changes seldom. */
import { imageReference } from '../../../lib/base-images.ts';
import { isIsolationLevel, isWorkerNetwork, type IsolationLevel, type WorkerNetwork } from '../../../lib/isolation.ts';
import type { Inventory } from '../../../proto/gen/capstan/v1/nodes.ts';

import type { GpuFacts } from '../../../lib/gpu-table.ts';

export interface DeviceFacts extends GpuFacts {
  readonly uuid: string;
  readonly healthy: boolean;
  /** Why the device is unhealthy. */
  readonly problem: string;
  /** The newest CUDA that its driver serves, the driver, the compute capability; empty if not reported. */
  readonly cuda: string;
  readonly driver: string;
  readonly capability: string;
}

/** Devices of one model and memory: a selection matches all of them or none. */
export interface DeviceKind extends GpuFacts {
  readonly devices: readonly DeviceFacts[];
}

/** How a node isolates the workers of a runtime. */
export interface RuntimeIsolation {
  readonly level: IsolationLevel;
  readonly networks: ReadonlySet<string>;
  /** Network of workers whose release and account name none. */
  readonly usual: WorkerNetwork;
  /** The same for accounts that may not have the host's unless the node's operator chose it. */
  readonly closed: WorkerNetwork;
}

/** Devices of one model that a node has or had when its devices were last read. */
export interface KnownKind {
  readonly model: string;
  readonly memoryBytes: number;
  readonly slice: boolean;
  readonly count: number;
}

export interface NodeFacts {
  readonly runtimes: ReadonlySet<string>;
  /** Of thread and process workers, and of containers. `none` where the agent does not report it. */
  readonly isolation: { readonly processes: RuntimeIsolation; readonly containers: RuntimeIsolation };
  /** As the host reports it; empty without Python. */
  readonly pythonVersion: string;
  /** The processor as Node names it; empty if not reported. */
  readonly arch: string;
  readonly packages: ReadonlySet<string>;
  /** Full references of the engine's images. */
  readonly images: ReadonlySet<string>;
  /** What they require of the driver, by full reference; those that require nothing are absent. */
  readonly imageRequirements: Readonly<Record<string, readonly string[]>>;
  /** Digests of the cached builds. */
  readonly builds: ReadonlySet<string>;
  readonly devices: readonly DeviceFacts[];
  readonly kinds: readonly DeviceKind[];
  /** What is known of the devices even while they cannot be read; null if they were never read. */
  readonly knownKinds: readonly KnownKind[] | null;
  /** Why devices are missing or cannot be read. */
  readonly deviceProblem: string;
  /** The agent has not read its devices yet: a missing device has no meaning. */
  readonly devicesUnread: boolean;
  /** Thousandths of a core, without overcommitment; 0 if not reported. */
  readonly cpuMillis: number;
  /** 0 if not reported. */
  readonly memoryBytes: number;
  /** Free disk, rounded down to hide small changes; null if not reported. */
  readonly diskFreeBytes: number | null;
  /** Equal for equal facts. */
  readonly digest: string;
}

const DISK_GRAIN = 256 * 1024 * 1024;

/** `before`: what was known of the node's devices until now. */
export function factsOf(inventory: Inventory, before: NodeFacts['knownKinds'] = null): NodeFacts {
  // Counts a device that is reported twice as one device.
  const reported = [...new Map(inventory.devices.map((device) => [device.uuid, device])).values()];
  const devices = reported.map(({ uuid, model, memoryBytes, parentUuid, healthy, problem, ...versions }) => ({
    uuid,
    model,
    memoryBytes: Number(memoryBytes),
    slice: parentUuid !== '',
    healthy,
    problem,
    cuda: versions.cudaVersion,
    driver: versions.driverVersion,
    capability: versions.computeCapability,
  }));
  const kinds = kindsOf(devices);
  const isRead = devices.length > 0 || (inventory.deviceProblem === '' && !inventory.devicesUnread);
  const facts = {
    runtimes: new Set(inventory.runtimes),
    isolation: {
      processes: isolationOf(inventory.isolation?.processes, inventory.isolation?.processNetworks, {
        usual: networkOr('host', inventory.isolation?.defaultNetwork),
        closed: networkOr('host', inventory.isolation?.closedNetwork),
      }),
      // Containers have a network of their own.
      containers: isolationOf(inventory.isolation?.containers, inventory.isolation?.containerNetworks, { usual: 'host', closed: 'host' }),
    },
    pythonVersion: inventory.pythonVersion,
    arch: inventory.arch,
    packages: new Set(Object.keys(inventory.packages)),
    images: new Set(inventory.images.map(imageReference)),
    imageRequirements: Object.fromEntries(
      inventory.imageRequirements.map(({ image, expressions }) => [imageReference(image), expressions] as const),
    ),
    builds: new Set(inventory.builds),
    devices,
    knownKinds: isRead
      ? kinds.map(({ model, memoryBytes, slice, devices: alike }) => ({ model, memoryBytes, slice, count: alike.length }))
      : before,
    deviceProblem: inventory.deviceProblem,
    devicesUnread: inventory.devicesUnread,
    cpuMillis: inventory.cpuCount * 1_000,
    memoryBytes: Number(inventory.memoryBytes),
    diskFreeBytes: inventory.diskBytes === 0n ? null : Math.floor(Number(inventory.diskAvailableBytes) / DISK_GRAIN) * DISK_GRAIN,
  };
  const digest = JSON.stringify(facts, (_key, value: unknown) => (value instanceof Set ? [...(value as Set<string>)].sort() : value));
  return { ...facts, kinds, digest };
}

/** Every node has the host's network. */
function isolationOf(level = '', networks: readonly string[] = [], defaults: Pick<RuntimeIsolation, 'usual' | 'closed'>): RuntimeIsolation {
  return { level: isIsolationLevel(level) ? level : 'none', networks: new Set(['host', ...networks]), ...defaults };
}

/** Agents that report no default do not distinguish accounts. */
function networkOr(unreported: WorkerNetwork, name = ''): WorkerNetwork {
  return isWorkerNetwork(name) ? name : unreported;
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
