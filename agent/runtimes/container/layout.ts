/** Where things lie inside of a worker's container; init/ repeats what it needs of it. */

/** The staged bootstrap (hosted/bootstrap.ts), read-only. */
export const BOOTSTRAP = '/capstan/bootstrap';
/** The agent's own Node, read-only. */
export const NODE = '/capstan/node';
/** The unpacked build, read-only. */
export const BUILD = '/capstan/build';
/** The worker's working folder, which its host makes: /tmp is writable in every container, or the build is the working folder. */
export const WORK = '/tmp/capstan-work';
/** Folder of the worker's own socket; nothing else of the node is in it. */
export const CHANNEL = '/capstan/channel';
/** The socket's name in that folder. */
export const SOCKET = 's';

/**
 * A container's first process opens one connection for each of the descriptors that a host process has
 * (hosted/protocol.ts), and says by one byte which it is.
 */
export const ROLES = { channel: 'c', entry: 'e', lifeline: 'l' } as const;

/** Name of the node in its containers, where they have a way to it. */
export const HOST_NAME = 'host.docker.internal';

/** Labels of our containers. */
export const LABELS = {
  /** Which agent's: random, kept in its data folder. */
  agent: 'capstan.agent',
  /** Which run of that agent: what tells a leftover. */
  incarnation: 'capstan.incarnation',
  /** Which start of a worker: known before the container is. */
  start: 'capstan.start',
  node: 'capstan.node',
  worker: 'capstan.worker',
  endpoint: 'capstan.endpoint',
} as const;
