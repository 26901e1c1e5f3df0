/** A store of the driver of PostgreSQL with everything that goes wrong between it and the server at hand. */
import type { ExecutionContext } from 'ava';
import { Client } from 'pg';

import { openPostgresStore, type PostgresOptions, type PostgresStore } from '../../../scheduler/store/postgres/client.ts';
import type { StoreWatcher } from '../../../scheduler/store/store-watcher.ts';
import type { Fence } from '../../../scheduler/core/ports/store.ts';
import type { PostgresServer } from '../../support/postgres.ts';
import { TcpProxy } from '../../support/tcp-proxy.ts';
import { take } from './take.ts';

/** Shorter than in production, so that the tests wait less. */
const ANSWER_MS = 2_000;

/** What a store told its watcher, as `taken lock` or `lost doubt`. */
export class Told implements StoreWatcher {
  readonly events: string[] = [];
  readonly trips = { batch: 0, read: 0, term: 0 };
  readonly batches: number[] = [];

  roundTrip(kind: 'batch' | 'read' | 'term'): void {
    this.trips[kind]++;
  }
  committed(operations: number): void {
    this.batches.push(operations);
  }
  taken(_cell: number, cause: string): void {
    this.events.push(`taken ${cause}`);
  }
  lost(_cell: number, cause: string): void {
    this.events.push(`lost ${cause}`);
  }
  behind(): void {
    this.events.push('behind');
  }
}

export interface World {
  /** Address of the database, past the proxy. */
  readonly url: string;
  /** The store's way to the server. */
  readonly proxy: TcpProxy;
  readonly store: PostgresStore;
  readonly told: Told;
  readonly fence: Fence;
  /** Runs SQL as the superuser, on a connection that stays. */
  readonly sql: <R = Record<string, unknown>>(text: string, values?: unknown[]) => Promise<R[]>;
  /** Runs SQL as the superuser, on a connection of its own. */
  readonly sqlApart: (text: string) => Promise<unknown>;
  /** A further store on the same database, not through the proxy. */
  readonly another: (options?: Partial<PostgresOptions>) => Promise<PostgresStore>;
}

/** A store that owns its cell, and renews its term only when a test wants it to. */
export async function worldOf(t: ExecutionContext, server: PostgresServer, options: Partial<PostgresOptions> = {}): Promise<World> {
  const url = await server.newDatabase();
  const proxy = await TcpProxy.open(t, server.port);
  const told = new Told();
  const another = async (more: Partial<PostgresOptions> = {}): Promise<PostgresStore> => {
    const store = await openPostgresStore({ url, answerMs: ANSWER_MS, renewMs: 1_000_000, ...more });
    t.teardown(() => store.close());
    return store;
  };
  const through = new URL(url);
  through.port = String(proxy.port);
  const store = await another({ url: through.href, watcher: told, ...options });
  const client = new Client({ connectionString: url, application_name: 'capstan cell 0 test' });
  client.on('error', () => undefined);
  await client.connect();
  t.teardown(() => client.end());
  const sql = async <R>(text: string, values: unknown[] = []): Promise<R[]> => (await client.query(text, values)).rows as R[];
  return { url, proxy, store, told, fence: await take(store), sql, sqlApart: (text) => server.query(url, text), another };
}

/** Sessions of schedulers that commit. */
export const WRITERS =
  "datname = current_database() AND application_name LIKE 'capstan cell %' AND application_name <> 'capstan cell 0 test'";

/** Ends them, as a network or a process that ends does. */
export const END_WRITERS = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE ${WRITERS}`;

/** Resolves when the query gives a row that is true. */
export async function eventually(sql: World['sql'], condition: string): Promise<void> {
  for (;;) {
    const [row] = await sql<{ is: boolean }>(`SELECT (${condition}) AS is`);
    if (row?.is === true) return;
  }
}

/** Locks of the cells of this database that are held. */
export const LOCKS = `SELECT count(*)::int AS n FROM pg_locks WHERE locktype = 'advisory' AND granted AND objid = 0
  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`;
