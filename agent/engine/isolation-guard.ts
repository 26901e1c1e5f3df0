/**
 * Refuses workers that this node would isolate less than their release requires, or whose network it does not have. A
 * release without requirements runs at the level of the node, on its usual network.
 */
import { isAtLeast, isIsolationLevel, isWorkerNetwork, type WorkerNetwork } from '../../lib/isolation.ts';
import type { NodeIsolation, ReleaseSpec } from '../../proto/gen/capstan/v1/nodes.ts';

const CONTAINER = 'container';

/** Returns why a worker of the release must not start in this runtime; undefined when it may. */
export function isolationRefusal(
  { leastIsolation, network }: Pick<ReleaseSpec, 'leastIsolation' | 'network'>,
  runtime: string,
  node: NodeIsolation | undefined,
): string | undefined {
  const level = (runtime === CONTAINER ? node?.containers : node?.processes) ?? '';
  if (leastIsolation !== undefined) {
    if (!isIsolationLevel(leastIsolation)) return `this agent does not know the level of isolation ${JSON.stringify(leastIsolation)}`;
    if (!isAtLeast(isIsolationLevel(level) ? level : 'none', leastIsolation)) {
      return `its account requires the level of isolation ${leastIsolation}; this node has ${level === '' ? 'none' : level} for the runtime ${runtime}`;
    }
  }
  const networks = (runtime === CONTAINER ? node?.containerNetworks : node?.processNetworks) ?? [];
  // Every node has the host's.
  if (network === undefined || network === 'host' || networks.includes(network)) return undefined;
  return `this node has no network ${JSON.stringify(network)} for the runtime ${runtime}`;
}

/** The networks of thread and process workers whose release names none. */
export interface DefaultNetworks {
  readonly usual: WorkerNetwork;
  /** Of accounts that may not have the host's unless the operator of this node chose it. */
  readonly closed: WorkerNetwork;
}

/**
 * Returns the networks of sandboxes: the host's is for accounts of others only where the operator of this node chose it.
 * @param setting - CAPSTAN_WORKER_NETWORK
 */
export function defaultNetworksOf(usual: WorkerNetwork, setting: 'auto' | 'outbound' | 'host'): DefaultNetworks {
  return { usual, closed: usual === 'host' && setting !== 'host' ? 'none' : usual };
}

/** Returns the network of a worker that was not refused. */
export function networkOf(
  { network, closedNetwork }: Partial<Pick<ReleaseSpec, 'network' | 'closedNetwork'>>,
  runtime: string,
  { usual, closed }: DefaultNetworks,
): WorkerNetwork {
  if (network !== undefined && isWorkerNetwork(network)) return network;
  // Containers have a network of their own.
  if (runtime === CONTAINER) return 'host';
  return closedNetwork === true ? closed : usual;
}

/** Returns why a worker that listens must not start with its network; undefined when it may. */
export function unreachable(network: WorkerNetwork, { functions }: Pick<ReleaseSpec, 'functions'>): string | undefined {
  if (network !== 'none' || functions.length > 0) return undefined;
  return "it is reached over its network and its account may not have the host's; this node has no other one (capstan doctor says what is missing for `outbound`)";
}
