/** Paths inside a worker's container; init/ repeats those that it needs. */

/** The staged bootstrap (bootstrap.ts), read-only. */
export const BOOTSTRAP = '/capstan/bootstrap';
/** The agent's own Node, read-only. */
export const NODE = '/capstan/node';
/** The unpacked build, read-only. */
export const BUILD = '/capstan/build';
/**
 * The worker's working folder, created by its host: /tmp is writable in every container; otherwise the build is the
 * working folder.
 */
export const WORK = '/tmp/capstan-work';
/** Folder of the worker's own socket; it contains nothing else of the node. */
export const CHANNEL = '/capstan/channel';
/** Name of the socket in that folder. */
export const SOCKET = 's';

/**
 * A container's first process opens one connection for each descriptor of a host process (host-protocol.ts) and
 * identifies it by one byte.
 */
export const ROLES = { channel: 'c', entry: 'e', lifeline: 'l' } as const;

/** Host name of the node in its containers, where they can reach it. */
export const HOST_NAME = 'host.docker.internal';

/** A container's own name where it has no network. */
export const WORKER_HOST = 'worker';

/** Labels of our containers. */
export const LABELS = {
  /** The agent: a random name kept in its data folder. */
  agent: 'capstan.agent',
  /** The run of that agent: identifies leftovers. */
  incarnation: 'capstan.incarnation',
  /** The start of a worker: known before the container exists. */
  start: 'capstan.start',
  node: 'capstan.node',
  worker: 'capstan.worker',
  endpoint: 'capstan.endpoint',
} as const;
