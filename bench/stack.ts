/** The real service for a bench: `capstan up` on free ports with its own data folder, and the bench's endpoints. */
import { execFile, spawn, type ChildProcess } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createWriteStream } from 'node:fs';
import { mkdir, mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { promisify } from 'node:util';

const root = join(import.meta.dirname, '..');
const tool = join(root, 'cli/capstan.mjs');
/** Longest wait for a state of an endpoint, ms. */
const HEALTH_LIMIT_MS = 120_000;

export interface Stack {
  /** `http://host:port` of the gateway. */
  readonly url: string;
  readonly apiKey: string;
  /** Endpoint ids by name. */
  readonly endpoints: ReadonlyMap<string, string>;
  /** The supervisor, the parent of all other processes. */
  readonly pid: number;
  /** Ends every process and removes the data. */
  close(): Promise<void>;
}

/** Counts of GET /health that the bench waits for. */
export interface Health {
  readonly jobs: { readonly completed: number; readonly failed: number; readonly inProgress: number; readonly inQueue: number };
  readonly workers: { readonly idle: number; readonly running: number };
}

/**
 * Starts the stack with these settings and deploys an application: by default the bench's own, null for none. The output of
 * its processes goes to `<folder>/up.log`.
 */
export async function startStack(
  parent = tmpdir(),
  app: string | null = join(root, 'bench/app'),
  settings: Readonly<Record<string, string>> = {},
): Promise<Stack> {
  await mkdir(parent, { recursive: true });
  const folder = await mkdtemp(join(parent, 'capstan-bench-'));
  const apiKey = `cap_${randomBytes(24).toString('base64url')}`;
  const dataDir = join(folder, 'data');
  const variables = {
    ...process.env,
    SERVICE_API_KEY: apiKey,
    CAPSTAN_DATA_DIR: dataDir,
    CAPSTAN_HTTP_PORT: '0',
    CAPSTAN_GRPC_PORT: '0',
    NO_COLOR: '1',
    ...settings,
  };
  const log = createWriteStream(join(folder, 'up.log'));
  await once(log, 'open');
  const up = spawn(process.execPath, [tool, 'up'], { cwd: folder, env: variables, stdio: ['ignore', log, log] });
  const close = async (): Promise<void> => {
    await end(up);
    log.close();
    await rm(folder, { recursive: true, force: true });
  };
  try {
    const { http } = await running(up, join(dataDir, 'run.json'), join(folder, 'up.log'));
    // The commands below find the stack by its run.json. The ports of the environment would contradict it.
    const client = { ...variables, CAPSTAN_HTTP_PORT: '', CAPSTAN_GRPC_PORT: '' };
    const capstan = (...args: string[]) => promisify(execFile)(process.execPath, [tool, ...args], { cwd: folder, env: client });
    if (app !== null) await capstan('deploy', app, '--no-wait');
    const { stdout } = await capstan('endpoints', 'list', '--json');
    const rows = JSON.parse(stdout) as { id: string; name: string }[];
    return { url: `http://${http}`, apiKey, endpoints: new Map(rows.map((row) => [row.name, row.id])), pid: up.pid ?? 0, close };
  } catch (error) {
    const said = await readFile(join(folder, 'up.log'), 'utf8');
    await close();
    throw new Error(`the stack did not start:\n${said.slice(-4000)}`, { cause: error });
  }
}

/** GET /health of an endpoint. */
export async function healthOf(stack: Stack, endpoint: string): Promise<Health> {
  const response = await fetch(`${stack.url}/v2/${endpoint}/health`, { headers: { authorization: `Bearer ${stack.apiKey}` } });
  if (!response.ok) throw new Error(`GET /health answered ${response.status}: ${await response.text()}`);
  return (await response.json()) as Health;
}

/** Polls an endpoint's health until `ready` returns true. Returns the last health. */
export async function waitForHealth(stack: Stack, endpoint: string, what: string, ready: (health: Health) => boolean): Promise<Health> {
  const deadline = performance.now() + HEALTH_LIMIT_MS;
  for (;;) {
    const health = await healthOf(stack, endpoint);
    if (ready(health)) return health;
    if (performance.now() > deadline) throw new Error(`waited ${HEALTH_LIMIT_MS} ms in vain until ${what}: ${JSON.stringify(health)}`);
    await pause(100);
  }
}

/** Waits for the file that the supervisor writes once every part serves. */
async function running(up: ChildProcess, path: string, log: string): Promise<{ http: string }> {
  const deadline = performance.now() + 60_000;
  while (performance.now() < deadline) {
    if (up.exitCode !== null || up.signalCode !== null)
      throw new Error(`capstan up ended with ${String(up.exitCode ?? up.signalCode)}; see ${log}`);
    const text = await readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return null;
      throw error;
    });
    if (text !== null) return JSON.parse(text) as { http: string };
    await pause(50);
  }
  throw new Error('capstan up was not ready within 60 s');
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, 'exit');
  child.kill('SIGTERM');
  const timer = setTimeout(() => child.kill('SIGKILL'), 20_000);
  await exited;
  clearTimeout(timer);
}
