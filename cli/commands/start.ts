import { join } from 'node:path';

import type { Command } from '../command/command.ts';
import { installRoot, readSettings } from '../../terminal/config.ts';
import { apiKeyForShell } from '../../client/local.ts';
import { buildConsole, tellConsole } from '../samples/console.ts';

/** Folders of examples/ that are deployed. */
const SAMPLES = ['text-analysis', 'reference'];
/** The endpoint that runs the first job. */
const FIRST = 'text-analysis';

/**
 * The command behind `npm start`: starts the stack, deploys the sample endpoints, runs one job over HTTP, then serves
 * until Ctrl+C.
 */
export const start: Command = {
  name: 'start',
  summary: 'Run the service, deploy the sample endpoints, and run one job.',
  hidden: true,
  settings: ['httpPort', 'grpcPort', 'dataDir', 'apiKey'],
  async run({ options, env, terminal }) {
    const settings = readSettings(options, env);
    const { runStack } = await import('../../supervisor/stack.ts');
    terminal.step('starting scheduler, gateway and agent');
    return runStack({
      settings,
      environment: env,
      terminal,
      async whenReady({ url }, signal) {
        tellConsole(url, terminal, true);
        const [{ attempt, deploySamples }, { showFirstJob, showRoutes }] = await Promise.all([
          import('../samples/samples.ts'),
          import('../samples/first-job.ts'),
        ]);
        const folders = SAMPLES.map((name) => join(installRoot, 'examples', name));
        const rows = await deploySamples({ folders, settings, url, cwd: env.cwd, terminal, signal });
        const key = apiKeyForShell(settings, env.variables['SERVICE_API_KEY'] === undefined ? undefined : { kind: 'shell' });
        const shown = { settings, url, key, terminal, signal };
        const first = rows.find(({ name }) => name === FIRST);
        if (first !== undefined) await attempt(shown, 'the first job', () => showFirstJob(first, shown));
        const balanced = rows.filter(({ kind }) => kind === 'load-balanced');
        showRoutes(balanced, env.variables['CAPSTAN_LB_DOMAIN'] ?? 'lb.localhost', shown);
        terminal.line('Press Ctrl+C to stop it.');
        void buildConsole(url, terminal, signal);
      },
    });
  },
};
