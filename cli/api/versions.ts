/** The versions of a service's parts, as its gateway tells them. */
import { toError } from '../../lib/to-error.ts';
import { CapstanError } from '../../lib/errors.ts';
import { DISCONNECTED, OWNER, STANDBY, type PartVersion } from '../../client/versions.ts';
import type { GatewayClient } from '../../client/gateway-client.ts';
import { gatewayVersion } from '../../client/gateway-version.ts';
import { LIST_AGENT_VERSIONS, LIST_CONNECTED_NODES, LIST_SCHEDULER_VERSIONS, PING } from '../../client/graphql/gen/operations.ts';

/** A scheduler that is up is seen every few seconds. */
const SILENT_MS = 10_000;

export interface FoundVersions {
  readonly parts: readonly PartVersion[];
  /** What could not be asked, and why. */
  readonly notes: readonly string[];
}

/** @throws CapstanError UNAVAILABLE when the gateway does not respond, UNAUTHENTICATED when it refuses the key. */
export async function serviceVersions(client: GatewayClient): Promise<FoundVersions> {
  // First, because an address without a gateway and a wrong key fail here with their hints.
  await client.query(PING, {});
  const gateway = await gatewayVersion(client.address);
  const schedulers = await ask(async () => {
    const { cluster } = await client.query(LIST_SCHEDULER_VERSIONS, {});
    return cluster.schedulers.map(({ address, role, version, lastSeenAgeMs }): PartVersion => {
      if (lastSeenAgeMs > SILENT_MS) return { part: 'scheduler', name: address, version: null, state: DISCONNECTED };
      return { part: 'scheduler', name: address, version, state: role === 'OWNER' ? OWNER : STANDBY };
    });
  });
  const agents = await ask(() => agentVersions(client));
  return {
    parts: [
      ...(schedulers.found ?? [{ part: 'scheduler' as const, name: '', version: null, state: '' }]),
      { part: 'gateway', name: client.address, version: gateway, state: '' },
      ...(agents.found ?? []),
    ],
    notes: [
      ...(schedulers.why === undefined ? [] : [`the schedulers do not report their versions: ${schedulers.why}`]),
      ...(agents.why === undefined ? [] : [`the nodes cannot be listed: ${agents.why}`]),
    ],
  };
}

async function agentVersions(client: GatewayClient): Promise<PartVersion[]> {
  const { nodes } = await client.query(LIST_AGENT_VERSIONS, {}).catch(async (error: unknown) => {
    // A gateway of an earlier version does not know the field.
    if (!(error instanceof CapstanError) || error.code !== 'INVALID_ARGUMENT') throw error;
    const known = await client.query(LIST_CONNECTED_NODES, {});
    return { nodes: known.nodes.map((node) => ({ ...node, agentVersion: null })) };
  });
  return nodes.map(({ name, connected, agentVersion }) => {
    return { part: 'agent', name, version: agentVersion, state: connected ? 'connected' : DISCONNECTED };
  });
}

/** Parts of earlier versions refuse a question, and a key of a tenant may not ask it: the others are compared all the same. */
async function ask<T>(work: () => Promise<T>): Promise<{ readonly found?: T; readonly why?: string }> {
  try {
    return { found: await work() };
  } catch (error) {
    return { why: toError(error).message };
  }
}
