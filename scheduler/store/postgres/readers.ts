/** The connections that read. Each read has a time limit: a server that does not answer keeps nobody waiting for ever. */
import type { Socket } from 'node:net';

import type { Pool, QueryArrayConfig } from 'pg';

import type { Address } from './address.ts';
import { readPool } from './connection.ts';

const CONNECTIONS = 2;
/** How long the server lets a search run, ms. */
const SEARCH_MS = 5_000;
/** How long the answer may be on its way beyond that, ms. */
const ANSWER_MS = 1_000;
/** How long connections may take to end properly, ms. */
const END_MS = 1_000;

export class Readers {
  readonly #address: Address;
  readonly #settings: Readonly<Record<string, string>>;
  #pool: Pool;
  #sockets = new Set<Socket>();

  constructor(address: Address, settings: Readonly<Record<string, string>> = {}) {
    this.#address = address;
    this.#settings = settings;
    this.#pool = this.#newPool();
  }

  #newPool(): Pool {
    return readPool(this.#address, CONNECTIONS, { sockets: this.#sockets, settings: this.#settings });
  }

  /** Rows as arrays, within `limitMs` from when a connection is free. */
  async rows<R>(name: string, text: string, values: unknown[], limitMs: number): Promise<R[]> {
    const query: QueryArrayConfig & { readonly query_timeout: number } = { name, text, values, rowMode: 'array', query_timeout: limitMs };
    return (await this.#pool.query(query)).rows as unknown as R[];
  }

  /** Cuts the reads under way off and reads on new connections: the present ones may be to a server that is no longer the one. */
  renew(): void {
    const [former, sockets] = [this.#pool, this.#sockets];
    this.#sockets = new Set();
    this.#pool = this.#newPool();
    void end(former, sockets, 0);
  }

  /** Lets the reads under way end, for a while. */
  async close(): Promise<void> {
    await end(this.#pool, this.#sockets, END_MS);
  }
}

/** Connections for searches only: the server itself ends a read that takes longer than its limit, and nothing else waits for one. */
export class SearchReaders extends Readers {
  constructor(address: Address, limitMs = SEARCH_MS) {
    super(address, { statement_timeout: String(limitMs) });
    this.#limitMs = limitMs;
  }

  readonly #limitMs: number;

  search<R>(name: string, text: string, values: unknown[]): Promise<R[]> {
    return this.rows<R>(name, text, values, this.#limitMs + ANSWER_MS);
  }
}

async function end(pool: Pool, sockets: ReadonlySet<Socket>, withinMs: number): Promise<void> {
  const cut = setTimeout(() => {
    for (const socket of sockets) socket.destroy();
  }, withinMs);
  await pool.end();
  clearTimeout(cut);
}
