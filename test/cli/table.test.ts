/** Tables of the tool fit the terminal, whatever the values are; in a pipe they have every column, whole. */
import test from 'ava';

import { renderTable, type Table } from '../../terminal/table.ts';
import { createTerminal } from '../../terminal/terminal.ts';
import { breakText, cutText, textWidth } from '../../terminal/text-width.ts';

/** A name in wide characters, one with marks, one from right to left, one that rewrites the screen, and an emoji of several characters. */
const NAMES = ['推論サーバー', 'e\u0301te\u0301', 'שלום', '\u001b[2J\u202eexe\r\n✓ forged', '👩\u200d👩\u200d👧'];
const WIDTHS = [40, 80, 120, 200];

const table: Table = {
  head: ['NAME', 'ID', 'STATUS', 'URL', 'REASON'],
  rows: NAMES.map((name, n) => [
    name,
    `id-${n}`.padEnd(14, 'x'),
    'connected',
    `https://gateway.example/v2/${'x'.repeat(14)}`,
    `a reason of ${'many '.repeat(12)}words`,
  ]),
  optional: ['STATUS', 'URL'],
  cut: ['REASON'],
};

function printed(given: Table, columns: number | undefined): { readonly out: string; readonly err: string } {
  let out = '';
  let err = '';
  const terminal = createTerminal({
    out: { isTTY: columns !== undefined, ...(columns === undefined ? {} : { columns }), write: (text) => (out += text) },
    err: { isTTY: false, write: (text) => (err += text) },
    colours: false,
  });
  terminal.table(given);
  return { out, err };
}

test('no line is wider than the terminal, and no value passes for a line of the tool', (t) => {
  for (const width of WIDTHS) {
    const { out } = printed(table, width);
    for (const line of out.trimEnd().split('\n')) t.true(textWidth(line) <= width, `${width}: ${line}`);
    t.notRegex(out, /^✓ forged/m);
    // oxlint-disable-next-line no-control-regex -- control characters are what is looked for
    t.notRegex(out, /[\u0000-\u0009\u000b-\u001f\u202e]/);
  }
});

test('columns stand below one another, also beside wide characters', (t) => {
  const lines = printed(table, 120).out.trimEnd().split('\n');
  const at = textWidth((lines[0] ?? '').split('ID')[0] ?? '');
  for (const [n, line] of lines.slice(1).entries()) t.is(textWidth(line.split(`id-${n}`)[0] ?? ''), at, line);
});

test('sentences are cut first, then columns are left out and named, then each row is a record with all values', (t) => {
  const wide = printed(table, 200);
  t.regex(wide.out, /NAME +ID +STATUS +URL +REASON/);
  t.is(wide.err, '');
  const cut = printed(table, 140);
  t.regex(cut.out, /NAME +ID +STATUS +URL +REASON/);
  t.regex(cut.out, /a reason of many.*…$/m);
  t.is(cut.err, '');
  // The URL has no room; the status, which would be left out before it, has.
  const fewer = printed(table, 80);
  t.regex(fewer.out, /^NAME +ID +STATUS +REASON$/m);
  t.is(fewer.err, 'hint: not shown in this width: URL; -o json has all\n');
  const record = printed(table, 40);
  t.is(record.err, '');
  t.is(record.out.match(/^NAME {4}/gm)?.length, NAMES.length);
  t.is(record.out.match(/^URL {5}https:\/\//gm)?.length, NAMES.length);
});

test('a pipe gets all columns whole, with - for an empty value', (t) => {
  const { out, err } = printed({ ...table, rows: [['a', '', 'c\td', 'e', 'f'.repeat(500)]] }, undefined);
  t.is(out, `NAME  ID  STATUS  URL  REASON\na     -   c\\td    e    ${'f'.repeat(500)}\n`);
  t.is(err, '');
  t.is(printed(table, 0).out, printed(table, undefined).out, 'a terminal without a size, as of `docker exec -t` in a script');
});

test('a table without rows is its header', (t) => {
  t.is(renderTable({ ...table, rows: [] }, 80).text, 'NAME  ID  STATUS  URL  REASON');
});

test('widths are those of the terminal', (t) => {
  for (const [text, width] of [
    ['', 0],
    ['plain', 5],
    ['日本', 4],
    ['e\u0301', 1],
    ['👩\u200d👩\u200d👧', 2],
    ['שלום', 4],
    ['한글', 4],
    ['Ａ', 2],
  ] as const)
    t.is(textWidth(text), width, text);
  t.is(cutText('日本語', 4), '日…');
  t.is(cutText('日本', 4), '日本');
  t.deepEqual(breakText('日本語テキスト', 6), ['日本語', 'テキス', 'ト']);
  t.deepEqual(breakText('one two three', 8), ['one two ', 'three']);
});
