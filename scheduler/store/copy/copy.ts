/**
 * Copies the queue from SQLite to PostgreSQL or back.
 *
 * Rows go in batches, each with its position in one transaction of the target; a copy that was interrupted goes on after
 * the last batch. Then both sides are read again and compared, and only a whole copy becomes a store that a scheduler may
 * own. The source is locked during the copy, and must be the same one, in the same state, when a copy goes on.
 */
import { createHash, type Hash } from 'node:crypto';

import { CapstanError } from '../../../lib/errors.ts';
import type { CopyPosition, CopySource, CopyTarget, Head } from './sides.ts';
import { COPY_TABLES, orderOf, type CopyTable, type Row } from './tables.ts';

export interface CopyProgress {
  readonly step: 'copying' | 'comparing';
  readonly table: string;
  readonly rows: number;
  /** Rows of the table in the source. */
  readonly total: number;
}

export interface CopiedTable {
  readonly name: string;
  readonly rows: number;
  /** SHA-256 of all rows in order, the same on both sides. */
  readonly sha256: string;
}

export interface CopyReport {
  readonly from: string;
  readonly to: string;
  readonly tables: readonly CopiedTable[];
  /** The next owner's term is higher. */
  readonly term: number;
  /** Whether an interrupted copy was continued. */
  readonly isContinued: boolean;
}

export interface CopyOptions {
  readonly startOver: boolean;
  readonly onProgress: (progress: CopyProgress) => void;
}

export async function copyRows(source: CopySource, target: CopyTarget, { startOver, onProgress }: CopyOptions): Promise<CopyReport> {
  const head = await source.head();
  const totals = new Map<string, number>();
  for (const table of COPY_TABLES) totals.set(table.name, await source.count(table));
  const total = ({ name }: CopyTable): number => totals.get(name) ?? 0;
  const report = (step: CopyProgress['step'], table: CopyTable, rows: number): void =>
    onProgress({ step, table: table.name, rows, total: total(table) });

  const state = await target.open(await fingerprintOf(source, head, totals), startOver);
  if (state.kind !== 'whole') {
    const from = state.kind === 'unfinished' ? state.position : null;
    for (const table of COPY_TABLES.slice(placeIn(from))) {
      if (table.isDerived) continue;
      await copyTable({ source, target, table, from: from?.table === table.name ? from : null }, (rows) => report('copying', table, rows));
    }
  }
  const tables: CopiedTable[] = [];
  for (const table of COPY_TABLES) {
    const sent = await checksum(source.read(table, null), table, () => undefined);
    const stored = await checksum(target.read(table), table, (rows) => report('comparing', table, rows));
    if (sent.rows !== stored.rows || sent.sha256 !== stored.sha256)
      throw new CapstanError(
        'INTERNAL',
        `the copy differs from its source in the table ${table.name}: ${stored.rows} rows of ${sent.rows}; discard it with --start-over`,
      );
    tables.push({ name: table.name, ...sent });
  }
  await source.mustBeUnchanged();
  await target.finish(head);
  return { from: source.shown, to: target.shown, tables, term: head.term, isContinued: state.kind !== 'empty' };
}

/** Number of tables before the one that a copy goes on in. */
function placeIn(from: CopyPosition | null): number {
  return from === null ? 0 : COPY_TABLES.findIndex(({ name }) => name === from.table);
}

interface TableCopy {
  readonly source: CopySource;
  readonly target: CopyTarget;
  readonly table: CopyTable;
  /** Where an interrupted copy goes on. */
  readonly from: CopyPosition | null;
}

async function copyTable({ source, target, table, from }: TableCopy, report: (rows: number) => void): Promise<void> {
  let position: CopyPosition = from ?? { table: table.name, after: null, rows: 0 };
  if (table.isCounted && position.after === null) await target.write(table, [], position);
  for await (const rows of source.read(table, position.after)) {
    const last = rows.at(-1);
    if (last === undefined) continue;
    position = { table: table.name, after: orderOf(table, last), rows: position.rows + rows.length };
    await target.write(table, rows, position);
    report(position.rows);
  }
}

async function checksum(
  batches: AsyncIterable<readonly Row[]>,
  { columns }: CopyTable,
  report: (rows: number) => void,
): Promise<{ readonly rows: number; readonly sha256: string }> {
  const hash = createHash('sha256');
  let rows = 0;
  for await (const batch of batches) {
    for (const row of batch) addRow(hash, row.slice(0, columns.length));
    rows += batch.length;
    report(rows);
  }
  return { rows, sha256: hash.digest('hex') };
}

/** Bytes follow the rest of their row, which names their lengths: no two rows have the same text. */
function addRow(hash: Hash, row: Row): void {
  const bytes = row.filter((value): value is Uint8Array => value instanceof Uint8Array);
  hash.update(JSON.stringify(row.map((value) => (value instanceof Uint8Array ? { bytes: value.length } : value))));
  for (const value of bytes) hash.update(value);
}

/** A source in a state: its terms and numbers, how many rows each table has, and the control rows, which no two services share. */
async function fingerprintOf(source: CopySource, head: Head, totals: ReadonlyMap<string, number>): Promise<string> {
  const [control] = COPY_TABLES;
  const keys = control === undefined ? '' : (await checksum(source.read(control, null), control, () => undefined)).sha256;
  return createHash('sha256')
    .update(JSON.stringify([source.shown, await source.version(), head, [...totals], keys]))
    .digest('hex');
}
