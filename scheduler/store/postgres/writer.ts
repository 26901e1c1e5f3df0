/**
 * The connection that commits, and holds the locks of the cells that are owned. Calls are sent without waiting for one
 * another, and are answered in order.
 *
 * It is lost for good when it ends, when a call has no answer in time, or when the server warns: a wait for a synchronous
 * replica that was cancelled answers as if all were well. Nothing that comes with the loss, or after it, counts as an answer.
 */
import type { QueryConfig } from 'pg';

import { CapstanError } from '../../../lib/errors.ts';
import type { RoundTrip, StoreWatcher } from '../store-watcher.ts';
import type { Address } from './address.ts';
import { connect, type Connection } from './connection.ts';

/** A statement, and how many ms longer than others it may take. */
export interface Call extends QueryConfig<unknown[]> {
  readonly kind: RoundTrip;
  readonly rowMode?: 'array';
  readonly longerMs?: number;
}

export interface WriterOptions {
  readonly address: Address;
  /** Name of the connection, for who looks at the server. */
  readonly name: string;
  /** How long a call may stay without an answer, ms. A call that waits behind others has its time from their answers on. */
  readonly answerMs: number;
  readonly watcher: StoreWatcher;
  /** Called once, unless {@link Writer.end} was. */
  readonly onLost: (writer: Writer, reason: CapstanError) => void;
}

/** How long a connection may take to end properly, ms. */
const END_MS = 1_000;

export class Writer {
  readonly #options: WriterOptions;
  #connection: Connection | null = null;
  #lost: CapstanError | null = null;
  /** Times of the calls without an answer, in order. */
  readonly #waiting: number[] = [];
  #overdue: NodeJS.Timeout | null = null;

  constructor(options: WriterOptions) {
    this.#options = options;
  }

  /** Connects; the database's wall clock, ms since 1970. */
  async open(): Promise<number> {
    const { address, name, answerMs } = this.#options;
    const failed = (reason: string): void => this.lose(this.#unavailable(reason));
    const connection = await connect(address, name, {
      answerMs,
      onEnd: (error) => failed(`the connection ended: ${error?.message ?? 'closed by the server'}`),
      onWarning: (message) => failed(`the server warns: ${message}`),
    });
    this.#connection = connection;
    if (this.#lost === null) return connection.wall;
    connection.destroy();
    throw this.#lost;
  }

  /** Why it is lost; null while it is not. */
  get lost(): CapstanError | null {
    return this.#lost;
  }

  /** Rejects with the reason of the loss, or with the database's error. */
  async ask<R>(call: Call): Promise<R[]> {
    if (this.#lost !== null) throw this.#lost;
    const { kind, longerMs, ...query } = call;
    this.#waiting.push(this.#options.answerMs + (longerMs ?? 0));
    if (this.#waiting.length === 1) this.#watch();
    try {
      const { rows } = await (this.#connection as Connection).client.query(query);
      this.mustHold();
      return rows as R[];
    } catch (error) {
      throw this.#lost ?? error;
    } finally {
      this.#waiting.shift();
      this.#watch();
      this.#options.watcher.roundTrip(kind);
    }
  }

  /** @throws CapstanError the reason of the loss. */
  mustHold(): void {
    if (this.#lost !== null) throw this.#lost;
  }

  /** Takes the connection away: what it still carries gets no answer. */
  lose(reason: CapstanError): void {
    if (this.#lost !== null) return;
    this.#lost = reason;
    this.#watch();
    this.#connection?.destroy();
    this.#options.onLost(this, reason);
  }

  /** Ends the connection; the locks go with it. Calls without an answer are cut off. */
  async end(): Promise<void> {
    const connection = this.#connection;
    if (this.#lost !== null || connection === null) return;
    this.#lost = this.#unavailable('it is closed');
    this.#watch();
    if (this.#waiting.length > 0) connection.destroy();
    const hanging = setTimeout(() => connection.destroy(), END_MS);
    await connection.client.end();
    clearTimeout(hanging);
  }

  /** The oldest call has its time from now on. */
  #watch(): void {
    if (this.#overdue !== null) clearTimeout(this.#overdue);
    const [limit] = this.#waiting;
    this.#overdue =
      limit === undefined || this.#lost !== null
        ? null
        : setTimeout(() => this.lose(this.#unavailable(`no response within ${limit} ms`)), limit);
  }

  #unavailable(reason: string): CapstanError {
    return new CapstanError('UNAVAILABLE', `store ${this.#options.address.shown}: ${reason}`);
  }
}
