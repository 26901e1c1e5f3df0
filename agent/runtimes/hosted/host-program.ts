/** The programs of worker hosts. */
import { join } from 'node:path';

export interface HostProgram {
  readonly command: string;
  readonly args: readonly string[];
  /**
   * User code may block the whole host, so that it never sees its channel close: it gets an extra descriptor
   * (LIFELINE_FD) whose close kills its process group in any state.
   */
  readonly lifeline: boolean;
  /** Files and folders of this host that it needs, beside its command. */
  readonly reads: readonly string[];
}

/**
 * Enums and parameter properties need more than type stripping; Node warns that this is experimental, and warns of
 * builds whose package.json sets no module type.
 */
export const NODE_FLAGS = [
  '--experimental-transform-types',
  '--disable-warning=ExperimentalWarning',
  '--disable-warning=MODULE_TYPELESS_PACKAGE_JSON',
  '--enable-source-maps',
];

/**
 * Returns command and arguments that run a program of the staged bootstrap, a path below agent/runtimes, with the
 * current Node executable.
 */
export function nodeCommand(bootstrap: string, program: string): Omit<HostProgram, 'lifeline'> {
  return { command: process.execPath, args: [...NODE_FLAGS, join(bootstrap, 'agent/runtimes', program)], reads: [bootstrap] };
}
