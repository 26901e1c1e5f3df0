/** Reads the list of cells from any scheduler, owner or standby, in the background: no request waits for it. */
import { CELL_NAME } from '../../lib/cells.ts';
import type { ClusterClient } from '../../lib/cluster-list.ts';
import type { Log } from '../log.ts';

const READ_MS = 2_000;
const TIMEOUT_MS = 3_000;

export interface CellListOptions {
  readonly cluster: Pick<ClusterClient, 'list'>;
  readonly log: Log;
  readonly onCells: (names: readonly string[]) => void;
}

export class CellList {
  readonly #options: CellListOptions;
  #timer: NodeJS.Timeout | undefined;
  #closed = false;
  #hasFailed = false;

  constructor(options: CellListOptions) {
    this.#options = options;
    void this.#read();
  }

  close(): void {
    this.#closed = true;
    clearTimeout(this.#timer);
  }

  async #read(): Promise<void> {
    const { cluster, log, onCells } = this.#options;
    try {
      const { cells } = await cluster.list(TIMEOUT_MS);
      this.#hasFailed = false;
      // A cell that never had an owner has nothing to ask for.
      if (!this.#closed) onCells(cells.filter(({ name, ownerId }) => CELL_NAME.test(name) && ownerId !== '').map(({ name }) => name));
    } catch (error) {
      // A scheduler of an earlier version has no such service, and one cell.
      if (!this.#hasFailed && !this.#closed) log.info({ err: error }, 'the list of cells could not be read; trying again');
      this.#hasFailed = true;
    }
    if (!this.#closed) this.#timer = setTimeout(() => void this.#read(), READ_MS);
  }
}
