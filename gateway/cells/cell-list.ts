/**
 * Reads the list of cells from any scheduler, owner or standby, in the background. Only what is unknown before the first
 * list waits for it: it may be of a cell that this gateway does not know yet.
 */
import { status } from '@grpc/grpc-js';

import { CELL_NAME } from '../../lib/cells.ts';
import type { ClusterClient } from '../../lib/cluster-list.ts';
import { CapstanError } from '../../lib/errors.ts';
import { ReadInBackground } from '../directory/read-in-background.ts';
import type { Log } from '../log.ts';

const READ_MS = 2_000;
/** The same until the first list was read. */
const FIRST_READ_MS = 200;
const TIMEOUT_MS = 3_000;

export interface CellListOptions {
  readonly cluster: Pick<ClusterClient, 'list'>;
  readonly log: Log;
  readonly onCells: (names: readonly string[]) => void;
}

export class CellList extends ReadInBackground {
  readonly #options: CellListOptions;
  #timer: NodeJS.Timeout | undefined;
  #closed = false;
  #hasFailed = false;

  constructor(options: CellListOptions) {
    super();
    this.#options = options;
    void this.#read();
  }

  close(): void {
    this.#closed = true;
    this.endReads();
    clearTimeout(this.#timer);
  }

  async #read(): Promise<void> {
    const { cluster, log, onCells } = this.#options;
    try {
      const { cells } = await cluster.list(TIMEOUT_MS);
      this.#hasFailed = false;
      // A cell that never had an owner has nothing to ask for.
      if (this.#closed) return;
      onCells(cells.filter(({ name, ownerId }) => CELL_NAME.test(name) && ownerId !== '').map(({ name }) => name));
      this.wasRead();
    } catch (error) {
      // A scheduler of an earlier version has no such service, and one cell.
      if (isUnimplemented(error)) this.wasRead();
      if (!this.#hasFailed && !this.#closed) log.info({ err: error }, 'the list of cells could not be read; trying again');
      this.#hasFailed = true;
    }
    if (!this.#closed) this.#timer = setTimeout(() => void this.#read(), this.reached ? READ_MS : FIRST_READ_MS);
  }
}

function isUnimplemented(error: unknown): boolean {
  const cause = error instanceof CapstanError ? error.cause : undefined;
  return cause instanceof Error && 'code' in cause && cause.code === status.UNIMPLEMENTED;
}
