/** The three parts of a stack on one host: how each is started, and their start and stop order. */
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

import { DEFAULT_GRPC_PORT, DEFAULT_HTTP_PORT, type Environment, type Settings } from '../config.ts';
import { PART_NODE_ARGS, SUPERVISED } from '../parts/part-process.ts';
import { ownBase } from './own-base.ts';
import type { PartPlan } from './supervisor.ts';

const main = fileURLToPath(new URL('../main.ts', import.meta.url));

/**
 * Gateways stop first, so that no new request is accepted; then the agent, while the scheduler still accepts its
 * results.
 */
export const STOP_ORDER: readonly string[] = ['gateway', 'agent', 'scheduler'];

/** The gateway and the agent may use their own 10 s for requests in progress. */
export const GRACE_MS = 20_000;

export function stackPlans(settings: Settings, environment: Environment): PartPlan[] {
  const { SERVICE_API_KEY: _key, NODE_CHANNEL_FD: _channel, ...inherited } = environment.variables;
  const secrets = join(settings.dataDir, 'secrets');
  const common = { ...inherited, [SUPERVISED]: '1', CAPSTAN_DATA_DIR: settings.dataDir };
  // A restarted part must return to the address that the others know.
  const grpcPort = (addresses: ReadonlyMap<string, string>): string =>
    portOf(addresses.get('scheduler')) ?? String(settings.grpcPort ?? DEFAULT_GRPC_PORT);
  const httpPort = (addresses: ReadonlyMap<string, string>): string =>
    portOf(addresses.get('gateway')) ?? String(settings.httpPort ?? DEFAULT_HTTP_PORT);
  return [
    {
      name: 'scheduler',
      needs: [],
      graceMs: GRACE_MS,
      command: (addresses) => ({
        args: [...PART_NODE_ARGS, main, 'scheduler'],
        env: {
          ...common,
          CAPSTAN_GRPC_PORT: grpcPort(addresses),
          SERVICE_API_KEY: settings.apiKey,
          CAPSTAN_WEBHOOK_ALLOW_OPERATOR: webhookAllow(environment),
        },
      }),
    },
    {
      name: 'gateway',
      needs: ['scheduler'],
      graceMs: GRACE_MS,
      command: (addresses) => ({
        args: [...PART_NODE_ARGS, main, 'gateway'],
        env: {
          ...common,
          CAPSTAN_HTTP_PORT: httpPort(addresses),
          CAPSTAN_SCHEDULER: addresses.get('scheduler'),
          CAPSTAN_GATEWAY_TOKEN_FILE: join(secrets, 'gateway-token'),
        },
      }),
    },
    {
      name: 'agent',
      // Workers receive the gateway's address: if it chooses its own port, it must start first.
      needs: settings.httpPort === 0 ? ['scheduler', 'gateway'] : ['scheduler'],
      graceMs: GRACE_MS,
      command: (addresses) => ({
        args: [...PART_NODE_ARGS, main, 'agent'],
        env: {
          CAPSTAN_PUBLIC_URL: ownBase(environment, httpPort(addresses)),
          ...common,
          CAPSTAN_SCHEDULER: addresses.get('scheduler'),
          CAPSTAN_JOIN_TOKEN_FILE: join(secrets, 'join-token'),
        },
      }),
    },
  ];
}

/**
 * Addresses that the operator's own webhooks may reach: loopback while the service listens there and no proxy is in
 * front of it. Other accounts are tenants, whoever their callers are: they reach services of this host only if
 * CAPSTAN_WEBHOOK_ALLOW permits it.
 */
function webhookAllow({ variables }: Environment): string {
  const opened = variables['CAPSTAN_WEBHOOK_ALLOW_OPERATOR'] ?? '';
  const isProxied = (variables['CAPSTAN_TRUSTED_PROXIES'] ?? '') !== '' || !isLoopback(hostOf(variables['CAPSTAN_PUBLIC_URL'] ?? ''));
  return isLoopback(variables['CAPSTAN_HTTP_HOST'] ?? '') && !isProxied
    ? [opened, '127.0.0.0/8', '::1'].filter((entry) => entry !== '').join(',')
    : opened;
}

function isLoopback(host: string): boolean {
  return /^(|localhost|127(\.\d{1,3}){3}|\[?::1\]?)$/.test(host);
}

/** Empty for an invalid URL: the part that reads the setting rejects it. */
function hostOf(url: string): string {
  return URL.parse(url)?.hostname ?? '';
}

function portOf(address: string | undefined): string | undefined {
  return address === undefined ? undefined : /:(\d+)$/.exec(address)?.[1];
}
