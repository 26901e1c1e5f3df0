/** Levels of isolation of workers and what a worker's network may reach. docs/sandboxes.md describes them. */

/** From the weakest to the strongest. */
export const ISOLATION_LEVELS = ['none', 'user', 'sandbox', 'container', 'gvisor'] as const;
export type IsolationLevel = (typeof ISOLATION_LEVELS)[number];

/** How a worker runs: in a thread of a host process, in a process of its own, in a container. */
export const WORKER_RUNTIMES = ['thread', 'process', 'container'] as const;
export type WorkerRuntime = (typeof WORKER_RUNTIMES)[number];

/** From the widest to the narrowest. */
export const WORKER_NETWORKS = ['host', 'outbound', 'none'] as const;
export type WorkerNetwork = (typeof WORKER_NETWORKS)[number];

/**
 * The widest network that an account allows. `auto`: that of the node, where it is the host's, too; endpoints may ask for a
 * narrower one, but not for the host's.
 */
export const ACCOUNT_NETWORKS = ['auto', ...WORKER_NETWORKS] as const;
export type AccountNetwork = (typeof ACCOUNT_NETWORKS)[number];

/** A level, a network or a limit that a node lacks, with the reason and the command or change that adds it. */
export interface MissingIsolation {
  /** `user`, `sandbox`, `gvisor`, `outbound`, `limits` … */
  readonly without: string;
  readonly reason: string;
  readonly remedy: string;
}

/** What a node can do for its workers. */
export interface NodeIsolation {
  /** Level of thread and process workers, foreign workers and users' servers included. */
  readonly processes: 'none' | 'user' | 'sandbox';
  /** Level of workers in containers; undefined without a container engine. */
  readonly containers: 'container' | 'gvisor' | undefined;
  /** Networks that thread and process workers can have. */
  readonly processNetworks: readonly WorkerNetwork[];
  readonly containerNetworks: readonly WorkerNetwork[];
  readonly missing: readonly MissingIsolation[];
}

/** A node whose agent does not report its isolation. */
export const UNREPORTED_ISOLATION: NodeIsolation = {
  processes: 'none',
  containers: undefined,
  processNetworks: ['host'],
  containerNetworks: ['host'],
  missing: [],
};

export function isIsolationLevel(value: string): value is IsolationLevel {
  return ISOLATION_LEVELS.some((level) => level === value);
}

export function isWorkerNetwork(value: string): value is WorkerNetwork {
  return WORKER_NETWORKS.some((network) => network === value);
}

/** Returns the one that reaches less. */
export function narrowest(a: WorkerNetwork, b: WorkerNetwork): WorkerNetwork {
  return WORKER_NETWORKS.indexOf(a) > WORKER_NETWORKS.indexOf(b) ? a : b;
}

export function isAccountNetwork(value: string): value is AccountNetwork {
  return ACCOUNT_NETWORKS.some((network) => network === value);
}

/** Returns whether `level` is as strong as `least`, or stronger. */
export function isAtLeast(level: IsolationLevel, least: IsolationLevel): boolean {
  return ISOLATION_LEVELS.indexOf(level) >= ISOLATION_LEVELS.indexOf(least);
}
