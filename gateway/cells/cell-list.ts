/**
 * Reads the list of cells from any scheduler, owner or standby, in the background. Only what is unknown before the first
 * list waits for it: it may be of a cell that this gateway does not know yet. What no cell knows waits for one more
 * reading ({@link CellList.now}).
 */
import { setTimeout as pause } from 'node:timers/promises';

import { status } from '@grpc/grpc-js';

import { CELL_NAME } from '../../lib/cells.ts';
import type { ClusterClient } from '../../lib/owner/cluster-list.ts';
import { CapstanError } from '../../lib/errors.ts';
import { ReadInBackground } from '../directory/read-in-background.ts';
import type { Log } from '../log.ts';

const READ_MS = 2_000;
/** The same until the first list was read. */
const FIRST_READ_MS = 200;
const TIMEOUT_MS = 3_000;
/** Pause between readings that look-ups wait for: unknown keys of strangers must not keep the database busy. */
const PAUSE_MS = 50;

export interface CellListOptions {
  readonly cluster: Pick<ClusterClient, 'list'>;
  readonly log: Log;
  /** Receives the cells that have an owner: its address by name of the cell. */
  readonly onCells: (owners: ReadonlyMap<string, string>) => void;
}

export class CellList extends ReadInBackground {
  readonly #options: CellListOptions;
  #timer: NodeJS.Timeout | undefined;
  #closed = false;
  #hasFailed = false;
  /** The reading that begins next, for those who wait for it. */
  #next: Promise<Terms> | undefined;
  #pause: Promise<unknown> = Promise.resolve();

  constructor(options: CellListOptions) {
    super();
    this.#options = options;
    void this.#read();
  }

  /**
   * The terms of the cells that have an owner, by a reading that begins after this call; empty with schedulers that have no
   * such list. Waiting calls share one.
   * @throws CapstanError UNAVAILABLE while no scheduler answers.
   */
  now(): Promise<Terms> {
    this.#next ??= this.#pause.then(() => {
      this.#next = undefined;
      const reading = this.#listOrNone();
      const done = (): Promise<unknown> => pause(PAUSE_MS, undefined, { ref: false });
      this.#pause = reading.then(done, done);
      return reading;
    });
    return this.#next;
  }

  close(): void {
    this.#closed = true;
    this.endReads();
    clearTimeout(this.#timer);
  }

  async #read(): Promise<void> {
    const { log } = this.#options;
    try {
      await this.#list();
      this.#hasFailed = false;
      if (this.#closed) return;
      this.wasRead();
    } catch (error) {
      // A scheduler of an earlier version has no such service, and one cell.
      if (isUnimplemented(error)) this.wasRead();
      if (!this.#hasFailed && !this.#closed) log.info({ err: error }, 'the list of cells could not be read; trying again');
      this.#hasFailed = true;
    }
    if (!this.#closed) this.#timer = setTimeout(() => void this.#read(), this.reached ? READ_MS : FIRST_READ_MS);
  }

  async #listOrNone(): Promise<Terms> {
    try {
      return await this.#list();
    } catch (error) {
      if (isUnimplemented(error)) return new Map();
      throw error;
    }
  }

  async #list(): Promise<Terms> {
    const { cells } = await this.#options.cluster.list(TIMEOUT_MS);
    // A cell that never had an owner has nothing to ask for.
    const owned = cells.filter(({ name, ownerId }) => CELL_NAME.test(name) && ownerId !== '');
    if (!this.#closed) this.#options.onCells(new Map(owned.map(({ name, ownerAddress }) => [name, ownerAddress])));
    return new Map(owned.map(({ name, term }) => [name, BigInt(term)]));
  }
}

/** Terms by cell. */
export type Terms = ReadonlyMap<string, bigint>;

function isUnimplemented(error: unknown): boolean {
  const cause = error instanceof CapstanError ? error.cause : undefined;
  return cause instanceof Error && 'code' in cause && cause.code === status.UNIMPLEMENTED;
}
