/**
 * Looks for damaged pages in the database: at the start within a time budget, and later in short slices.
 *
 *   start   ── a small database: SQLite's integrity check, which compares indexes with their tables, too
 *           └─ a larger one: the structure of one tree (table or index) after another, until the budget is spent
 *   slices  ── the trees that are left, read entry by entry in the order of their keys
 *
 * Pages carry no checksums: damage inside a value that leaves the page well-formed is not seen here.
 */
import type { Database } from 'better-sqlite3';

import { CapstanError } from '../../../../lib/errors.ts';
import { storeFailure } from '../file/failures.ts';
import { listTrees, type Tree } from './trees.ts';

export interface CheckLimits {
  /** The database counts as small up to this size, bytes. */
  readonly smallBytes: number;
  readonly startMs: number;
}

/** A small database takes about half of the budget on two busy cores. */
export const CHECK_LIMITS: CheckLimits = { smallBytes: 16_000_000, startMs: 1_000 };

/** Entries of the first slice of a tree; later ones follow the time that it took. */
const FIRST_ENTRIES = 64;
const MAX_ENTRIES = 4_096;

export class DatabaseCheck {
  readonly #db: Database;
  readonly #file: string;
  readonly #limits: CheckLimits;
  #left: Tree[] = [];
  #after: readonly unknown[] | null = null;
  #entries = FIRST_ENTRIES;

  constructor(db: Database, file: string, limits: CheckLimits) {
    this.#db = db;
    this.#file = file;
    this.#limits = limits;
  }

  /** The trees that no check has read to the end. */
  get left(): readonly string[] {
    return this.#left.map(({ name }) => name);
  }

  /** Checks what the budget allows. @throws CapstanError DATA_LOST if a page is damaged. */
  start(): void {
    this.#guarded('the database', () => {
      const pages = this.#db.pragma('page_count', { simple: true }) as number;
      const bytes = pages * (this.#db.pragma('page_size', { simple: true }) as number);
      if (bytes <= this.#limits.smallBytes) this.#whole();
      else this.#structure();
    });
  }

  /** Reads entries for about this long, ms. Returns whether anything is left. @throws CapstanError DATA_LOST */
  slice(ms: number): boolean {
    for (const end = performance.now() + ms; performance.now() < end;) {
      const tree = this.#left[0];
      if (tree === undefined) return false;
      this.#guarded(tree.name, () => this.#read(tree, ms));
    }
    return this.#left.length > 0;
  }

  #whole(): void {
    const [row] = this.#db.pragma('integrity_check(1)') as { readonly integrity_check: string }[];
    const found = row?.integrity_check ?? 'ok';
    if (found !== 'ok') throw this.#damaged(found);
  }

  #structure(): void {
    const end = performance.now() + this.#limits.startMs;
    const trees = listTrees(this.#db);
    const pages = this.#db.prepare<[string], string>('SELECT pagetype FROM dbstat WHERE name = ?').pluck();
    this.#left = trees.filter((tree) => {
      for (const kind of pages.iterate(tree.name)) {
        if (kind === 'corrupted') throw this.#damaged(`a page of ${tree.name} is malformed`);
        if (performance.now() > end) return true;
      }
      return false;
    });
  }

  #read(tree: Tree, ms: number): void {
    const begun = performance.now();
    const last = tree.read(this.#after, this.#entries);
    this.#after = last;
    if (last === null) {
      this.#left.shift();
      this.#entries = FIRST_ENTRIES;
      return;
    }
    const isSlow = performance.now() - begun > ms / 4;
    this.#entries = Math.min(MAX_ENTRIES, Math.max(1, isSlow ? this.#entries >> 1 : this.#entries << 1));
  }

  #guarded(what: string, check: () => void): void {
    try {
      check();
    } catch (error) {
      throw storeFailure(this.#file, `checking ${what} failed`, error);
    }
  }

  #damaged(found: string): CapstanError {
    const [line = found] = found.split('\n').filter((each) => !each.startsWith('*** in database'));
    return new CapstanError('DATA_LOST', `store ${this.#file}: the file is damaged: ${line}`);
  }
}
