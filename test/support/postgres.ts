/** A PostgreSQL server of a test's own, which ends with the test, however that ends. */
import { execFile, spawn, type ChildProcess } from 'node:child_process';
import { chmod, chown, cp, mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { promisify } from 'node:util';

import { Client } from 'pg';

import { isErrno } from '../../lib/to-error.ts';
import { ownFolder } from './own-folder.ts';
import { freePort } from './free-port.ts';
import { guard } from './stack.ts';

export { NO_POSTGRES, postgresBinaries } from './postgres-binaries.ts';

const run = promisify(execFile);
/** The server refuses to run as root: any other user will do. */
const NOBODY = 65_534;
const asUser = process.getuid?.() === 0 ? { uid: NOBODY, gid: NOBODY } : {};

export interface PostgresServer {
  readonly port: number;
  readonly process: ChildProcess;
  /** Folder of the server's files; it and what is in it belong to the server's user. */
  readonly folder: string;
  /** Address of a new, empty database. */
  newDatabase(): Promise<string>;
  /** Runs SQL as the superuser in a database, by its address. */
  query(address: string, sql: string): Promise<readonly Record<string, unknown>[]>;
  stop(): Promise<void>;
}

/** Starts a server in a folder of its own; `environment` is added to that of its processes. */
export async function startPostgres(
  binaries: string,
  settings: Readonly<Record<string, string>> = {},
  environment: NodeJS.ProcessEnv = {},
): Promise<PostgresServer> {
  const { outer, folder } = await serverFolder();
  const bin = await reachable(binaries, outer);
  const data = join(folder, 'data');
  const options = ['-D', data, '-U', 'capstan', '-A', 'trust', '-E', 'UTF8', '--locale=C', '--no-sync', '--no-instructions'];
  await runAsServer(join(bin, 'initdb'), options, folder);
  return serve({ bin, outer, folder, data }, settings, environment);
}

/** Starts a server on a data folder that `fill` writes, such as a base backup; it is given a path that does not exist yet. */
export async function startPostgresOn(
  binaries: string,
  fill: (data: string) => Promise<void>,
  settings: Readonly<Record<string, string>> = {},
): Promise<PostgresServer> {
  const { outer, folder } = await serverFolder();
  const bin = await reachable(binaries, outer);
  const data = join(folder, 'data');
  await fill(data);
  return serve({ bin, outer, folder, data }, settings);
}

/** Runs a program as the server's user, who can write to the server's folder; its standard output. */
export async function runAsServer(program: string, args: readonly string[], folder: string): Promise<string> {
  return (await run(program, [...args], { ...asUser, cwd: folder })).stdout;
}

/** A folder of the server's user inside of one of ours: the next run removes what a killed one left, if it is ours. */
async function serverFolder(): Promise<{ readonly outer: string; readonly folder: string }> {
  const outer = await ownFolder('capstan-postgres');
  const folder = join(outer, 'server');
  await mkdir(folder, { mode: 0o700 });
  if (asUser.uid !== undefined) {
    await chmod(outer, 0o711);
    await chown(folder, asUser.uid, asUser.gid);
  }
  return { outer, folder };
}

/** The programs, copied where the server's user cannot read them: a checkout in root's own folder. */
async function reachable(binaries: string, outer: string): Promise<string> {
  try {
    await run(join(binaries, 'postgres'), ['--version'], { ...asUser, cwd: '/' });
    return binaries;
  } catch (error) {
    if (asUser.uid === undefined || !isErrno(error, 'EACCES')) throw error;
    await cp(join(binaries, '..'), join(outer, 'programs'), { recursive: true, verbatimSymlinks: true });
    return join(outer, 'programs/bin');
  }
}

interface Place {
  readonly bin: string;
  readonly outer: string;
  readonly folder: string;
  readonly data: string;
}

async function serve(
  { bin, outer, folder, data }: Place,
  settings: Readonly<Record<string, string>>,
  environment: NodeJS.ProcessEnv = {},
): Promise<PostgresServer> {
  const port = await freePort();
  const options = { port: String(port), listen_addresses: '127.0.0.1', unix_socket_directories: '', max_connections: '100', ...settings };
  const flags = Object.entries(options).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
  const server = spawn(join(bin, 'postgres'), ['-D', data, ...flags], {
    ...asUser,
    cwd: folder,
    stdio: ['ignore', 'ignore', 'pipe'],
    env: { ...process.env, ...environment },
  });
  // Its immediate shutdown: it ends its own processes, too, and leaves no shared memory.
  const watch = guard(server.pid ?? 0, 'QUIT');
  let log = '';
  server.stderr?.on('data', (text: Buffer) => (log = `${log}${text.toString()}`.slice(-10_000)));
  const exit = new Promise<void>((resolve) => server.once('exit', () => resolve()));
  void exit.then(() => watch.kill('SIGKILL'));
  const addressOf = (database: string): string => `postgres://capstan@127.0.0.1:${port}/${database}`;
  for (;;) {
    if (server.exitCode !== null || server.signalCode !== null) throw new Error(`PostgreSQL did not start: ${log}`);
    try {
      await query(addressOf('postgres'), 'SELECT 1');
      break;
    } catch {
      await pause(50);
    }
  }
  let databases = 0;
  return {
    port,
    process: server,
    folder,
    async newDatabase() {
      const name = `test_${(databases += 1)}`;
      await query(addressOf('postgres'), `CREATE DATABASE ${name}`);
      return addressOf(name);
    },
    query,
    async stop() {
      server.kill('SIGINT');
      await exit;
      await rm(outer, { recursive: true, force: true });
    },
  };
}

async function query(address: string, sql: string): Promise<readonly Record<string, unknown>[]> {
  const client = new Client({ connectionString: address });
  try {
    await client.connect();
    const { rows } = await client.query<Record<string, unknown>>(sql);
    return rows;
  } finally {
    await client.end().catch(() => undefined);
  }
}
