/** Connections to the database: how they are made, what holds for every one, and how one in doubt is ended. */
import { Socket } from 'node:net';

import {
  Pool,
  type Client,
  types,
  type ClientConfig,
  type CustomTypesConfig,
  type PoolClient,
  type PoolConfig,
  type QueryConfig,
} from 'pg';

import { CapstanError } from '../../../lib/errors.ts';
import type { Address } from './address.ts';
import { storeFailure } from './failures.ts';
import { StoreClient } from './store-client.ts';

const CONNECT_MS = 3_000;
/** How long a read may wait for a connection, ms: all may be busy with long reads. */
const POOL_MS = 15_000;
const KEEP_ALIVE_MS = 5_000;
/** Code of a warning: a wait for a synchronous replica was cancelled, or is cut short by the end of the connection. */
const WARNING = '01000';
const INT8 = 20;
const OLDEST_SERVER = 140_000;

/**
 * Plans are made once and hold: generic, by index, without the joins that only pay for tables that are read whole. A plan made
 * while a table was empty must not go through all of it once it is full.
 */
const SESSION = {
  plan_cache_mode: 'force_generic_plan',
  enable_seqscan: 'off',
  enable_hashjoin: 'off',
  enable_mergejoin: 'off',
  jit: 'off',
  synchronous_commit: 'on',
  default_transaction_isolation: 'read\\ committed',
  timezone: 'UTC',
  client_min_messages: 'warning',
  idle_in_transaction_session_timeout: '2000',
  // A server notices within a second that nobody waits for its answer any longer.
  client_connection_check_interval: '1000',
  tcp_user_timeout: '4000',
  tcp_keepalives_idle: '5',
  tcp_keepalives_interval: '2',
  tcp_keepalives_count: '3',
};

/** Numbers of the store are whole and below 2^53. */
const parsers: CustomTypesConfig = {
  getTypeParser: (oid: number, format?: 'text' | 'binary'): ((text: string) => unknown) =>
    oid === INT8 ? Number : (types.getTypeParser(oid, format) as (text: string) => unknown),
};

export interface SessionOptions {
  /** Settings of the server for this connection. */
  readonly session?: Readonly<Record<string, string>>;
  readonly connectMs?: number;
}

/** What every connection to the database is made with; `name` is what the server shows for it. */
export function clientConfig(
  address: Address,
  name: string,
  { session = SESSION, connectMs = CONNECT_MS }: SessionOptions = {},
): ClientConfig {
  return {
    user: address.user,
    host: address.host,
    port: address.port,
    database: address.database,
    ssl: address.tls ?? false,
    application_name: name,
    connectionTimeoutMillis: connectMs,
    keepAlive: true,
    keepAliveInitialDelayMillis: KEEP_ALIVE_MS,
    types: parsers,
    options: Object.entries(session)
      .map(([setting, value]) => `-c ${setting}=${value}`)
      .join(' '),
  };
}

/** A connection whose socket can be taken away: what is under way on it ends at once, whatever the server does. */
export interface Connection {
  readonly client: Client;
  /** Process id of the server's backend. */
  readonly backend: number;
  /** The database's wall clock when it was made, ms since 1970. */
  readonly wall: number;
  destroy(): void;
}

export interface ConnectionOptions {
  /** How long the first answer may take, ms. */
  readonly answerMs: number;
  readonly onEnd: (error: Error | null) => void;
  /** What was committed may not be as safe as the server says. */
  readonly onWarning: (message: string) => void;
  /** Of the session, beside those of all. */
  readonly settings?: Readonly<Record<string, string>>;
}

/**
 * Connects, and refuses what the store cannot rely on.
 * @throws CapstanError UNAVAILABLE, or CONFIG: an old server, one that may lose commits, a pooler.
 */
export async function connect(
  address: Address,
  name: string,
  { answerMs, onEnd, onWarning, settings = {} }: ConnectionOptions,
): Promise<Connection> {
  const socket = new Socket();
  // Batches follow one another without waiting; each is a transaction of its own, and refused where the one before it was.
  const client = new StoreClient({
    ...clientConfig(address, name, { session: { ...SESSION, ...settings } }),
    pipeline: true,
    stream: () => socket,
  });
  client.on('error', onEnd);
  client.on('end', () => onEnd(null));
  client.on('notice', ({ code, message }) => {
    if (code === WARNING) onWarning(message ?? '');
  });
  const destroy = (): void => {
    socket.destroy();
  };
  let hanging: NodeJS.Timeout | undefined;
  try {
    await client.connect();
    hanging = setTimeout(destroy, answerMs);
    const { rows } = await client.query<CheckRow>(CHECK);
    const row = rows[0] as CheckRow;
    check(address, row, client);
    return { client, backend: row.backend, wall: row.wall, destroy };
  } catch (error) {
    destroy();
    throw storeFailure(address.shown, 'cannot connect', error);
  } finally {
    clearTimeout(hanging);
  }
}

type Settings = Readonly<Record<string, string>>;

export interface PoolOptions {
  /** Of each session, beside those of all. */
  readonly settings?: Settings;
  /** Receives the open connections. */
  readonly sockets?: Set<Socket>;
  /** How long a query may wait for a connection, ms. */
  readonly waitMs?: number;
}

/** An ordered read with a limit stops at the limit; a bitmap scan would first collect all rows. */
const READS = { enable_bitmapscan: 'off' };

/**
 * Connections for reading, to a server that writes. `settings` are the session's, in place of the usual ones; the sockets of open
 * connections are in `sockets`.
 */
export function readPool(address: Address, size: number, { settings = {}, sockets = new Set(), waitMs = POOL_MS }: PoolOptions = {}): Pool {
  const stream = (): Socket => {
    const socket = new Socket();
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
    return socket;
  };
  const verify = (client: PoolClient, done: (error?: Error) => void): void => {
    client
      .query<{ standby: boolean }>({ text: 'SELECT pg_is_in_recovery() AS standby', query_timeout: CONNECT_MS } as QueryConfig)
      .then(
        ({ rows }) =>
          rows[0]?.standby === false ? done() : done(new CapstanError('UNAVAILABLE', `store ${address.shown}: it is a replica`)),
        done,
      );
  };
  const config: PoolConfig = {
    ...clientConfig(address, 'capstan reads', { session: { ...SESSION, ...READS, ...settings } }),
    connectionTimeoutMillis: waitMs,
    stream,
    verify,
    max: size,
    idleTimeoutMillis: 0,
  };
  const pool = new Pool({ ...config, Client: StoreClient });
  // An idle connection that breaks is replaced when it is needed. One that is in use also fails its query; while it is verified, the
  // pool itself does not listen, and the process would end.
  pool.on('error', () => undefined);
  pool.on('connect', (client) => client.on('error', () => undefined));
  return pool;
}

interface CheckRow {
  readonly version: number;
  readonly fsync: string;
  readonly standby: boolean;
  readonly readOnly: string;
  readonly backend: number;
  readonly wall: number;
}

const CHECK = `SELECT current_setting('server_version_num')::int AS version, current_setting('fsync') AS fsync, pg_is_in_recovery() AS standby,
  current_setting('default_transaction_read_only') AS "readOnly", pg_backend_pid() AS backend,
  floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS wall`;

function check({ shown }: Address, { version, fsync, standby, readOnly, backend }: CheckRow, client: Client): void {
  const refused = (reason: string): CapstanError => new CapstanError('CONFIG', `store ${shown}: ${reason}`);
  if (version < OLDEST_SERVER) throw refused(`PostgreSQL ${Math.floor(version / 10_000)} is too old; 14 or newer is required`);
  if (fsync !== 'on') throw refused('the server runs with fsync=off and may lose acknowledged jobs; turn it on');
  if ((client as unknown as { readonly processID: number | null }).processID !== backend)
    throw refused('the address is that of a connection pooler; use the address of the server itself');
  if (standby || readOnly === 'on')
    throw new CapstanError('UNAVAILABLE', `store ${shown}: the server accepts no writes (it is a replica, or read-only)`);
}
