/** JSON of rows: what PostgreSQL reads no field beside is replaced, and nothing else. */
import test from 'ava';

import { storableJson, storedJson } from '../../../scheduler/core/stored-json.ts';

test('NULs and halves of pairs are replaced in names and values, and nothing else is changed', (t) => {
  const kept = {
    pair: '\u{1F600}',
    text: String.raw`\u0000 \\u0000 \ud83d`,
    line: 'a\nb\t"\u0001\u001B',
    n: 1.5,
    no: null,
    list: ['x'],
    '\\': true,
  };
  t.is(storedJson(kept), JSON.stringify(kept));
  t.deepEqual(JSON.parse(storedJson({ 'a\0': '\0\0', high: 'x\uD83D', low: '\uDE00x', after: '\\\0', both: '\uDE00\uD83D' })), {
    'a\u{FFFD}': '\u{FFFD}\u{FFFD}',
    high: 'x\u{FFFD}',
    low: '\u{FFFD}x',
    after: '\\\u{FFFD}',
    both: '\u{FFFD}\u{FFFD}',
  });
});

test('rows of earlier versions are mended as text: only their escapes change', (t) => {
  const row = String.raw`{"name":"a\u0000 b\\u0000","at":1.0}`;
  t.is(storableJson(row), row.replace(String.raw`a\u0000`, 'a\u{FFFD}'));
});
