/** Selects the gateway that a command calls, and the key. */
import type { GatewayClient } from './gateway-client.ts';
import type { Environment, Settings } from '../terminal/config.ts';
import { checkKeyTarget } from './key-target.ts';
import { apiKey, httpBase } from './local.ts';
import { readLogin, type Login } from './login-file.ts';
import { readRunFile } from '../supervisor/run-file.ts';
import { ToolError } from '../terminal/tool-error.ts';

/**
 * Returns the given address (--url, CAPSTAN_URL), else that of the stack on the data folder, else that of `capstan
 * login`, else this host's default address.
 * @throws CapstanError CONFIG when there is no key for it, or none that may be sent to it.
 */
export function gatewayOf(settings: Settings, environment: Environment): Login {
  const url = settings.url?.replace(/\/+$/, '');
  if (url === undefined && (settings.httpPort !== undefined || readRunFile(settings.dataDir) !== null)) return local(settings);
  const login = readLogin(environment);
  if (url === undefined) return login === null ? local(settings) : { url: login.url, key: settings.apiKey ?? login.key };
  const key = settings.apiKey ?? (login?.url === url ? login?.key : undefined);
  if (key !== undefined && login?.url === url && login.key === key) return { url, key };
  if (key !== undefined) {
    checkKeyTarget(settings, 'url');
    return { url, key };
  }
  throw new ToolError('CONFIG', `SERVICE_API_KEY: no API key is set for ${url}`, `Set it, or run: capstan login --url ${url}`, {
    field: 'SERVICE_API_KEY',
  });
}

/** Says where the address of {@link gatewayOf} comes from. */
export function gatewaySource(settings: Settings, environment: Environment): string {
  if (settings.url !== undefined) return '--url or CAPSTAN_URL';
  if (settings.httpPort !== undefined) return 'port of this host';
  if (readRunFile(settings.dataDir) !== null) return `running stack on ${settings.dataDir}`;
  return readLogin(environment) === null ? 'default address' : 'capstan login';
}

function local(settings: Settings): Login {
  const key = apiKey(settings);
  checkKeyTarget(settings, 'dataDir');
  return { url: httpBase(settings), key };
}

/** Creates a client of that gateway. */
export async function connect(settings: Settings, environment: Environment): Promise<GatewayClient> {
  const { connectGateway } = await import('./gateway-client.ts');
  const { url, key } = gatewayOf(settings, environment);
  return connectGateway(url, key);
}
