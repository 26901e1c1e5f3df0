import type { EndpointRow } from '../api/endpoint-row.ts';
import type { Command } from '../command/command.ts';
import { readSettings, type Settings } from '../../terminal/config.ts';
import { apiKey, apiKeyForShell, ownSettings, quote } from '../../client/local.ts';
import type { Terminal } from '../../terminal/terminal.ts';
import { explain } from '../../terminal/tool-error.ts';
import { buildConsole, tellConsole } from '../samples/console.ts';

/**
 * Returns a path of an endpoint that can be called without changes: the health of a queue, or a route without a body
 * and parameters.
 */
function callable({ id, kind, routes }: EndpointRow): string | null {
  if (kind === 'queue') return `/v2/${quote(id)}/health`;
  const route = Object.keys(routes).find((each) => /^GET [^{:]+$/.test(each));
  return route === undefined ? null : `/lb/${quote(id)}${quote(route.slice('GET '.length))}`;
}

/** `capstan up`: runs scheduler, gateway and agent on this host, until Ctrl+C. */
export const up: Command = {
  name: 'up',
  summary: 'Run the whole service on this host: scheduler, gateway and agent. Restarts a part that dies.',
  settings: ['httpPort', 'grpcPort', 'dataDir', 'schedulers', 'store', 'apiKey'],
  examples: ['up', 'up --http-port 9080 --grpc-port 9070', 'up --schedulers 3 --store postgres://capstan@db.example/capstan'],
  async run({ options, env, terminal }) {
    const settings = readSettings(options, env);
    const { runStack } = await import('../../supervisor/stack.ts');
    return runStack({
      settings,
      environment: env,
      terminal,
      async whenReady({ url, isNew }, signal) {
        tellConsole(url, terminal, terminal.isLive);
        const path = isNew ? undefined : await firstPath(url, settings).catch((error: unknown) => reportUnlisted(error, terminal));
        const key = apiKeyForShell(settings, env.variables['SERVICE_API_KEY'] === undefined ? undefined : { kind: 'shell' });
        terminal.next(path === undefined ? 'capstan deploy <folder>' : `curl -s ${url}${path} -H "Authorization: Bearer ${key}"`);
        terminal.line('Press Ctrl+C to stop it.');
        // A service without a person at its terminal builds nothing.
        if (terminal.isLive) void buildConsole(url, terminal, signal);
      },
    });
  },
};

/** A failure to list is reported; the stack continues. */
function reportUnlisted(error: unknown, terminal: Terminal): undefined {
  terminal.warn(`cannot list the endpoints: ${explain(error).message}`);
}

async function firstPath(url: string, settings: Settings): Promise<string | undefined> {
  const [{ connectGateway }, { listEndpoints }] = await Promise.all([
    import('../../client/gateway-client.ts'),
    import('../api/control.ts'),
  ]);
  const rows = await listEndpoints(connectGateway(url, apiKey(ownSettings(settings))), null);
  return rows.flatMap((row) => callable(row) ?? [])[0];
}
