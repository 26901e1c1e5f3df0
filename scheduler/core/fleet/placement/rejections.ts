/** Why nodes cannot take a worker: one constant a node, with the facts, gathered for people. */

/** In the order in which they are checked: a later one came closer to fitting. */
const rejections = [
  /** The node's agent has no session, or has not told its inventory. */
  'NODE_DISCONNECTED',
  /** The node is being drained: it takes nothing new. */
  'NODE_DRAINING',
  /** Starts of the release failed there. */
  'STARTS_FAIL',
  /** The runtime that the worker needs is not offered: no container engine, no Python, no Node runtime. */
  'RUNTIME_MISSING',
  /** The host's Python is too old. */
  'PYTHON_TOO_OLD',
  /** The build's compiled packages are for another Python, or another kind of processor. */
  'PYTHON_MISMATCH',
  /** The host's Python lacks a package that the build was promised. */
  'PACKAGE_MISSING',
  /** The node has no device of the wanted type, or fewer than wanted. */
  'GPU_MISSING',
  /** Devices of the wanted type are there, but not healthy, or they cannot be read. */
  'DEVICE_PROBLEM',
  /** Other workers have them. */
  'GPU_BUSY',
  /** Not enough processor time that is not given to others. */
  'CPU',
  /** Not enough memory that is not given to others. */
  'MEMORY',
  /** Not enough disk for the build. */
  'DISK',
] as const;
export type Rejection = (typeof rejections)[number];

/** One node's answer. */
export interface Rejected {
  readonly reason: Rejection;
  /** The facts, for people; may be empty. */
  readonly detail: string;
}

/** The nodes that gave one reason. */
export interface RejectionGroup {
  readonly reason: Rejection;
  readonly nodes: number;
  /** The first of them by name. */
  readonly examples: readonly { readonly node: string; readonly name: string; readonly detail: string }[];
}

/** Nodes named for each reason. A fleet of thousands must not be copied into every endpoint that waits. */
const MOST_EXAMPLES = 8;

interface Gathered {
  nodes: number;
  examples: { node: string; name: string; detail: string }[];
}

/** Gathers the answers of one placement. */
export class RejectionCollector {
  readonly #groups = new Map<Rejection, Gathered>();

  add(node: { readonly id: string; readonly name: string }, { reason, detail }: Rejected): void {
    let group = this.#groups.get(reason);
    if (group === undefined) this.#groups.set(reason, (group = { nodes: 0, examples: [] }));
    group.nodes++;
    const last = group.examples.at(-1);
    if (group.examples.length === MOST_EXAMPLES && last !== undefined && before(last, node)) return;
    group.examples.push({ node: node.id, name: node.name, detail });
    group.examples.sort((a, b) => (before(a, { id: b.node, name: b.name }) ? -1 : 1));
    if (group.examples.length > MOST_EXAMPLES) group.examples.pop();
  }

  /** The groups, those that came closest to fitting first. */
  groups(): RejectionGroup[] {
    return [...this.#groups]
      .map(([reason, group]) => ({ reason, ...group }))
      .sort((a, b) => rejections.indexOf(b.reason) - rejections.indexOf(a.reason));
  }
}

function before(a: { readonly node: string; readonly name: string }, b: { readonly id: string; readonly name: string }): boolean {
  return a.name === b.name ? a.node < b.id : a.name < b.name;
}

/** The groups in a line, for people. */
export function explainRejections(groups: readonly RejectionGroup[]): string {
  return groups
    .map(({ reason, nodes, examples }) => {
      const shown = examples.map(({ name, detail }) => (detail === '' ? name : `${name} (${detail})`)).join(', ');
      const more = nodes > examples.length ? ` and ${nodes - examples.length} more` : '';
      return `${reason} on ${nodes} ${nodes === 1 ? 'node' : 'nodes'}: ${shown}${more}`;
    })
    .join('; ');
}
