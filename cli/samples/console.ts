/** Builds the web console of a checkout while the stack serves already. */
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';

import { toError } from '../../lib/to-error.ts';
import { installRoot } from '../../terminal/config.ts';
import type { Terminal } from '../../terminal/terminal.ts';

/** Longest that the installation of what builds it may take, ms. */
const LIMIT_MS = 300_000;

/** Says where it is. `isBuilding`: it is built, if it is not there. */
export function tellConsole(url: string, terminal: Terminal, isBuilding: boolean): void {
  const note = isBuilding ? ' (being built)' : ' (not built; npm run console builds it)';
  terminal.line(`Web console: ${url}/console${isBuilt() ? '' : note}`);
}

function isBuilt(): boolean {
  return existsSync(join(installRoot, 'console', 'dist', 'index.html'));
}

/** Builds it if it is not there or of older sources. A failure leaves the rest as it is. */
export async function buildConsole(url: string, terminal: Terminal, signal: AbortSignal): Promise<void> {
  const script = join(installRoot, 'console', 'build.mjs');
  const wasThere = isBuilt();
  // An installed package has the result alone.
  if (existsSync(script)) {
    try {
      await promisify(execFile)(process.execPath, [script], { signal, timeout: LIMIT_MS });
    } catch (thrown) {
      if (signal.aborted) return;
      const { stderr = '' } = thrown as { readonly stderr?: string };
      const [why = toError(thrown).message] = stderr.split('\n').filter((line) => /error|ERR!/i.test(line));
      terminal.warn(`the web console was not built: ${why.trim()}; try again with: npm run console`);
      return;
    }
  }
  if (!signal.aborted && !wasThere) terminal.done(`built the web console: ${url}/console`);
}
