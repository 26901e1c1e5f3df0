/** Keys, endpoints and worker placements, kept up to date by the scheduler's directory stream. */
import {
  KeyScope,
  type DirectoryUpdate,
  type EndpointEntry,
  type KeyEntry,
  type NodePlacements,
} from '../../proto/gen/capstan/v1/control.ts';
import { EndpointNames } from './endpoint-names.ts';

/** A key as the gateway uses it. */
export interface Key {
  /** SHA-256 of the key's text. */
  readonly hash: Buffer;
  readonly accountId: string;
  readonly scope: KeyScope;
  /** With the scope ENDPOINTS: the endpoints that it covers, by id. */
  readonly endpointIds: ReadonlySet<string>;
  /** With the scope ENVIRONMENT: the environment that it covers. */
  readonly environment: string;
  /** The token of a session of the console: good for the console's own routes only. */
  readonly isSession: boolean;
  /** The key's id; of a session, that of the key that signed in. Empty for a worker token, and from a scheduler of an earlier version. */
  readonly id: string;
  /** Of a worker token: the endpoint of its worker; empty where the scheduler does not say it. */
  readonly workerOf?: string;
  /** The cell in which its account lives. */
  readonly cell: string;
}

/** An endpoint, with the cell that has its queue. */
export interface Endpoint extends EndpointEntry {
  readonly cell: string;
}

/** The node on which the scheduler placed a worker, its endpoint and release. */
export interface Placement {
  readonly nodeId: string;
  readonly endpointId: string;
  readonly releaseId: string;
  /** Requests it may serve at once. */
  readonly slots: number;
}

export function keyOf(entry: KeyEntry, cell: string): Key {
  const isWorker = entry.hash.length === 0;
  return {
    ...(isWorker ? { workerOf: entry.endpointIds[0] ?? '' } : {}),
    hash: Buffer.from(entry.hash),
    accountId: entry.accountId,
    scope: entry.isOperator ? KeyScope.OPERATOR : entry.scope,
    endpointIds: new Set(entry.endpointIds),
    environment: entry.environment,
    isSession: entry.isSession,
    id: entry.keyId,
    cell,
  };
}

export class Directory {
  readonly #keys = new Map<string, Key>();
  readonly #endpoints = new Map<string, Endpoint>();
  readonly #names = new EndpointNames<Endpoint>();
  /** By worker. */
  readonly #placements = new Map<string, Placement>();
  /** Node → its cell and its placed workers. */
  readonly #placedOn = new Map<string, { readonly cell: string; readonly workers: readonly string[] }>();
  /** Called with each node whose placed workers changed. */
  onPlacements: (nodeId: string) => void = () => undefined;
  /** Called when keys were added, changed or removed: cached keys are invalid. */
  onKeysChanged: () => void = () => undefined;
  /** Called with each endpoint that was added or changed. */
  onEndpoint: (id: string) => void = () => undefined;
  /** Incremented by each removal: a look-up that began before it may return what was removed. */
  removals = 0;

  key(hash: string): Key | undefined {
    return this.#keys.get(hash);
  }

  endpoint(id: string): Endpoint | undefined {
    return this.#endpoints.get(id);
  }

  /** The account's endpoints of this name: at most one per environment. */
  endpointsNamed(account: string, name: string): readonly Endpoint[] {
    return this.#names.get(account, name);
  }

  /** Returns the placement of a worker; undefined when the scheduler placed no such worker. */
  placement(workerId: string): Placement | undefined {
    return this.#placements.get(workerId);
  }

  /** The nodes on which the scheduler placed workers of an endpoint. */
  nodesOf(endpointId: string): ReadonlySet<string> {
    const nodes = new Set<string>();
    for (const placement of this.#placements.values()) if (placement.endpointId === endpointId) nodes.add(placement.nodeId);
    return nodes;
  }

  /** The cell in which an account lives, if one of its keys is here. */
  cellOfAccount(account: string): string | undefined {
    for (const { accountId, cell } of this.#keys.values()) if (accountId === account) return cell;
    return undefined;
  }

  /** Applies an update of one cell, which changes nothing of the others. */
  apply(update: DirectoryUpdate, cell: string): void {
    const placed = new Set(update.placements.map(({ nodeId }) => nodeId));
    if (update.reset) {
      dropCell(this.#keys, cell);
      for (const endpoint of this.#endpoints.values()) if (endpoint.cell === cell) this.#removeEndpoint(endpoint);
      for (const [nodeId, node] of this.#placedOn) {
        if (node.cell !== cell) continue;
        placed.add(nodeId);
        this.#unplace(nodeId);
      }
    }
    for (const entry of update.keys) this.addKey(entry, cell);
    for (const endpoint of update.endpoints) this.addEndpoint(endpoint, cell);
    for (const hash of update.removedKeys) dropOf(this.#keys, hash.toString('hex'), cell);
    for (const id of update.removedEndpoints) {
      const endpoint = this.#endpoints.get(id);
      if (endpoint?.cell === cell) this.#removeEndpoint(endpoint);
    }
    if (update.reset || update.removedKeys.length > 0 || update.removedEndpoints.length > 0) this.removals += 1;
    for (const placements of update.placements) this.#place(placements, cell);
    if (update.reset || update.keys.length > 0 || update.removedKeys.length > 0) this.onKeysChanged();
    for (const nodeId of placed) this.onPlacements(nodeId);
  }

  #place({ nodeId, workers }: NodePlacements, cell: string): void {
    this.#unplace(nodeId);
    for (const { workerId, endpointId, releaseId, slots } of workers) {
      this.#placements.set(workerId, { nodeId, endpointId, releaseId, slots });
    }
    if (workers.length > 0) this.#placedOn.set(nodeId, { cell, workers: workers.map(({ workerId }) => workerId) });
  }

  #unplace(nodeId: string): void {
    for (const workerId of this.#placedOn.get(nodeId)?.workers ?? []) this.#placements.delete(workerId);
    this.#placedOn.delete(nodeId);
  }

  addKey(entry: KeyEntry, cell: string): Key {
    const key = keyOf(entry, cell);
    this.#keys.set(key.hash.toString('hex'), key);
    return key;
  }

  addEndpoint(entry: EndpointEntry, cell: string): Endpoint {
    const endpoint = { ...entry, cell };
    const former = this.#endpoints.get(endpoint.id);
    if (former !== undefined) this.#names.delete(former);
    this.#endpoints.set(endpoint.id, endpoint);
    this.#names.set(endpoint);
    this.onEndpoint(endpoint.id);
    return endpoint;
  }

  #removeEndpoint(endpoint: Endpoint): void {
    this.#endpoints.delete(endpoint.id);
    this.#names.delete(endpoint);
  }
}

/** Removes the entries of one cell. */
function dropCell(entries: Map<string, { readonly cell: string }>, cell: string): void {
  for (const [id, entry] of entries) if (entry.cell === cell) entries.delete(id);
}

/** Removes an entry if it is of this cell. */
function dropOf(entries: Map<string, { readonly cell: string }>, id: string, cell: string): void {
  if (entries.get(id)?.cell === cell) entries.delete(id);
}
