/** What `capstan status` and `capstan whoami` ask a gateway: its version and health, and whose the key is. */
import { explain } from '../../terminal/tool-error.ts';
import { CapstanError } from '../../lib/errors.ts';
import { getAccount, listKeys, type AccountRow, type KeyRow } from './control.ts';
import type { GatewayClient } from '../../client/gateway-client.ts';
import { callHttp } from '../../client/http-call.ts';

/** `capstan status` must not wait long for a host that does not answer. */
const HEALTH_MS = 5_000;

export interface ServiceState {
  /** `down`: the gateway does not respond; `degraded`: it does not reach its scheduler. */
  readonly state: 'up' | 'degraded' | 'down';
  /** Of the gateway; empty when it is down. */
  readonly version: string;
}

export interface KeyOwner {
  /** Null when the key may not read its account: it covers some endpoints or one environment only. */
  readonly account: AccountRow | null;
  /** Null also when several keys begin as this one does. */
  readonly key: Pick<KeyRow, 'name' | 'prefix' | 'scope' | 'expiresAt'> | null;
}

export async function serviceState(url: string): Promise<ServiceState> {
  const ask = (path: string): ReturnType<typeof callHttp> => callHttp(`${url}${path}`, { method: 'GET', headers: {}, idleMs: HEALTH_MS });
  try {
    const [about, health] = await Promise.all([ask('/'), ask('/healthz')]);
    const { name, version } = JSON.parse(about.text) as { name?: unknown; version?: unknown };
    if (name !== 'capstan' || typeof version !== 'string') return { state: 'down', version: '' };
    return { state: health.status === 200 ? 'up' : 'degraded', version };
  } catch {
    return { state: 'down', version: '' }; // the next call of the command names the cause
  }
}

/** @throws CapstanError UNAUTHENTICATED when the key is not valid. */
export async function ownerOf(client: GatewayClient, key: string): Promise<KeyOwner> {
  try {
    const [account, keys] = await Promise.all([getAccount(client), listKeys(client, null)]);
    const own = keys.filter(({ prefix }) => prefix !== '' && key.startsWith(prefix));
    return { account, key: own.length === 1 ? (own[0] ?? null) : null };
  } catch (error) {
    if (error instanceof CapstanError && error.code === 'PERMISSION_DENIED') return { account: null, key: null };
    throw error;
  }
}

export function problemText(error: unknown): string {
  return explain(error).message;
}
