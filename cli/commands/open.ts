import { spawn } from 'node:child_process';

import { printResult, type Command, type Invocation } from '../command/command.ts';
import { GATEWAY_SETTINGS, readSettings, type Environment } from '../../terminal/config.ts';
import { connect, gatewayOf } from '../../client/gateway.ts';
import { textOption } from '../../terminal/options.ts';

/** `capstan open [endpoint]`: the documentation page of an endpoint, or of the service's API. */
export const open: Command = {
  name: 'open',
  summary: 'Open the documentation page of an endpoint, or of the API, in the browser. Prints its URL.',
  arguments: [{ name: 'endpoint', description: 'id or name; without it, the page of the API', optional: true }],
  options: [{ flags: '--env <environment>', description: 'environment of the endpoint', default: 'all' }],
  settings: GATEWAY_SETTINGS,
  json: true,
  examples: ['open', 'open shop --env staging'],
  async run(invocation) {
    const { env, terminal } = invocation;
    const url = await pageOf(invocation);
    const program = browserOf(env);
    printResult(invocation, { url }, () => terminal.value(url));
    if (program === null || !terminal.isInteractive) return;
    const browser = spawn(program, [url], { stdio: 'ignore', detached: true });
    browser.on('error', (error) => terminal.warn(`cannot run ${program}: ${error.message}`));
    browser.unref();
  },
};

/** A queue has no page of its own: the page of the API describes its calls. */
async function pageOf({ args, options, env }: Invocation): Promise<string> {
  const settings = readSettings(options, env);
  const { url: base } = gatewayOf(settings, env);
  const [wanted] = args;
  if (wanted === undefined) return `${base}/docs`;
  const [{ findEndpoint }, { listEndpoints }] = await Promise.all([import('../api/find-endpoint.ts'), import('../api/control.ts')]);
  const { id, kind } = findEndpoint(await listEndpoints(await connect(settings, env), textOption(options, 'env') ?? null), wanted);
  return kind === 'queue' ? `${base}/docs` : `${base}/lb/${encodeURIComponent(id)}/docs`;
}

/** Returns the program that opens a URL on this desktop; null without a desktop. */
function browserOf({ variables }: Environment): string | null {
  if (process.platform === 'darwin') return 'open';
  const has = (name: string): boolean => (variables[name] ?? '') !== '';
  return has('DISPLAY') || has('WAYLAND_DISPLAY') ? 'xdg-open' : null;
}
