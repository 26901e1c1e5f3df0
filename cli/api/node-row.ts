/** A node as the tool prints it. */
import type { NodeInfo } from '../../proto/gen/capstan/v1/control.ts';

export interface NodeRow {
  readonly id: string;
  readonly name: string;
  readonly connected: boolean;
  readonly workers: number;
  readonly cpus: number;
  readonly memoryBytes: number;
  readonly memoryAvailableBytes: number;
  readonly diskAvailableBytes: number;
  readonly cpuPercent: number;
  readonly runtimes: readonly string[];
  readonly devices: readonly {
    readonly uuid: string;
    readonly name: string;
    readonly memoryBytes: number;
    readonly healthy: boolean;
    readonly problem: string;
  }[];
  readonly deviceProblem: string;
}

export function nodeRow({ id, name, connected, workers, inventory }: NodeInfo): NodeRow {
  return {
    id,
    name,
    connected,
    workers,
    cpus: inventory?.cpuCount ?? 0,
    memoryBytes: Number(inventory?.memoryBytes ?? 0n),
    memoryAvailableBytes: Number(inventory?.memoryAvailableBytes ?? 0n),
    diskAvailableBytes: Number(inventory?.diskAvailableBytes ?? 0n),
    cpuPercent: inventory?.cpuPercent ?? 0,
    runtimes: inventory?.runtimes ?? [],
    devices: (inventory?.devices ?? []).map(({ uuid, model, memoryBytes, healthy, problem }) => ({
      uuid,
      name: model,
      memoryBytes: Number(memoryBytes),
      healthy,
      problem,
    })),
    deviceProblem: inventory?.deviceProblem ?? '',
  };
}
