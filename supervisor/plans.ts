/** The parts of a stack on one host: how each is started, and their start and stop order. */
import { mkdirSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

import { CapstanError } from '../lib/errors.ts';
import { isErrno } from '../lib/to-error.ts';
import { DEFAULT_GRPC_PORT, DEFAULT_HTTP_PORT, type Environment, type Settings } from '../terminal/config.ts';
import { PART_NODE_ARGS, SUPERVISED } from './part-process.ts';
import { ToolError } from '../terminal/tool-error.ts';
import { ownBase } from './own-base.ts';
import type { PartPlan } from './supervisor.ts';

const main = fileURLToPath(new URL('../cli/main.ts', import.meta.url));

const FIRST_SCHEDULER = 'scheduler';
const HIGHEST_PORT = 65_535;

/** Whether a part is one of the schedulers. */
export function isScheduler(part: string): boolean {
  return part === FIRST_SCHEDULER || part.startsWith(`${FIRST_SCHEDULER}-`);
}

/**
 * Gateways stop first, so that no new request is accepted; then the agent, while the scheduler still accepts its
 * results. Of several schedulers the first stops last: it owns the queue, unless it failed meanwhile.
 */
export function stopOrder(parts: readonly PartPlan[]): string[] {
  const names = parts.map(({ name }) => name);
  return [...['gateway', 'agent'].filter((name) => names.includes(name)), ...names.filter(isScheduler).toReversed()];
}

/** Addresses of the schedulers that are known, as CAPSTAN_SCHEDULER takes them. */
export function schedulerList(addresses: ReadonlyMap<string, string>): string {
  return [...addresses]
    .filter(([part]) => isScheduler(part))
    .toSorted(([left], [right]) => left.localeCompare(right, 'en', { numeric: true }))
    .map(([, address]) => address)
    .join(',');
}

/** The gateway and the agent may use their own 10 s for requests in progress. */
export const GRACE_MS = 20_000;

export function stackPlans(settings: Settings, environment: Environment): PartPlan[] {
  const { SERVICE_API_KEY: _key, NODE_CHANNEL_FD: _channel, ...inherited } = environment.variables;
  const secrets = join(settings.dataDir, 'secrets');
  const common = { ...inherited, [SUPERVISED]: '1', CAPSTAN_DATA_DIR: settings.dataDir };
  // A restarted part must return to the address that the others know.
  const httpPort = (addresses: ReadonlyMap<string, string>): string =>
    portOf(addresses.get('gateway')) ?? String(settings.httpPort ?? DEFAULT_HTTP_PORT);
  const schedulers = schedulerPlans(settings, environment, common);
  const names = schedulers.map(({ name }) => name);
  return [
    ...schedulers,
    {
      name: 'gateway',
      needs: names,
      graceMs: GRACE_MS,
      command: (addresses) => ({
        args: [...PART_NODE_ARGS, main, 'gateway'],
        env: {
          ...common,
          CAPSTAN_HTTP_PORT: httpPort(addresses),
          CAPSTAN_SCHEDULER: schedulerList(addresses),
          CAPSTAN_GATEWAY_TOKEN_FILE: join(secrets, 'gateway-token'),
        },
      }),
    },
    {
      name: 'agent',
      // Workers receive the gateway's address: if it chooses its own port, it must start first.
      needs: settings.httpPort === 0 ? [...names, 'gateway'] : names,
      graceMs: GRACE_MS,
      command: (addresses) => ({
        args: [...PART_NODE_ARGS, main, 'agent'],
        env: {
          CAPSTAN_PUBLIC_URL: ownBase(environment, httpPort(addresses)),
          ...common,
          CAPSTAN_SCHEDULER: schedulerList(addresses),
          CAPSTAN_JOIN_TOKEN_FILE: join(secrets, 'join-token'),
        },
      }),
    },
  ];
}

/** The first scheduler has the stack's data folder, each other one a folder in it, with the first one's secrets. */
function schedulerPlans(settings: Settings, environment: Environment, common: Readonly<Record<string, string | undefined>>): PartPlan[] {
  const count = settings.schedulers ?? 1;
  if (count > 1 && settings.store === undefined) throw withoutStore(count);
  const basePort = settings.grpcPort ?? DEFAULT_GRPC_PORT;
  if (basePort + count - 1 > HIGHEST_PORT)
    throw new CapstanError('INVALID_ARGUMENT', `--grpc-port: ${basePort} leaves no ports for ${count} schedulers`, {
      field: '--grpc-port',
    });
  const store = settings.store === undefined ? {} : { CAPSTAN_STORE: settings.store };
  const blobs = count === 1 ? {} : sharedBlobs(settings, common);
  return Array.from({ length: count }, (_, i): PartPlan => {
    const name = i === 0 ? FIRST_SCHEDULER : `${FIRST_SCHEDULER}-${i + 1}`;
    const port = basePort === 0 ? 0 : basePort + i;
    return {
      name,
      // The first makes the secrets.
      needs: i === 0 ? [] : [FIRST_SCHEDULER],
      graceMs: GRACE_MS,
      command: (addresses) => ({
        args: [...PART_NODE_ARGS, main, 'scheduler'],
        env: {
          ...common,
          ...store,
          ...blobs,
          CAPSTAN_DATA_DIR: i === 0 ? settings.dataDir : folderBeside(settings.dataDir, i + 1),
          CAPSTAN_GRPC_PORT: portOf(addresses.get(name)) ?? String(port),
          SERVICE_API_KEY: settings.apiKey,
          CAPSTAN_WEBHOOK_ALLOW_OPERATOR: webhookAllow(environment),
        },
      }),
    };
  });
}

function withoutStore(count: number): ToolError {
  return new ToolError(
    'INVALID_ARGUMENT',
    `--schedulers: ${count} schedulers require a queue in PostgreSQL`,
    'Set it with --store postgres://<user>@<host>/<database> or CAPSTAN_STORE; SQLite supports only one scheduler.',
    { field: '--schedulers' },
  );
}

/** One folder of blobs for all, that of the first scheduler; none where they are in S3-compatible storage. */
function sharedBlobs({ dataDir }: Settings, given: Readonly<Record<string, string | undefined>>): Readonly<Record<string, string>> {
  if ((given['CAPSTAN_S3_ENDPOINT'] ?? '') !== '') return {};
  const folder = given['CAPSTAN_BLOB_DIR'] ?? '';
  return { CAPSTAN_BLOB_DIR: folder === '' ? join(dataDir, 'scheduler', 'blobs') : folder, CAPSTAN_BLOB_DIR_SHARED: 'true' };
}

/** Creates the data folder of a further scheduler. Its secrets are those of the first: also after a rotation of the master key. */
function folderBeside(dataDir: string, number: number): string {
  const folder = join(dataDir, 'schedulers', String(number));
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  try {
    symlinkSync('../../secrets', join(folder, 'secrets'));
  } catch (error) {
    if (!isErrno(error, 'EEXIST')) throw error;
  }
  return folder;
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
