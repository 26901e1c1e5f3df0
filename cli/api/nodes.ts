/** Nodes and their resources, as the gateway returns them. */
import type { GatewayClient } from '../../client/gateway-client.ts';
import {
  DRAIN_NODE,
  LIST_MACHINE_TYPES,
  LIST_NODES,
  REMOVE_NODE,
  RESUME_NODE,
  type NodeFields,
  type MachineType,
} from '../../client/graphql/gen/operations.ts';

export type { MachineType };

type Device = NodeFields['devices'][number];

/** A node as the tool prints it: no problem is an empty text. */
export type NodeRow = Omit<NodeFields, 'devices' | 'deviceProblem'> & {
  readonly deviceProblem: string;
  readonly devices: readonly (Omit<Device, 'problem'> & { readonly problem: string })[];
};

/** All nodes for an operator's key; otherwise the nodes on which workers of the account run. */
export async function listNodes(client: GatewayClient): Promise<NodeRow[]> {
  return (await client.query(LIST_NODES, {})).nodes.map(nodeOf);
}

/** The resources of the connected nodes, the same for every account. */
export async function listMachineTypes(client: GatewayClient): Promise<readonly MachineType[]> {
  return (await client.query(LIST_MACHINE_TYPES, {})).machineTypes;
}

/** Returns the node after the change. */
export async function changeNode(client: GatewayClient, mutation: 'drainNode' | 'resumeNode', id: string): Promise<NodeRow> {
  return nodeOf((await client.query(mutation === 'drainNode' ? DRAIN_NODE : RESUME_NODE, { id })).node);
}

/** @throws CapstanError CONFLICT while it has workers, unless forced. */
export async function removeNode(client: GatewayClient, id: string, force: boolean): Promise<void> {
  await client.query(REMOVE_NODE, { id, force });
}

/** Null in the schema is an empty text in a row. */
function nodeOf({ deviceProblem, devices, ...node }: NodeFields): NodeRow {
  return {
    ...node,
    deviceProblem: deviceProblem ?? '',
    devices: devices.map((device) => ({ ...device, problem: device.problem ?? '' })),
  };
}
