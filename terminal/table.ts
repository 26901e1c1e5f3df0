/** Formats rows in aligned columns without borders, readable for people and easy to split for programs. */
import Table from 'cli-table3';

import { visibleLine } from '../lib/visible-text.ts';

const noBorders = Object.fromEntries(
  [
    'top',
    'top-mid',
    'top-left',
    'top-right',
    'bottom',
    'bottom-mid',
    'bottom-left',
    'bottom-right',
    'left',
    'left-mid',
    'mid',
    'mid-mid',
    'right',
    'right-mid',
  ].map((place) => [place, '']),
);

/**
 * Returns the table's lines joined; only the header when there are no rows. A cell is one line, whatever its value
 * contains.
 */
export function renderTable(header: readonly string[], rows: ReadonlyArray<readonly string[]>): string {
  const table = new Table({
    head: [...header],
    chars: { ...noBorders, middle: '  ' },
    style: { head: [], border: [], 'padding-left': 0, 'padding-right': 0 },
  });
  for (const row of rows) table.push(row.map((cell) => (cell === '' ? '-' : visibleLine(cell).replaceAll('\t', String.raw`\t`))));
  return table
    .toString()
    .split('\n')
    .map((line) => line.trimEnd())
    .join('\n');
}
