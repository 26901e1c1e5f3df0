/** Nodes and their resources, as the gateway returns them. */
import type { GatewayClient } from './gateway-client.ts';

export interface NodeRow {
  readonly id: string;
  /** The cell that it joined. */
  readonly cell: string;
  readonly name: string;
  readonly connected: boolean;
  /** Receives no new work: `capstan node drain`. */
  readonly draining: boolean;
  readonly workers: number;
  readonly jobs: number;
  /** Null until its agent connects. */
  readonly cpus: number | null;
  readonly memoryBytes: number | null;
  /** What is allocated to its workers, and what is allocatable; null when its agent does not report it. */
  readonly allocated: { readonly cpus: number; readonly memoryBytes: number; readonly devices: number };
  readonly allocatable: { readonly cpus: number | null; readonly memoryBytes: number | null };
  /** Gauges; null until its agent connects, and for keys without the scope OPERATOR. */
  readonly memoryAvailableBytes: number | null;
  readonly diskAvailableBytes: number | null;
  readonly cpuPercent: number | null;
  readonly runtimes: readonly string[];
  /** Packages of base images that the host's Python has, with their versions. */
  readonly packages: Readonly<Record<string, string>>;
  readonly devices: readonly {
    readonly uuid: string;
    readonly name: string;
    readonly memoryBytes: number;
    readonly healthy: boolean;
    readonly problem: string;
    readonly temperatureCelsius: number | null;
    readonly utilizationPercent: number | null;
    /** Memory errors since the driver was loaded; null without ECC. */
    readonly eccCorrected: number | null;
    readonly eccUncorrected: number | null;
    readonly recoveryAction: string;
    readonly pciBusId: string;
    /** The driver's last errors in the kernel's log. */
    readonly xids: readonly { readonly code: number; readonly text: string; readonly at: string }[];
  }[];
  readonly deviceProblem: string;
  /** Gateways that its agent does not reach. */
  readonly unreachableGateways: readonly { readonly address: string; readonly dialed: string; readonly reason: string }[];
  /** Null until its agent has read it, and for keys that are no operator's. */
  readonly hardware: {
    readonly manufacturer: string;
    readonly model: string;
    readonly isVirtual: boolean;
    readonly cpuCores: number | null;
    readonly cpuSockets: number | null;
    readonly swapBytes: number;
    readonly disks: readonly { readonly name: string; readonly model: string; readonly kind: string; readonly sizeBytes: number }[];
    readonly networkInterfaces: readonly {
      readonly name: string;
      readonly kind: string;
      readonly addresses: readonly string[];
      readonly mtu: number | null;
      readonly speedMbps: number | null;
      readonly isDefault: boolean;
    }[];
  } | null;
  /** Null when its agent does not report it. */
  readonly isolation: {
    readonly processes: string;
    readonly containers: string | null;
    readonly processNetworks: readonly string[];
    readonly containerNetworks: readonly string[];
    readonly missing: readonly { readonly without: string; readonly reason: string; readonly remedy: string }[];
  } | null;
}

/** Nodes with the same resources. */
export interface MachineType {
  /** Number of nodes. */
  readonly nodes: number;
  readonly os: string;
  readonly arch: string;
  readonly cpus: number;
  readonly cpuModel: string;
  readonly memoryBytes: number;
  readonly runtimes: readonly string[];
  /** Packages of the base image that its Python has. */
  readonly packages: readonly string[];
  /** Base images that its container engine has. */
  readonly images: readonly string[];
  /** Healthy devices by model. */
  readonly devices: readonly { readonly model: string; readonly memoryBytes: number; readonly count: number }[];
  /** Of the agent, which runs functions; empty where it is not reported. */
  readonly nodeVersion: string;
  /** Empty without Python. */
  readonly pythonVersion: string;
}

const NODE = `id cell name connected draining workers jobs cpus memoryBytes allocated { cpus memoryBytes devices } allocatable { cpus memoryBytes }
  memoryAvailableBytes diskAvailableBytes cpuPercent runtimes packages: packageVersions deviceProblem
  unreachableGateways { address dialed reason } isolation { processes containers processNetworks containerNetworks missing { without reason remedy } }
  hardware { manufacturer model isVirtual cpuCores cpuSockets swapBytes disks { name model kind sizeBytes }
    networkInterfaces { name kind addresses mtu speedMbps isDefault } }
  devices { uuid name: model memoryBytes healthy problem temperatureCelsius utilizationPercent eccCorrected eccUncorrected
    recoveryAction pciBusId xids { code text at } }`;
const MACHINE_TYPE =
  'nodes os arch cpus cpuModel memoryBytes runtimes packages images devices { model memoryBytes count } nodeVersion pythonVersion';

type Device = NodeRow['devices'][number];
type NodeData = Omit<NodeRow, 'devices' | 'deviceProblem'> & {
  readonly deviceProblem: string | null;
  readonly devices: readonly (Omit<Device, 'problem'> & { readonly problem: string | null })[];
};

/** All nodes for an operator's key; otherwise the nodes on which workers of the account run. */
export async function listNodes(client: GatewayClient): Promise<NodeRow[]> {
  return (await client.query<{ nodes: NodeData[] }>(`{ nodes { ${NODE} } }`)).nodes.map(nodeOf);
}

/** The resources of the connected nodes, the same for every account. */
export async function listMachineTypes(client: GatewayClient): Promise<MachineType[]> {
  return (await client.query<{ machineTypes: MachineType[] }>(`{ machineTypes { ${MACHINE_TYPE} } }`)).machineTypes;
}

/** Returns the node after the change. */
export async function changeNode(client: GatewayClient, mutation: 'drainNode' | 'resumeNode', id: string): Promise<NodeRow> {
  const query = `mutation ($id: ID!) { node: ${mutation}(id: $id) { ${NODE} } }`;
  return nodeOf((await client.query<{ node: NodeData }>(query, { id })).node);
}

/** @throws CapstanError CONFLICT while it has workers, unless forced. */
export async function removeNode(client: GatewayClient, id: string, force: boolean): Promise<void> {
  await client.query('mutation ($id: ID!, $force: Boolean) { removeNode(id: $id, force: $force) }', { id, force });
}

/** Null in the schema is an empty text in a row. */
function nodeOf({ deviceProblem, devices, ...node }: NodeData): NodeRow {
  return {
    ...node,
    deviceProblem: deviceProblem ?? '',
    devices: devices.map((device) => ({ ...device, problem: device.problem ?? '' })),
  };
}
