/** A PostgreSQL server of a test's own: the system's, or the one that development dependencies carry. */
import { execFile, spawn, type ChildProcess } from 'node:child_process';
import { chown, mkdir, readdir, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { promisify } from 'node:util';

import { Client } from 'pg';

import { ownFolder } from './own-folder.ts';

const run = promisify(execFile);
const SYSTEM = '/usr/lib/postgresql';
/** The server refuses to run as root: any other user will do. */
const NOBODY = 65_534;

export interface PostgresServer {
  readonly port: number;
  readonly process: ChildProcess;
  /** Address of a new, empty database. */
  newDatabase(): Promise<string>;
  /** Runs SQL as the superuser in a database, by its address. */
  query(address: string, sql: string): Promise<readonly Record<string, unknown>[]>;
  stop(): Promise<void>;
}

/** Folder of initdb and postgres, the newest there is; undefined where none is installed. */
export async function postgresBinaries(): Promise<string | undefined> {
  const versions = await readdir(SYSTEM).catch(() => []);
  const newest = versions
    .map(Number)
    .filter(Number.isInteger)
    .toSorted((a, b) => b - a)[0];
  return newest === undefined ? undefined : join(SYSTEM, String(newest), 'bin');
}

/** Starts a server in a folder of its own. */
export async function startPostgres(binaries: string, settings: Readonly<Record<string, string>> = {}): Promise<PostgresServer> {
  const folder = await ownFolder('capstan-postgres');
  const asUser = process.getuid?.() === 0 ? { uid: NOBODY, gid: NOBODY } : {};
  if ('uid' in asUser) await chown(folder, NOBODY, NOBODY);
  const data = join(folder, 'data');
  await mkdir(folder, { recursive: true });
  await run(
    join(binaries, 'initdb'),
    ['-D', data, '-U', 'capstan', '-A', 'trust', '-E', 'UTF8', '--locale=C', '--no-sync', '--no-instructions'],
    {
      ...asUser,
      cwd: folder,
    },
  );
  const port = await freePort();
  const options = { port: String(port), listen_addresses: '127.0.0.1', unix_socket_directories: '', max_connections: '100', ...settings };
  const flags = Object.entries(options).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
  const server = spawn(join(binaries, 'postgres'), ['-D', data, ...flags], { ...asUser, cwd: folder, stdio: ['ignore', 'ignore', 'pipe'] });
  let log = '';
  server.stderr?.on('data', (text: Buffer) => (log = `${log}${text.toString()}`.slice(-10_000)));
  const exit = new Promise<void>((resolve) => server.once('exit', () => resolve()));
  const addressOf = (database: string): string => `postgres://capstan@127.0.0.1:${port}/${database}`;
  const query = async (address: string, sql: string): Promise<readonly Record<string, unknown>[]> => {
    const client = new Client({ connectionString: address });
    try {
      await client.connect();
      const { rows } = await client.query<Record<string, unknown>>(sql);
      return rows;
    } finally {
      await client.end().catch(() => undefined);
    }
  };
  for (;;) {
    if (server.exitCode !== null) throw new Error(`PostgreSQL did not start: ${log}`);
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
    async newDatabase() {
      const name = `test_${(databases += 1)}`;
      await query(addressOf('postgres'), `CREATE DATABASE ${name}`);
      return addressOf(name);
    },
    query,
    async stop() {
      server.kill('SIGINT');
      await exit;
      await rm(folder, { recursive: true, force: true });
    },
  };
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  if (address === null || typeof address === 'string') throw new Error('no port');
  return address.port;
}
