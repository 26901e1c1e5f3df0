/** Device nodes that a worker with GPUs needs: its own, and those that CUDA shares between all processes. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

import { CapstanError } from '../../../lib/errors.ts';

const GPUS = '/proc/driver/nvidia/gpus';
const CAPABILITIES = '/proc/driver/nvidia/capabilities';
/** Control and unified memory: no access to a GPU by themselves. */
const SHARED = ['/dev/nvidiactl', '/dev/nvidia-uvm', '/dev/nvidia-uvm-tools', '/dev/nvidia-modeset'];
/** A slice named by the UUID of its GPU and its instances; newer names say nothing about it. */
const SLICE_OF = /^MIG-(GPU-[0-9a-zA-Z-]+)\/(\d+)\/(\d+)$/;

export interface DeviceRoots {
  readonly gpus?: string;
  readonly capabilities?: string;
  readonly exists?: (path: string) => boolean;
}

/**
 * Returns the nodes of these GPUs (UUIDs). A MIG slice gets the node of its GPU, where the driver allows nothing
 * without the capabilities of the slice; they are found for slices that are named by their instances, for others all of
 * them are given. Throws UNAVAILABLE for a GPU that
 * NVIDIA's driver does not list; without that driver there are no nodes.
 */
export function deviceNodes(
  uuids: readonly string[],
  { gpus = GPUS, capabilities = CAPABILITIES, exists = existsSync }: DeviceRoots = {},
): string[] {
  if (uuids.length === 0) return [];
  const minors = minorsByUuid(gpus);
  // Other drivers, and tests without one.
  if (minors.size === 0) return [];
  const nodes = new Set(SHARED);
  for (const uuid of uuids) {
    const [, parent, gpuInstance, computeInstance] = SLICE_OF.exec(uuid) ?? [];
    const isSlice = uuid.startsWith('MIG-');
    const owners = isSlice && parent === undefined ? [...minors.values()] : [minors.get(parent ?? uuid)];
    for (const minor of owners) {
      if (minor === undefined) throw new CapstanError('UNAVAILABLE', `the driver lists no GPU ${uuid}`);
      nodes.add(`/dev/nvidia${minor}`);
      if (!isSlice) continue;
      const own = gpuInstance === undefined ? '' : `gi${gpuInstance}`;
      for (const node of sliceNodes(join(capabilities, `gpu${minor}`, 'mig'), own, computeInstance)) nodes.add(node);
    }
  }
  return [...nodes].filter((node) => exists(node));
}

/** By UUID. */
function minorsByUuid(folder: string): Map<string, number> {
  const minors = new Map<string, number>();
  for (const name of existsSync(folder) ? readdirSync(folder) : []) {
    const text = readFileSync(join(folder, name, 'information'), 'utf8');
    const uuid = /^GPU UUID:\s*(\S+)$/m.exec(text)?.[1];
    const minor = /^Device Minor:\s*(\d+)$/m.exec(text)?.[1];
    if (uuid !== undefined && minor !== undefined) minors.set(uuid, Number(minor));
  }
  return minors;
}

/** Each instance has a file `access` that names the number of its node. */
function sliceNodes(folder: string, gpuInstance: string, computeInstance: string | undefined): string[] {
  const instances = existsSync(folder)
    ? readdirSync(folder).filter((name) => name.startsWith('gi') && (gpuInstance === '' || name === gpuInstance))
    : [];
  return instances.flatMap((name) => {
    const inner = readdirSync(join(folder, name)).filter(
      (each) => each.startsWith('ci') && (computeInstance === undefined || each === `ci${computeInstance}`),
    );
    return [join(folder, name, 'access'), ...inner.map((each) => join(folder, name, each, 'access'))].flatMap((file) => {
      const minor = /^DeviceFileMinor:\s*(\d+)$/m.exec(readFileSync(file, 'utf8'))?.[1];
      return minor === undefined ? [] : [`/dev/nvidia-caps/nvidia-cap${minor}`];
    });
  });
}
