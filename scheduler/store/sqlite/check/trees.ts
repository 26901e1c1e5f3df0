/** The trees of a database: its tables and indexes, each read entry by entry in the order of its keys. */
import type { Database } from 'better-sqlite3';

export interface Tree {
  readonly name: string;
  /** Reads entries behind the key, with all their pages. Returns the key of the last one; null at the end. */
  read(after: readonly unknown[] | null, entries: number): readonly unknown[] | null;
}

interface SchemaRow {
  readonly type: 'table' | 'index';
  readonly name: string;
  readonly table: string;
  readonly sql: string | null;
}

const SCHEMA = `
SELECT type, name, tbl_name AS "table", sql FROM sqlite_schema WHERE type IN ('table', 'index') AND rootpage > 0
ORDER BY type = 'index', rowid`;

/** Tables first; those with bodies are the longest. */
export function listTrees(db: Database): Tree[] {
  return db
    .prepare<[], SchemaRow>(SCHEMA)
    .all()
    .flatMap((row) => (row.type === 'table' ? tableTree(db, row) : indexTree(db, row)));
}

function tableTree(db: Database, { name, table }: SchemaRow): Tree[] {
  const key = keyOf(db, table);
  return [treeOf(db, { name, from: `${quoted(table)} NOT INDEXED`, where: '1', key, columns: '*' })];
}

/** The index of the key of a table without rowids is the table itself. */
function indexTree(db: Database, { name, table, sql }: SchemaRow): Tree[] {
  const columns = db.pragma(`index_xinfo(${quoted(name)})`) as { readonly name: string | null; readonly key: 0 | 1 }[];
  const key = columns.map((column) => (column.name === null ? 'rowid' : quoted(column.name)));
  // An index in the order of an expression has no columns to continue behind.
  if (columns.some((column) => column.name === null && column.key === 1)) return [];
  const where = /\sWHERE\s(.*)$/is.exec(sql ?? '')?.[1] ?? '1';
  return [treeOf(db, { name, from: `${quoted(table)} INDEXED BY ${quoted(name)}`, where, key, columns: key.join(', ') })];
}

function keyOf(db: Database, table: string): string[] {
  const isWithoutRowid = db.prepare<[string], number>('SELECT wr FROM pragma_table_list WHERE name = ?').pluck().get(table) === 1;
  if (!isWithoutRowid) return ['rowid'];
  const columns = db.pragma(`table_info(${quoted(table)})`) as { readonly name: string; readonly pk: number }[];
  return columns
    .filter(({ pk }) => pk > 0)
    .toSorted((a, b) => a.pk - b.pk)
    .map((column) => quoted(column.name));
}

interface TreeQuery {
  readonly name: string;
  readonly from: string;
  readonly where: string;
  readonly key: readonly string[];
  readonly columns: string;
}

function treeOf(db: Database, { name, from, where, key, columns }: TreeQuery): Tree {
  const order = key.join(', ');
  const select = `SELECT ${order}, ${columns} FROM ${from} WHERE (${where})`;
  const limit = `ORDER BY ${order} LIMIT ?`;
  const first = `${select} ${limit}`;
  const next = `${select} AND (${order}) > (${key.map(() => '?').join(', ')}) ${limit}`;
  return {
    name,
    read(after, entries) {
      const rows = db.prepare<unknown[], unknown[]>(after === null ? first : next).raw();
      let count = 0;
      let last: unknown[] | null = null;
      for (const row of rows.iterate(...(after ?? []), entries)) {
        count += 1;
        last = row;
      }
      return last === null || count < entries ? null : last.slice(0, key.length);
    },
  };
}

function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}
