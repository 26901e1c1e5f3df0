/** The nodes whose agents do not reach this gateway, of all cells, and the endpoints that therefore have no worker here. */
import { CapstanError } from '../../lib/errors.ts';
import type { UnreachedBy } from '../../proto/gen/capstan/v1/invoke.ts';

export interface UnreachedOptions {
  /** The nodes on which the scheduler placed workers of an endpoint. */
  readonly nodesOf: (endpointId: string) => ReadonlySet<string>;
  /** Called when the set has changed. */
  readonly onChange: () => void;
}

/** When the caller may try again, ms: the set changes with the network, or a setting. */
const RETRY_MS = 10_000;
/** Nodes that a message names. */
const MAX_NAMED = 5;

export class UnreachedNodes {
  readonly #options: UnreachedOptions;
  readonly #byCell = new Map<string, readonly UnreachedBy[]>();
  /** Names by id. */
  #names: ReadonlyMap<string, string> = new Map();

  constructor(options: UnreachedOptions) {
    this.#options = options;
  }

  /** Replaces the part of one cell. */
  set(cell: string, nodes: readonly UnreachedBy[]): void {
    this.#byCell.set(cell, nodes);
    this.#names = new Map([...this.#byCell.values()].flat().map(({ nodeId, nodeName }) => [nodeId, nodeName]));
    this.#options.onChange();
  }

  /** Returns why no request of the endpoint gets a worker here; undefined while one may. Strangers get no names of nodes. */
  refusal(endpointId: string, hasKey: boolean): CapstanError | undefined {
    if (this.#names.size === 0) return undefined;
    const nodes = [...this.#options.nodesOf(endpointId)];
    if (nodes.length === 0 || !nodes.every((node) => this.#names.has(node))) return undefined;
    if (!hasKey) return new CapstanError('UNAVAILABLE', 'no worker of the endpoint is reachable', { retryAfterMs: RETRY_MS });
    const names = nodes.map((node) => this.#names.get(node) ?? node);
    const more = names.length > MAX_NAMED ? ` and ${names.length - MAX_NAMED} more` : '';
    const message = `the endpoint's workers run on ${names.slice(0, MAX_NAMED).join(', ')}${more}, whose agent does not reach this gateway; capstan node list says why`;
    return new CapstanError('UNAVAILABLE', message, { retryAfterMs: RETRY_MS });
  }
}
