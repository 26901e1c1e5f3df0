import { EndpointKind } from '../../proto/gen/capstan/v1/common.ts';
import type { EndpointSpec } from '../../proto/gen/capstan/v1/control.ts';
import type { Command } from '../command.ts';
import { readSettings, type Settings } from '../config.ts';
import { apiKeyForShell, quote } from '../local.ts';
import type { Terminal } from '../terminal/terminal.ts';
import { explain } from '../terminal/tool-error.ts';

/** What of an endpoint can be asked without knowing more of it: a queue's health, a route that needs nothing. */
function callable(id: string, spec: EndpointSpec | undefined): string | null {
  if (spec?.kind !== EndpointKind.LOAD_BALANCED) return `/v2/${id}/health`;
  const route = Object.keys(spec.routes).find((each) => /^GET [^{:]+$/.test(each));
  return route === undefined ? null : `/lb/${id}${quote(route.slice('GET '.length))}`;
}

/** `capstan up`: scheduler, gateway and agent on this host, until Ctrl+C. */
export const up: Command = {
  name: 'up',
  summary: 'Run the whole service on this host: scheduler, gateway and agent. Restarts a part that dies.',
  settings: ['httpPort', 'grpcPort', 'dataDir', 'apiKey'],
  examples: ['up', 'up --http-port 9080 --grpc-port 9070'],
  async run({ options, env, terminal }) {
    const settings = readSettings(options, env);
    const { runStack } = await import('../supervisor/stack.ts');
    return runStack({
      settings,
      environment: env,
      terminal,
      async whenReady({ url, isNew }) {
        const path = isNew ? undefined : await firstPath(settings).catch((error: unknown) => reportUnlisted(error, terminal));
        const key = apiKeyForShell(settings, env.variables['SERVICE_API_KEY'] === undefined ? undefined : { kind: 'shell' });
        terminal.next(path === undefined ? 'capstan deploy <folder>' : `curl -s ${url}${path} -H "Authorization: Bearer ${key}"`);
        terminal.line('Ctrl+C ends it.');
      },
    });
  },
};

/** What cannot be listed is no reason to end what serves. */
function reportUnlisted(error: unknown, terminal: Terminal): undefined {
  terminal.warn(`the endpoints cannot be listed: ${explain(error).message}`);
}

/** Loads gRPC, a third of what this process uses, so it is not asked without need. */
async function firstPath(settings: Settings): Promise<string | undefined> {
  const { listLocalEndpoints } = await import('../api/local-endpoints.ts');
  const [first] = (await listLocalEndpoints(settings)).flatMap(({ id, spec }) => callable(quote(id), spec) ?? []);
  return first;
}
