/**
 * What a copy carries from one database to the other: tables with their columns, in the order in which they are copied.
 * Both databases hold the same rows under the same names; only what a column is made of differs.
 *
 * Not copied: the terms and highest numbers, which the head of a copy carries; schedulers, which write their rows
 * themselves; the account column of PostgreSQL's control rows, which repeats a part of their value.
 */

import {
  deliveryBodies,
  deliveryEnvelope,
  deliveryHead,
  jobResult,
  jobRow,
  type Column,
  type ColumnKind,
} from '../../core/ports/columns.ts';

export type { Column } from '../../core/ports/columns.ts';
export type Cell = number | string | boolean | Uint8Array | null;
/** Values of a table's columns, then of its order. */
export type Row = readonly Cell[];

export interface CopyTable {
  /** The same in both databases, unless PostgreSQL has a view. */
  readonly name: string;
  /** The table in PostgreSQL, or a view in its place: a view is read and compared, not written. */
  readonly postgres: string;
  readonly columns: readonly Column[];
  /** Columns that number the rows: a copy goes on after them. */
  readonly order: { readonly postgres: readonly string[]; readonly sqlite: readonly string[] };
  /** Its rows are those of the cell's endpoints; in PostgreSQL all others name their cell. */
  readonly isOfEndpoints: boolean;
  /** Triggers write it along with other tables; it is emptied before it is copied, because the source's rows count. */
  readonly isCounted: boolean;
  /** Triggers fill it while another table is copied: it is compared, not written. */
  readonly isDerived: boolean;
}

const KINDS: Readonly<Record<string, ColumnKind>> = { int: 'integer', text: 'text', bytes: 'bytes', bool: 'boolean' };

/** Each column as `name:kind`. */
function columns(spec: string): Column[] {
  return spec
    .trim()
    .split(/\s+/)
    .map((each) => {
      const [name = '', kind = ''] = each.split(':');
      return { name, kind: KINDS[kind] ?? 'text' };
    });
}

function table(
  name: string,
  spec: string | readonly Column[],
  order: string,
  { sqlite = '', view = '', isOfEndpoints = false, isCounted = false, isDerived = false } = {},
): CopyTable {
  const all = typeof spec === 'string' ? columns(spec) : spec;
  const names = order.split(' ');
  const sqliteOrder = sqlite === '' ? names : sqlite.split(' ');
  const postgres = view === '' ? name : view;
  return { name, postgres, columns: all, order: { postgres: names, sqlite: sqliteOrder }, isOfEndpoints, isCounted, isDerived };
}

/** Control rows first: triggers read the accounts of endpoints from them. */
export const COPY_TABLES: readonly CopyTable[] = [
  table('control', 'kind:text key:text version:int value:text', 'kind key'),
  table('jobs', [...jobRow, ...jobResult], 'seq'),
  table('inputs', 'seq:int inline:bytes blob:text size:int s3:bytes', 'seq'),
  table('chunks', 'seq:int idx:int inline:bytes blob:text size:int', 'seq idx'),
  // In the order of their making, in which deliveries that are due at once are sent.
  table('hooks', [...deliveryHead, deliveryEnvelope, ...deliveryBodies], 'number', { sqlite: 'rowid' }),
  table('hook_hosts', 'host:text next_at:int', 'host', { view: 'pending_hosts' }),
  table('idempotency', 'key:text job_id:text body_hash:bytes expires_at:int', 'key'),
  table('bodies', 'id:text account:text size:int refs:int', 'id', { isCounted: true }),
  table('history', 'endpoint:text step:int at:int value:text', 'endpoint step at', { isOfEndpoints: true }),
  table('queue_reasons', 'endpoint:text at:int reason:text detail:text', 'endpoint at', { isOfEndpoints: true }),
  table('device_history', 'node:text device:text at:int value:text', 'node device at'),
  table('audit', 'id:text at:int value:text', 'id'),
  table('body_usage', 'account:text bytes:int', 'account', { isDerived: true }),
  table('inline_usage', 'endpoint:text account:text bytes:int', 'endpoint'),
];

/** Whether PostgreSQL has a view in place of the table. */
export const isView = ({ name, postgres }: CopyTable): boolean => name !== postgres;

/** The condition of a table's rows in PostgreSQL; $1 the cell. */
export function ofCell({ isOfEndpoints }: CopyTable): string {
  return isOfEndpoints ? "endpoint IN (SELECT key FROM capstan.control WHERE cell = $1 AND kind = 'endpoint')" : 'cell = $1';
}

/** Rows of one read or write: no more bytes than this, or one row. */
export const BATCH_BYTES = 4_000_000;
/** Few bytes or none are a row's own; a batch of small rows ends by their number. */
export const BATCH_ROWS = 5_000;

/** About the bytes of a row in memory. */
export function bytesOf(row: Row): number {
  let bytes = 0;
  for (const value of row) bytes += typeof value === 'string' || value instanceof Uint8Array ? value.length : 8;
  return bytes;
}

/** Where the columns of a row end and the values of its order begin. */
export function orderOf(from: CopyTable, row: Row): (number | string)[] {
  return row.slice(from.columns.length) as (number | string)[];
}
