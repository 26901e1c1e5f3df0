/** Resolves the addresses and the API key of a stack: from the settings, else from the stack on the data folder. */
import type { SchedulerClient } from './scheduler-client.ts';
import { DEFAULT_GRPC_PORT, DEFAULT_HTTP_PORT, type KeySource, type Settings } from '../terminal/config.ts';
import { checkKeyTarget } from './key-target.ts';
import { readRunFile } from '../supervisor/run-file.ts';
import { apiKeyFile, storedApiKey } from '../supervisor/stored-secrets.ts';
import { ToolError } from '../terminal/tool-error.ts';

/** Addresses of the schedulers as CAPSTAN_SCHEDULER has them: `host:port`, separated by commas, or `unix:<path>`. */
export function schedulerAddress(settings: Settings): string {
  if (settings.scheduler !== undefined) return settings.scheduler;
  if (isPort(settings.grpcPort)) return `127.0.0.1:${settings.grpcPort}`;
  return readRunFile(settings.dataDir)?.grpc ?? `127.0.0.1:${DEFAULT_GRPC_PORT}`;
}

/** Base URL of the HTTP API. */
export function httpBase(settings: Settings): string {
  const run = readRunFile(settings.dataDir);
  const { httpPort } = settings;
  if (isPort(httpPort) && run?.http.endsWith(`:${httpPort}`) !== true) return `http://127.0.0.1:${httpPort}`;
  return run === null ? `http://127.0.0.1:${DEFAULT_HTTP_PORT}` : (run.url ?? `http://${run.http}`);
}

/** Port 0 lets a server choose; a client ignores it. */
function isPort(port: number | undefined): port is number {
  return port !== undefined && port !== 0;
}

/**
 * Returns the key to send.
 * @throws CapstanError CONFIG when there is none.
 */
export function apiKey(settings: Settings): string {
  const key = settings.apiKey ?? storedApiKey(settings.dataDir);
  if (key !== null) return key;
  throw new ToolError(
    'CONFIG',
    'SERVICE_API_KEY: no API key is set, and the data folder contains none',
    'Set SERVICE_API_KEY, or start Capstan here with: capstan up',
    {
      field: 'SERVICE_API_KEY',
    },
  );
}

/** Returns a shell expression for the key that does not show it. `source` is where a setting of it comes from. */
export function apiKeyForShell(settings: Settings, source: KeySource | undefined): string {
  if (source?.kind === 'shell') return '$SERVICE_API_KEY';
  // Reads the file instead of sourcing it: a project's file must not run as a program.
  if (source !== undefined) return `$(sed -n 's/^SERVICE_API_KEY=//p' ${quote(source.path)} | tr -d '"')`;
  return `$(cat ${quote(apiKeyFile(settings.dataDir))})`;
}

/** Quotes a word for a POSIX shell. */
export function quote(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", String.raw`'\''`)}'`;
}

/** Returns settings for the stack on the data folder itself: its addresses, and the key that is stored there. */
export function ownSettings(settings: Settings): Settings {
  const key = storedApiKey(settings.dataDir);
  const { httpPort: _http, grpcPort: _grpc, scheduler: _scheduler, fromFile: _fromFile, ...rest } = settings;
  return { ...rest, ...(key === null ? {} : { apiKey: key }) };
}

/**
 * Runs `work` with a client of the scheduler, for commands on the scheduler's own host.
 * @throws CapstanError CONFIG when there is no key; the key of `capstan login` is for a gateway.
 */
export async function withScheduler<T>(settings: Settings, work: (client: SchedulerClient) => Promise<T>): Promise<T> {
  if (settings.apiKey === undefined && storedApiKey(settings.dataDir) === null)
    throw new ToolError(
      'CONFIG',
      `SERVICE_API_KEY: no API key is set, and ${settings.dataDir} contains none; this command connects to the scheduler`,
      "Run it on the scheduler's host with its --data-dir, or set SERVICE_API_KEY and CAPSTAN_SCHEDULER.",
      { field: 'SERVICE_API_KEY' },
    );
  checkKeyTarget(settings, settings.scheduler === undefined ? 'dataDir' : 'scheduler');
  const { connectScheduler } = await import('./scheduler-client.ts');
  const client = connectScheduler(schedulerAddress(settings), apiKey(settings), settings);
  try {
    return await work(client);
  } finally {
    client.close();
  }
}
