/**
 * A node as a key without the scope OPERATOR sees it. Accounts share the nodes and see nothing of each other: a key sees the
 * nodes on which workers of its account run, what they offer, and these workers. What else runs there, what the hardware is
 * called, and how busy it is, only operators see. What the fleet as a whole offers is in machine-types.ts.
 */
import { baseImageOf } from '../../lib/base-images.ts';
import type { NodeInfo } from '../../proto/gen/capstan/v1/control.ts';
import { Device, Inventory } from '../../proto/gen/capstan/v1/nodes.ts';
import type { State } from '../core/state.ts';
import type { NodeRecord, WorkerRecord } from '../core/state/fleet.ts';
import { allocatable } from './fleet-view.ts';

/** What `account` may know of a node: its offer, and the account's own workers there. */
export function sharedNodeInfo(state: State, node: NodeRecord, account: string): NodeInfo {
  const own = ownWorkers(state, node, account);
  const sum = (of: (worker: WorkerRecord) => number): number => own.reduce((total, worker) => total + of(worker), 0);
  return {
    id: node.config.id,
    name: node.config.name,
    connected: node.session !== null,
    incarnation: '',
    ...(node.inventory === null ? {} : { inventory: offerOf(node.inventory) }),
    draining: node.config.draining,
    workers: own.length,
    jobs: sum(({ attempts }) => attempts.size),
    cpuMillisAllocated: sum(({ cpuMillis }) => cpuMillis),
    memoryBytesAllocated: BigInt(sum(({ memoryBytes }) => memoryBytes)),
    devicesAllocated: sum(({ devices }) => devices.length),
    ...allocatable(state, node),
  };
}

function ownWorkers(state: State, node: NodeRecord, account: string): WorkerRecord[] {
  return [...node.workers]
    .flatMap((id) => state.workers.get(id) ?? [])
    .filter(({ endpoint }) => state.endpoints.get(endpoint)?.config.account === account);
}

/** The name of another image may tell what it is for. */
export function baseImagesOf({ images }: Inventory): string[] {
  return images.filter((reference) => baseImageOf(reference) !== null);
}

/** Lists fields explicitly so that a new field is private by default. */
function offerOf(inventory: Inventory): Inventory {
  const { os, arch, cpuCount, cpuModel, memoryBytes, runtimes, nodeVersion, pythonVersion, packages, containerEngine } = inventory;
  return Inventory.fromPartial({
    ...{ os, arch, cpuCount, cpuModel, memoryBytes, runtimes, nodeVersion, pythonVersion, packages, containerEngine },
    images: baseImagesOf(inventory),
    devices: inventory.devices.map(({ model, memoryBytes: bytes, computeCapability, driverVersion, cudaVersion, healthy, problem }) =>
      Device.fromPartial({ model, memoryBytes: bytes, computeCapability, driverVersion, cudaVersion, healthy, problem }),
    ),
    deviceProblem: inventory.deviceProblem,
  });
}
