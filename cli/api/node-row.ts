/** A node as the tool prints it. */
import type { NodeInfo } from '../../proto/gen/capstan/v1/control.ts';
import { nodeFigures } from '../../lib/node-figures.ts';

export interface NodeRow {
  readonly id: string;
  readonly name: string;
  readonly connected: boolean;
  /** Receives no new work: `capstan node drain`. */
  readonly draining: boolean;
  readonly workers: number;
  readonly jobs: number;
  readonly cpus: number;
  readonly memoryBytes: number;
  /** What is allocated to its workers, and what is allocatable; null when its agent does not report it. */
  readonly allocated: { readonly cpus: number; readonly memoryBytes: number; readonly devices: number };
  readonly allocatable: { readonly cpus: number | null; readonly memoryBytes: number | null };
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
  const figures = nodeFigures(node);
  return { ...figures, devices: figures.devices.map(({ uuid, model, ...device }) => ({ uuid, name: model, ...device })) };
}
