/** The programs that worker hosts run. */
import { join } from 'node:path';

export interface HostProgram {
  readonly command: string;
  readonly args: readonly string[];
  /**
   * User code may keep the whole host busy, so that it never sees its channel's end: it gets one
   * more descriptor (LIFELINE_FD) whose end kills its process group whatever it is doing.
   */
  readonly lifeline: boolean;
}

/**
 * Enums and parameter properties need more than stripped types; Node warns that it is
 * experimental, and of builds whose package.json does not say what kind of module they hold.
 */
export const NODE_FLAGS = [
  '--experimental-transform-types',
  '--disable-warning=ExperimentalWarning',
  '--disable-warning=MODULE_TYPELESS_PACKAGE_JSON',
  '--enable-source-maps',
];

/** Command and arguments that run a program of the staged bootstrap, a path below agent/runtimes, in this very Node. */
export function nodeCommand(bootstrap: string, program: string): Pick<HostProgram, 'command' | 'args'> {
  return { command: process.execPath, args: [...NODE_FLAGS, join(bootstrap, 'agent/runtimes', program)] };
}
