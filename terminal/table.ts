/**
 * Formats rows in aligned columns without borders, readable for people and easy to split for programs. On a terminal they
 * fit its width: text columns are cut, then optional columns are left out, then each row is a record with a line per value.
 */
import { visibleLine } from '../lib/visible-text.ts';
import { breakText, cutText, textWidth } from './text-width.ts';

export interface Table {
  readonly head: readonly string[];
  readonly rows: ReadonlyArray<readonly string[]>;
  /** Titles of columns that may be left out, in the order in which they are. */
  readonly optional?: readonly string[];
  /** Titles of columns with sentences, which may be cut. */
  readonly cut?: readonly string[];
}

export interface FittedTable {
  readonly text: string;
  /** Titles of the columns that are left out. */
  readonly omitted: readonly string[];
}

const GAP = '  ';
/** A column is not cut below this, cells. */
const MIN_CUT = 20;
/** The least width of a record's values, cells. */
const MIN_VALUE = 10;

interface Column {
  readonly title: string;
  readonly cells: readonly string[];
  readonly width: number;
}

/** `width`: cells of the terminal; undefined where the output is no terminal: all columns, whole. */
export function renderTable(table: Table, width?: number): FittedTable {
  const { head, rows, optional = [], cut = [] } = table;
  const columns = head.map((title, index) => columnOf(title, rows, index));
  if (width === undefined) return { text: aligned(columns), omitted: [] };
  const fitted = (omitted: readonly string[]): readonly Column[] | undefined =>
    cutTo(
      columns.filter(({ title }) => !omitted.includes(title)),
      cut,
      width,
    );
  const present = optional.filter((title) => head.includes(title));
  const count = Array.from({ length: present.length + 1 }, (_, n) => n).find((n) => fitted(present.slice(0, n)) !== undefined);
  if (count === undefined) return { text: records(table, width), omitted: [] };
  let omitted = present.slice(0, count);
  // A narrow column may fit beside those that are left once a wide one is out.
  for (const title of omitted.toReversed()) {
    const fewer = omitted.filter((each) => each !== title);
    if (fitted(fewer) !== undefined) omitted = fewer;
  }
  return { text: aligned(fitted(omitted) ?? columns), omitted };
}

/** A cell is one line, whatever its value contains. */
function cellText(value: string): string {
  return value === '' ? '-' : visibleLine(value).replaceAll('\t', String.raw`\t`);
}

function columnOf(title: string, rows: Table['rows'], index: number): Column {
  const cells = rows.map((row) => cellText(row[index] ?? ''));
  return { title, cells, width: widest([title, ...cells]) };
}

function widest(texts: readonly string[]): number {
  return texts.reduce((width, text) => Math.max(width, textWidth(text)), 0);
}

/** Cuts what may be cut until the columns fit; undefined if they do not. */
function cutTo(columns: readonly Column[], cut: readonly string[], width: number): readonly Column[] | undefined {
  let excess = columns.reduce((sum, each) => sum + each.width + GAP.length, -GAP.length) - width;
  const fitted = columns.map((column) => {
    if (excess <= 0 || !cut.includes(column.title) || column.width <= MIN_CUT) return column;
    const to = Math.max(MIN_CUT, column.width - excess);
    excess -= column.width - to;
    return { ...column, cells: column.cells.map((cell) => cutText(cell, to)), width: to };
  });
  return excess > 0 ? undefined : fitted;
}

function aligned(columns: readonly Column[]): string {
  const line = (textOf: (column: Column) => string): string =>
    columns
      .map((column) => padded(textOf(column), column.width))
      .join(GAP)
      .trimEnd();
  const count = columns[0]?.cells.length ?? 0;
  return [line(({ title }) => title), ...Array.from({ length: count }, (_, at) => line(({ cells }) => cells[at] ?? ''))].join('\n');
}

function padded(text: string, width: number): string {
  return text + ' '.repeat(Math.max(0, width - textWidth(text)));
}

/** A block per row; a value that is too wide goes on below itself. */
function records({ head, rows }: Table, width: number): string {
  const names = widest(head);
  const indent = ' '.repeat(names + GAP.length);
  const lines = (row: readonly string[]): string[] =>
    head.flatMap((title, index) => {
      const [first = '', ...more] = breakText(cellText(row[index] ?? ''), Math.max(MIN_VALUE, width - indent.length));
      return [`${padded(title, names)}${GAP}${first}`, ...more.map((each) => indent + each)].map((line) => line.trimEnd());
    });
  return rows.map((row) => lines(row).join('\n')).join('\n\n');
}
