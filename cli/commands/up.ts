import type { EndpointInfo } from '../../proto/gen/capstan/v1/control.ts';
import type { Command } from '../command.ts';
import { readSettings, settingOptions, type Settings } from '../config.ts';
import { apiKeyForShell, quote } from '../local.ts';

/** `capstan up`: scheduler, gateway and agent on this host, until Ctrl+C. */
export const up: Command = {
  name: 'up',
  summary: 'Run the whole service on this host: scheduler, gateway and agent, restarted when they die.',
  options: settingOptions('httpPort', 'grpcPort', 'dataDir'),
  async run({ options, env, terminal }) {
    const settings = readSettings(options, env);
    const { runStack } = await import('../supervisor/stack.ts');
    return runStack({
      settings,
      environment: env,
      terminal,
      async whenReady({ http, isNew }) {
        const first = isNew ? undefined : await firstEndpoint(settings);
        if (first === undefined) terminal.next('capstan deploy <folder>');
        else {
          const key = apiKeyForShell(settings, env.variables['SERVICE_API_KEY'] !== undefined);
          terminal.next(`curl -s http://${http}/v2/${quote(first.id)}/health -H "Authorization: Bearer ${key}"`);
        }
        terminal.line('Ctrl+C ends it.');
      },
    });
  },
};

/** Loads gRPC, a third of what this process uses, so it is not asked without need. */
async function firstEndpoint(settings: Settings): Promise<EndpointInfo | undefined> {
  const { listLocalEndpoints } = await import('../api/local-endpoints.ts');
  return (await listLocalEndpoints(settings))[0];
}
