import { join } from 'node:path';

import type { Command } from '../command.ts';
import { installRoot, readSettings, settingOptions } from '../config.ts';
import { apiKeyForShell } from '../local.ts';

/** What `npm start` runs: the stack, the sample endpoint, one job through HTTP, then serving until Ctrl+C. */
export const start: Command = {
  name: 'start',
  summary: 'Run the service with the sample endpoint, and one job.',
  hidden: true,
  options: settingOptions('httpPort', 'grpcPort', 'dataDir'),
  async run({ options, env, terminal }) {
    const settings = readSettings(options, env);
    const { runStack } = await import('../supervisor/stack.ts');
    terminal.step('starting scheduler, gateway and agent');
    return runStack({
      settings,
      environment: env,
      terminal,
      async whenReady({ url }, signal) {
        const { showSample } = await import('../sample.ts');
        const folder = join(installRoot, 'examples', 'text-analysis');
        const key = apiKeyForShell(settings, env.variables['SERVICE_API_KEY'] !== undefined);
        await showSample({ folder, settings, url, key, terminal, signal });
        signal.throwIfAborted();
        const { showReference } = await import('../reference.ts');
        const lbDomain = env.variables['CAPSTAN_LB_DOMAIN'];
        await showReference({ folder: join(installRoot, 'examples', 'reference'), settings, url, lbDomain, key, terminal, signal });
        terminal.line('Ctrl+C ends it.');
      },
    });
  },
};
