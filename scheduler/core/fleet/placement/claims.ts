/**
 * Claims: room that workers leave for an endpoint whose jobs wait. Until the endpoint's worker is placed, no other
 * endpoint gets that room, so it cannot go back to the endpoint that left it. Claims are not stored: a new scheduler
 * counts the workers that leave and claims their room again (preemption.ts).
 */
import { present } from '../../../../lib/invariant.ts';
import type { State } from '../../state.ts';
import type { EndpointRecord } from '../../state/endpoints.ts';
import type { Claim, NodeRecord, NodeUsage, WorkerRecord } from '../../state/fleet.ts';
import { listedWorker } from '../../references.ts';
import { releaseUsage } from './node-usage.ts';

/** Records a claim. Its workers that stay get no more jobs. */
export function addClaim(state: State, endpoint: EndpointRecord, claim: Claim): void {
  const node = present(state.nodes.get(claim.node), 'room is claimed where it was found', { node: claim.node });
  node.claims = [...node.claims, claim];
  endpoint.claims = [...endpoint.claims, claim];
  for (const id of claim.workers) {
    const worker = listedWorker(state, id);
    worker.yieldsTo = claim.endpoint;
    // Gateways send no more requests to it.
    state.dirtyNodes.add(claim.node);
  }
}

/** Gives up a claim. Its workers that have not begun to drain stay. */
export function releaseClaim(state: State, endpoint: EndpointRecord, claim: Claim): void {
  endpoint.claims = endpoint.claims.filter((each) => each !== claim);
  // The node may have been removed since.
  const node = state.nodes.get(claim.node);
  if (node !== undefined) node.claims = node.claims.filter((each) => each !== claim);
  // Others may use the room now.
  state.capacityVersion++;
  for (const id of claim.workers) {
    // Those that have left are what the claim waited for.
    const worker = state.workers.get(id);
    if (worker === undefined || worker.yieldsTo !== claim.endpoint) continue;
    worker.yieldsTo = null;
    state.dirtyEndpoints.add(worker.endpoint);
    if (!worker.drain) state.dirtyNodes.add(claim.node);
  }
}

/** Gives up all claims of an endpoint. */
export function releaseClaims(state: State, endpoint: EndpointRecord): void {
  for (const claim of endpoint.claims) releaseClaim(state, endpoint, claim);
}

/** A worker of the endpoint was placed: gives up the claim that it was for, if possible one on its node. */
export function takeClaim(state: State, endpoint: EndpointRecord, node: string): void {
  const claim = endpoint.claims.find((each) => each.node === node) ?? endpoint.claims.at(-1);
  if (claim !== undefined) releaseClaim(state, endpoint, claim);
}

/** Returns the usage of a node as an endpoint sees it: room that others have claimed is in use. */
export function usageFor(state: State, node: NodeRecord, endpoint: string): NodeUsage {
  if (node.claims.length === 0 || node.claims.every((claim) => claim.endpoint === endpoint)) return node.usage;
  const usage = copyOf(node.usage);
  for (const claim of node.claims) if (claim.endpoint !== endpoint) hold(usage, claim, presentOf(state, claim));
  return usage;
}

/** Returns the usage of a node once `leaving` are gone and every claim on it is taken. */
export function usageWithout(state: State, node: NodeRecord, leaving: readonly WorkerRecord[]): NodeUsage {
  const usage = copyOf(node.usage);
  for (const worker of leaving) releaseUsage(usage, worker);
  for (const claim of node.claims)
    hold(
      usage,
      claim,
      presentOf(state, claim).filter((worker) => !leaving.includes(worker)),
    );
  return usage;
}

function copyOf(usage: NodeUsage): NodeUsage {
  return { ...usage, devices: new Map(usage.devices), endpoints: new Map(usage.endpoints) };
}

function presentOf(state: State, { workers }: Claim): WorkerRecord[] {
  return workers.flatMap((id) => state.workers.get(id) ?? []);
}

/** Adds what the claim takes beyond the resources that its workers still have. */
function hold(usage: NodeUsage, { endpoint, devices, cpuMillis, memoryBytes }: Claim, present: readonly WorkerRecord[]): void {
  usage.cpuMillis += Math.max(0, cpuMillis - present.reduce((sum, worker) => sum + worker.cpuMillis, 0));
  usage.memoryBytes += Math.max(0, memoryBytes - present.reduce((sum, worker) => sum + worker.memoryBytes, 0));
  for (const device of devices) if (!usage.devices.has(device)) usage.devices.set(device, endpoint);
}
