/**
 * The cells that this gateway serves: all of them, each over connections of its own, so that one without an owner delays
 * nothing of the others. The cell `default` is there from the start; others are added when the list of cells shows them,
 * and stay.
 */
import { DEFAULT_CELL } from '../../lib/cells.ts';
import { CapstanError } from '../../lib/errors.ts';
import type { Key } from '../directory/directory.ts';
import type { Announced } from '../invoke/report.ts';
import type { CellLink } from './cell-link.ts';

export interface CellsOptions {
  readonly connect: (cell: string) => CellLink;
  /** The cell of an endpoint that was found. */
  readonly cellOf: (endpointId: string) => string | undefined;
  /** The name of the cell that has an endpoint by now, if the owner of `from` does not know it. */
  readonly elsewhere: (endpointId: string, from: string) => Promise<string | undefined>;
}

export class Cells {
  readonly #options: CellsOptions;
  /** The cell `default`. */
  readonly first: CellLink;
  readonly #links = new Map<string, CellLink>();
  #all: readonly CellLink[];
  #announced: Announced | undefined;
  #closed = false;

  constructor(options: CellsOptions) {
    this.#options = options;
    this.first = options.connect(DEFAULT_CELL);
    this.#links.set(DEFAULT_CELL, this.first);
    this.#all = [this.first];
  }

  /** In the order in which they became known. */
  get all(): readonly CellLink[] {
    return this.#all;
  }

  named(cell: string): CellLink | undefined {
    return this.#links.get(cell);
  }

  /** The cell of an endpoint; `default` for one that does not exist. */
  ofEndpoint(endpointId: string): CellLink {
    if (this.#all.length === 1) return this.first;
    return this.#links.get(this.#options.cellOf(endpointId) ?? DEFAULT_CELL) ?? this.first;
  }

  /** Makes a call at the cell of an endpoint, and once more where the endpoint is by now if that cell does not know it. */
  async atEndpoint<T>(endpointId: string, call: (cell: CellLink) => Promise<T>): Promise<T> {
    const cell = this.ofEndpoint(endpointId);
    try {
      return await call(cell);
    } catch (error) {
      if (!(error instanceof CapstanError) || error.code !== 'NOT_FOUND') throw error;
      const there = await this.elsewhere(endpointId, cell.name);
      if (there === undefined) throw error;
      return call(there);
    }
  }

  /** The cell that has an endpoint by now; undefined if no other than `from` does. */
  async elsewhere(endpointId: string, from: string): Promise<CellLink | undefined> {
    if (this.#all.length === 1) return undefined;
    const name = await this.#options.elsewhere(endpointId, from);
    return name === undefined ? undefined : this.#links.get(name);
  }

  /** The cell in which a key's account lives. */
  ofKey({ cell }: Key): CellLink {
    return this.#links.get(cell) ?? this.first;
  }

  /** Connects to cells that are not known yet. `owners`: the cells that have one, with its address. */
  seen(owners: ReadonlyMap<string, string>): void {
    for (const [name, owner] of owners) {
      this.#links.get(name)?.seen(owner);
      if (this.#closed || this.#links.has(name)) continue;
      const link = this.#options.connect(name);
      this.#links.set(name, link);
      this.#all = [...this.#all, link];
      if (this.#announced !== undefined) link.report.open(this.#announced);
    }
  }

  /** Tells every cell where agents and workers reach this gateway. */
  announce(announced: Announced): void {
    this.#announced = announced;
    for (const link of this.#all) link.report.open(announced);
  }

  /** A cell's owner is connected. */
  get connected(): boolean {
    return this.#all.some(({ channel }) => channel.connected);
  }

  get pending(): number {
    return this.#all.reduce((sum, { channel }) => sum + channel.pending, 0);
  }

  /** Ends pending requests, streams of jobs, and the wait for a first directory. */
  closeChannels(): void {
    for (const { channel, watch } of this.#all) {
      channel.close();
      watch.close();
    }
  }

  close(): void {
    this.#closed = true;
    for (const link of this.#all) link.close();
  }
}
