/** Why nodes cannot take a worker: one code per node, with details, grouped for users. */

/**
 * A later one means that the node came closer to fitting. That is the order of the checks, but for NODE_DISCONNECTED: a host that is
 * gone has, as far as its devices are known, what is wanted.
 */
const rejections = [
  /** The node is draining and takes no new workers. */
  'NODE_DRAINING',
  /** Starts of the release failed on the node. */
  'STARTS_FAIL',
  /** The node lacks the runtime that the worker needs: a container engine, Python or Node. */
  'RUNTIME_MISSING',
  /** The host's Python is too old. */
  'PYTHON_TOO_OLD',
  /** The build's compiled packages are for another Python or another processor architecture. */
  'PYTHON_MISMATCH',
  /** The host's Python lacks a package that the build expects from the base image. */
  'PACKAGE_MISSING',
  /** The node isolates workers less than their account requires, or lacks the network that they must have. */
  'ISOLATION_TOO_WEAK',
  /** The node has no device of the wanted type, or too few. */
  'GPU_MISSING',
  /** The drivers of the wanted devices are older than the endpoint or its image requires. */
  'CUDA_TOO_OLD',
  /** Devices of the wanted type exist but are unhealthy or cannot be read. */
  'DEVICE_PROBLEM',
  /** The node's agent has no session, or has not sent its inventory. */
  'NODE_DISCONNECTED',
  /** Other workers hold the devices. */
  'GPU_BUSY',
  /** Too little unallocated processor time. */
  'CPU',
  /** Too little unallocated memory. */
  'MEMORY',
  /** Too little disk for the build. */
  'DISK',
] as const;
export type Rejection = (typeof rejections)[number];

/** The rejection by one node. */
export interface Rejected {
  readonly reason: Rejection;
  /** Details for users; may be empty. */
  readonly detail: string;
}

/** The nodes with one reason. */
export interface RejectionGroup {
  readonly reason: Rejection;
  readonly nodes: number;
  /** The first nodes by name. */
  readonly examples: readonly { readonly node: string; readonly name: string; readonly detail: string }[];
}

/** Nodes named for each reason. The names of a fleet of thousands must not be copied into every waiting endpoint. */
const MAX_EXAMPLES = 8;

interface Gathered {
  nodes: number;
  examples: { readonly node: string; readonly name: string; readonly detail: string }[];
}

/** Collects the rejections of one placement. */
export class RejectionCollector {
  readonly #groups = new Map<Rejection, Gathered>();

  add(node: { readonly id: string; readonly name: string }, { reason, detail }: Rejected): void {
    let group = this.#groups.get(reason);
    if (group === undefined) this.#groups.set(reason, (group = { nodes: 0, examples: [] }));
    group.nodes++;
    const last = group.examples.at(-1);
    if (group.examples.length === MAX_EXAMPLES && last !== undefined && before(last, node)) return;
    group.examples.push({ node: node.id, name: node.name, detail });
    group.examples.sort((a, b) => (before(a, { id: b.node, name: b.name }) ? -1 : 1));
    if (group.examples.length > MAX_EXAMPLES) group.examples.pop();
  }

  /** Returns the groups, those that came closest to fitting first. */
  groups(): RejectionGroup[] {
    return [...this.#groups]
      .map(([reason, group]) => ({ reason, ...group }))
      .sort((a, b) => rejections.indexOf(b.reason) - rejections.indexOf(a.reason));
  }
}

function before(a: { readonly node: string; readonly name: string }, b: { readonly id: string; readonly name: string }): boolean {
  return a.name === b.name ? a.node < b.id : a.name < b.name;
}

/** Formats the groups as one line for users. */
export function explainRejections(groups: readonly RejectionGroup[]): string {
  return groups
    .map(({ reason, nodes, examples }) => {
      const shown = examples.map(({ name, detail }) => (detail === '' ? name : `${name} (${detail})`)).join(', ');
      const more = nodes > examples.length ? ` and ${nodes - examples.length} more` : '';
      return `${reason} on ${nodes} ${nodes === 1 ? 'node' : 'nodes'}: ${shown}${more}`;
    })
    .join('; ');
}
