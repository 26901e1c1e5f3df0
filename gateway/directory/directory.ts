/** Keys, endpoints and worker placements, kept up to date by the scheduler's directory stream. */
import {
  KeyScope,
  type DirectoryUpdate,
  type EndpointEntry,
  type KeyEntry,
  type NodePlacements,
} from '../../proto/gen/capstan/v1/control.ts';

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
}

/** The node on which the scheduler placed a worker, its endpoint and release. */
export interface Placement {
  readonly nodeId: string;
  readonly endpointId: string;
  readonly releaseId: string;
  /** Requests it may serve at once. */
  readonly slots: number;
}

export function keyOf(entry: KeyEntry): Key {
  return {
    hash: Buffer.from(entry.hash),
    accountId: entry.accountId,
    scope: entry.isOperator ? KeyScope.OPERATOR : entry.scope,
    endpointIds: new Set(entry.endpointIds),
    environment: entry.environment,
  };
}

export class Directory {
  readonly #keys = new Map<string, Key>();
  readonly #endpoints = new Map<string, EndpointEntry>();
  /** By worker. */
  readonly #placements = new Map<string, Placement>();
  /** Node → its placed workers. */
  readonly #placedOn = new Map<string, readonly string[]>();
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

  endpoint(id: string): EndpointEntry | undefined {
    return this.#endpoints.get(id);
  }

  /** Returns the placement of a worker; undefined when the scheduler placed no such worker. */
  placement(workerId: string): Placement | undefined {
    return this.#placements.get(workerId);
  }

  apply(update: DirectoryUpdate): void {
    const placed = new Set(update.placements.map(({ nodeId }) => nodeId));
    if (update.reset) {
      this.#keys.clear();
      this.#endpoints.clear();
      for (const nodeId of this.#placedOn.keys()) placed.add(nodeId);
      this.#placements.clear();
      this.#placedOn.clear();
    }
    for (const entry of update.keys) this.addKey(entry);
    for (const endpoint of update.endpoints) this.addEndpoint(endpoint);
    for (const hash of update.removedKeys) this.#keys.delete(hash.toString('hex'));
    for (const id of update.removedEndpoints) this.#endpoints.delete(id);
    if (update.reset || update.removedKeys.length > 0 || update.removedEndpoints.length > 0) this.removals += 1;
    for (const placements of update.placements) this.#place(placements);
    if (update.reset || update.keys.length > 0 || update.removedKeys.length > 0) this.onKeysChanged();
    for (const nodeId of placed) this.onPlacements(nodeId);
  }

  #place({ nodeId, workers }: NodePlacements): void {
    for (const workerId of this.#placedOn.get(nodeId) ?? []) this.#placements.delete(workerId);
    for (const { workerId, endpointId, releaseId, slots } of workers) {
      this.#placements.set(workerId, { nodeId, endpointId, releaseId, slots });
    }
    if (workers.length === 0) this.#placedOn.delete(nodeId);
    else
      this.#placedOn.set(
        nodeId,
        workers.map(({ workerId }) => workerId),
      );
  }

  addKey(entry: KeyEntry): Key {
    const key = keyOf(entry);
    this.#keys.set(key.hash.toString('hex'), key);
    return key;
  }

  addEndpoint(endpoint: EndpointEntry): void {
    this.#endpoints.set(endpoint.id, endpoint);
    this.onEndpoint(endpoint.id);
  }
}
