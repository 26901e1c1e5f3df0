/** A node as the tool prints it. */
import type { NodeInfo } from '../../proto/gen/capstan/v1/control.ts';

export interface NodeRow {
  readonly id: string;
  readonly name: string;
  readonly connected: boolean;
  /** Out of use: `capstan node drain`. */
  readonly draining: boolean;
  readonly workers: number;
  readonly jobs: number;
  readonly cpus: number;
  readonly memoryBytes: number;
  /** Set aside for its workers, and what may be set aside in all; null when its agent does not tell. */
  readonly given: { readonly cpus: number; readonly memoryBytes: number; readonly devices: number };
  readonly inAll: { readonly cpus: number | null; readonly memoryBytes: number | null };
  readonly memoryAvailableBytes: number;
  readonly diskAvailableBytes: number;
  readonly cpuPercent: number;
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
}

export function nodeRow(node: NodeInfo): NodeRow {
  const { id, name, connected, draining, workers, jobs, inventory } = node;
  return {
    id,
    name,
    connected,
    draining,
    workers,
    jobs,
    cpus: inventory?.cpuCount ?? 0,
    memoryBytes: Number(inventory?.memoryBytes ?? 0n),
    given: { cpus: node.cpuMillisGiven / 1_000, memoryBytes: Number(node.memoryBytesGiven), devices: node.devicesGiven },
    inAll: { cpus: node.cpuMillisInAll / 1_000 || null, memoryBytes: Number(node.memoryBytesInAll) || null },
    memoryAvailableBytes: Number(inventory?.memoryAvailableBytes ?? 0n),
    diskAvailableBytes: Number(inventory?.diskAvailableBytes ?? 0n),
    cpuPercent: inventory?.cpuPercent ?? 0,
    runtimes: inventory?.runtimes ?? [],
    packages: inventory?.packages ?? {},
    devices: (inventory?.devices ?? []).map((device) => ({
      uuid: device.uuid,
      name: device.model,
      memoryBytes: Number(device.memoryBytes),
      healthy: device.healthy,
      problem: device.problem,
      temperatureCelsius: device.temperatureCelsius ?? null,
      utilizationPercent: device.utilizationPercent ?? null,
      eccCorrected: device.eccCorrected === undefined ? null : Number(device.eccCorrected),
      eccUncorrected: device.eccUncorrected === undefined ? null : Number(device.eccUncorrected),
      recoveryAction: device.recoveryAction,
      pciBusId: device.pciBusId,
      xids: device.xids.map(({ code, text, atMs }) => ({ code, text, at: new Date(Number(atMs)).toISOString() })),
    })),
    deviceProblem: inventory?.deviceProblem ?? '',
  };
}
