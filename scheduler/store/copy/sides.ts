/** The two sides of a copy: what is read from a source, and what a target keeps so that a copy can go on after any interruption. */
import { CapstanError } from '../../../lib/errors.ts';
import type { CopyTable, Row } from './tables.ts';

/** What is no table: the term under which a cell was last owned, and the highest numbers that it gave out. */
export interface Head {
  readonly term: number;
  readonly seq: number;
  readonly queuePosition: number;
}

export interface CopySource {
  /** The store as it is shown. */
  readonly shown: string;
  head(): Promise<Head>;
  /** A text that differs after any batch of a scheduler. */
  version(): Promise<string>;
  count(table: CopyTable): Promise<number>;
  /** Batches of rows in order, after a row's order or from the first; texts with NULs replaced if the target needs it. */
  read(table: CopyTable, after: readonly (number | string)[] | null): AsyncIterable<readonly Row[]>;
  /** @throws CapstanError CONFLICT when a scheduler took the store over since it was opened. */
  mustBeUnchanged(): Promise<void>;
  close(): Promise<void>;
}

/** How far a copy came. Tables before the present one are whole. */
export interface CopyPosition {
  readonly table: string;
  /** Order of the last row that was written; null before the first. */
  readonly after: readonly (number | string)[] | null;
  readonly rows: number;
}

/** What a target holds: nothing, a part of a copy, or a whole copy that no scheduler owned yet. */
export type CopyState =
  | { readonly kind: 'empty' }
  | { readonly kind: 'unfinished'; readonly position: CopyPosition }
  | { readonly kind: 'whole' };

export interface CopyTarget {
  readonly shown: string;
  /**
   * What it holds of the copy of this fingerprint. With `startOver` an unfinished copy of any source is removed first.
   * @throws CapstanError CONFLICT or ALREADY_EXISTS when it holds anything else.
   */
  open(fingerprint: string, startOver: boolean): Promise<CopyState>;
  /** Rows and position are durable together. Without rows a counted table is emptied, before its first. */
  write(table: CopyTable, rows: readonly Row[], position: CopyPosition): Promise<void>;
  read(table: CopyTable): AsyncIterable<readonly Row[]>;
  /** Makes the copy a store that a scheduler may own. */
  finish(head: Head): Promise<void>;
  close(): Promise<void>;
}

/** Owner of a copied store, until a scheduler takes it over. */
export const ownerMark = (fingerprint: string): string => `store copy ${fingerprint}`;

export function otherCopy(shown: string): CapstanError {
  return new CapstanError(
    'CONFLICT',
    `--to: ${shown} contains an unfinished copy of another source, or of an earlier state of this one; discard it with --start-over`,
    { field: '--to' },
  );
}

export function unfinishedSource(shown: string): CapstanError {
  return new CapstanError('CONFLICT', `--from: ${shown} is an unfinished copy itself; copy from its source`, { field: '--from' });
}
