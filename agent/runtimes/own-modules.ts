/** The variables by which Node processes of workers find packages of their build only (own-modules.cjs). */
import { delimiter, join } from 'node:path';

import { quoted } from './node-options.ts';

/** `roots`: folders directly in which builds and working folders are, as workers see them. */
export function ownModules(bootstrap: string, roots: readonly string[]): Record<string, string> {
  return {
    NODE_OPTIONS: `--require=${quoted(join(bootstrap, 'agent/runtimes/own-modules.cjs'))}`,
    ...(roots.length === 0 ? {} : { CAPSTAN_MODULE_ROOTS: roots.join(delimiter) }),
  };
}
