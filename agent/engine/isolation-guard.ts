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

/** Returns the network of a worker that was not refused; `usual`: that of thread and process workers whose release names none. */
export function networkOf({ network }: Pick<ReleaseSpec, 'network'>, runtime: string, usual: WorkerNetwork): WorkerNetwork {
  if (network !== undefined && isWorkerNetwork(network)) return network;
  return runtime === CONTAINER ? 'host' : usual;
}
