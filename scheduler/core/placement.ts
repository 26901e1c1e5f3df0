/**
 * Where a new worker goes: feasible → rank → plan, over the image as it stands. Every node that
 * cannot take it says why; the reasons are kept for people.
 */
import type { Inventory } from '../../proto/gen/capstan/v1/nodes.ts';
import { freeDevices, type EndpointImage, type Image, type NodeImage, type Release } from './image.ts';

/** Why a node cannot take a worker. */
export const rejections = ['NODE_DISCONNECTED', 'RUNTIME_MISSING', 'GPU_MISSING', 'GPU_BUSY', 'DEVICE_PROBLEM'] as const;
export type Rejection = (typeof rejections)[number];

/** A place for a worker, or why there is none. */
export type Placement =
  | { readonly node: NodeImage; readonly devices: readonly string[] }
  | { readonly node: null; readonly rejected: readonly { readonly node: string; readonly reason: Rejection }[] };

/** Chooses a node (and devices) for one more worker of an endpoint. */
export function place(image: Image, endpoint: EndpointImage, release: Release): Placement {
  const rejected: { node: string; reason: Rejection }[] = [];
  let best: { node: NodeImage; devices: string[]; own: number; all: number } | null = null;
  for (const node of image.nodes.values()) {
    const fit = feasible(image, endpoint, release, node);
    if (typeof fit === 'string') {
      rejected.push({ node: node.config.name, reason: fit });
      continue;
    }
    let own = 0;
    for (const id of node.workers) if (image.workers.get(id)?.endpoint === endpoint.config.id) own++;
    const candidate = { node, devices: fit, own, all: node.workers.size };
    if (best === null || ranksBefore(candidate, best)) best = candidate;
  }
  return best === null ? { node: null, rejected } : { node: best.node, devices: best.devices };
}

/** True when a device is of the wanted GPU type or group. */
export function matchesGpu(wanted: string, model: string): boolean {
  const names = wanted.split(',').map(plain);
  return names.some((name) => name === 'any' || plain(model).includes(name));
}

/** The devices a node would give, or why it cannot take the worker. */
function feasible(image: Image, endpoint: EndpointImage, release: Release, node: NodeImage): string[] | Rejection {
  if (node.session === null || node.inventory === null) return 'NODE_DISCONNECTED';
  if (!offersRuntime(node.inventory, release)) return 'RUNTIME_MISSING';
  const { gpuIds, gpuCount } = endpoint.config;
  if (gpuIds === '') return [];
  const fitting = node.inventory.devices.filter((device) => matchesGpu(gpuIds, device.model));
  if (fitting.length === 0) return node.inventory.deviceProblem === '' ? 'GPU_MISSING' : 'DEVICE_PROBLEM';
  const free = freeDevices(image, node).filter((device) => matchesGpu(gpuIds, device.model));
  return free.length < Math.max(1, gpuCount) ? 'GPU_BUSY' : free.slice(0, Math.max(1, gpuCount)).map((device) => device.uuid);
}

/** Oldest Python that runs handlers. */
const oldestPython = { major: 3, minor: 8 };

function offersRuntime({ runtimes, pythonVersion }: Inventory, { runtime, functions }: Release): boolean {
  if (!runtimes.includes(runtime)) return false;
  if (runtime !== 'process' || !functions.some(({ module }) => module.endsWith('.py'))) return true;
  const [major = 0, minor = 0] = pythonVersion.split('.').map(Number);
  return major > oldestPython.major || (major === oldestPython.major && minor >= oldestPython.minor);
}

/** Spread first (availability), then the emptier node, then a fixed order. */
function ranksBefore(a: { node: NodeImage; own: number; all: number }, b: { node: NodeImage; own: number; all: number }): boolean {
  if (a.own !== b.own) return a.own < b.own;
  if (a.all !== b.all) return a.all < b.all;
  return a.node.config.id < b.node.config.id;
}

function plain(text: string): string {
  return text.toLowerCase().replaceAll(/[^a-z0-9]/g, '');
}
