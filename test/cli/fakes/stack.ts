/**
 * `capstan up` with small parts: `node stack.ts <data folder> <behaviour of the agent>`. Says `up`
 * when they are ready, then `abort` when the work after that is called off.
 */
import { join } from 'node:path';

import { readSettings } from '../../../terminal/config.ts';
import type { PartPlan } from '../../../supervisor/supervisor.ts';
import { runStack } from '../../../supervisor/stack.ts';
import { createTerminal } from '../../../terminal/terminal.ts';
import { explain } from '../../../terminal/tool-error.ts';
import { shared } from './run.ts';

const [dataDir = '', agent = 'serve', after = 'wait'] = process.argv.slice(2);
const environment = { variables: {}, cwd: process.cwd() };
const terminal = createTerminal({ out: process.stdout, err: process.stderr, colours: false });
const parts = ['scheduler', 'gateway', 'agent'].map((name): PartPlan => ({
  name,
  needs: name === 'scheduler' ? [] : ['scheduler'],
  graceMs: 60_000,
  command: () => ({ args: [join(import.meta.dirname, 'part.ts'), name === 'agent' ? agent : 'serve'], env: shared }),
}));

try {
  process.exitCode = await runStack({
    settings: readSettings({ dataDir }, environment),
    environment,
    terminal,
    parts,
    async whenReady(_addresses, signal) {
      terminal.data('up');
      if (after === 'throw') throw new Error('the work after the start failed');
      await new Promise((resolve) => signal.addEventListener('abort', resolve));
      terminal.data('abort');
    },
  });
} catch (error) {
  const { message, hint, exitCode } = explain(error);
  terminal.fail(message);
  terminal.hint(hint);
  process.exitCode = exitCode;
}
