/**
 * The view of a node for a key without the scope OPERATOR. Accounts share the nodes and see nothing of each other: a
 * key sees the nodes on which workers of its account run, the nodes' offers, and these workers. Only operators see
 * other workers, hardware names and utilization. machine-types.ts describes the offer of the whole fleet.
 */
import { baseImageOf } from '../../lib/base-images.ts';
import type { NodeInfo } from '../../proto/gen/capstan/v1/control.ts';
import { Device, Inventory } from '../../proto/gen/capstan/v1/nodes.ts';
import type { State } from '../core/state.ts';
import type { NodeRecord, WorkerRecord } from '../core/state/fleet.ts';
import { allocatable } from './fleet-view.ts';

/** Returns the part of a node that `account` may see: its offer, and the account's own workers. */
export function sharedNodeInfo(state: State, node: NodeRecord, account: string): NodeInfo {
  const own = ownWorkers(state, node, account);
  const ownDevices = new Set(own.flatMap(({ devices }) => [...devices]));
  const sum = (of: (worker: WorkerRecord) => number): number => own.reduce((total, worker) => total + of(worker), 0);
  return {
    id: node.config.id,
    name: node.config.name,
    connected: node.session !== null,
    incarnation: '',
    agentVersion: '',
    ...(node.inventory === null ? {} : { inventory: offerOf(node.inventory, ownDevices) }),
    offerOnly: true,
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

/** The name of any other image may reveal its purpose. */
export function baseImagesOf({ images }: Inventory): string[] {
  return images.filter((reference) => baseImageOf(reference) !== null);
}

/** Lists fields explicitly so that a new field is private by default. Devices of the account's own workers have their ids, as these workers do. */
function offerOf(inventory: Inventory, ownDevices: ReadonlySet<string>): Inventory {
  const { os, arch, cpuCount, cpuModel, memoryBytes, runtimes, nodeVersion, pythonVersion, packages, containerEngine } = inventory;
  return Inventory.fromPartial({
    ...{ os, arch, cpuCount, cpuModel, memoryBytes, runtimes, nodeVersion, pythonVersion, packages, containerEngine },
    images: baseImagesOf(inventory),
    devices: inventory.devices.map(({ uuid, model, memoryBytes: bytes, computeCapability, driverVersion, cudaVersion, healthy, problem }) =>
      Device.fromPartial({
        ...(ownDevices.has(uuid) ? { uuid } : {}),
        ...{ model, memoryBytes: bytes, computeCapability, driverVersion, cudaVersion, healthy, problem },
      }),
    ),
    deviceProblem: inventory.deviceProblem,
    // How to mend the host is the operator's matter.
    ...(inventory.isolation === undefined ? {} : { isolation: { ...inventory.isolation, missing: [] } }),
  });
}
