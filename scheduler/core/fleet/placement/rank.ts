/** Ranks the nodes that fit: compares figures one after the other, smaller is better, then the id. */
import type { NodeRecord, NodeUsage } from '../../state/fleet.ts';
import type { Fit, Wanted } from './feasible.ts';

/** The figures of one node, by descending weight. */
export type Rank = readonly number[];

export function rankOf({ endpoint, release, reserve }: Wanted, node: NodeRecord, usage: NodeUsage, fit: Fit): Rank {
  const facts = node.facts;
  const hasDevices = facts !== null && facts.devices.length > 0;
  const onGpu = release.gpuIds !== '';
  const taken = usage.devices.size;
  return [
    // The user's order of gpuIds.
    fit.preference,
    fit.mixed ? 1 : 0,
    // Keeps GPU hosts for GPU work.
    !onGpu && hasDevices ? 1 : 0,
    // Spread: the loss of one node must not take all of an endpoint's workers.
    usage.endpoints.get(endpoint) ?? 0,
    // Small devices first, so that big ones stay free.
    onGpu ? fit.devices.reduce((sum, { memoryBytes }) => sum + memoryBytes, 0) : 0,
    // Each worker gets its own core while there are free cores.
    facts !== null && facts.cpuMillis > 0 && usage.cpuMillis + reserve.cpuMillis > facts.cpuMillis ? 1 : 0,
    // Prefers nodes that already have the build and the image.
    fit.missingLocally,
    // Packed: keeps whole nodes free for work that needs whole nodes.
    onGpu ? (facts?.devices.length ?? 0) - taken : 0,
    onGpu ? 0 : -usage.cpuMillis,
    onGpu ? 0 : -usage.memoryBytes,
  ];
}

/** Whether `a` is better. */
export function ranksBefore(
  a: { readonly rank: Rank; readonly node: NodeRecord },
  b: { readonly rank: Rank; readonly node: NodeRecord },
): boolean {
  for (let i = 0; i < a.rank.length; i++) {
    const figure = a.rank[i] ?? 0;
    const other = b.rank[i] ?? 0;
    if (figure !== other) return figure < other;
  }
  return a.node.config.id < b.node.config.id;
}
