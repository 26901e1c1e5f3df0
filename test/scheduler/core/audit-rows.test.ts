/** Rows of the audit log: their keys are in the order of writing, and any store reads their values. */
import test from 'ava';

import { auditRow, type AuditEntry, type LastEntry } from '../../../scheduler/core/audit.ts';

const entry: AuditEntry = {
  ...{ account: 'team', key: 'k', keyName: 'ci', address: '', action: 'setSecret', object: 'prod/TOKEN' },
  ...{ before: null, after: null },
};

test('entries of one millisecond have keys in the order of writing, whatever names they get', (t) => {
  const last: LastEntry = { at: 0, number: 0 };
  const times = [5, 5, 5, 6, 6, 7];
  const keys = times.map((wall, n) => auditRow(last, `z${9 - n}`, { wall: 1_700_000_000_000 + wall + 0.4, mono: 0 }, entry).key);
  t.deepEqual(keys, keys.toSorted());
  t.is(keys[1], 'team/17000000000050001z8');
  t.is(keys[3], 'team/17000000000060000z6');
});

test('a value has no NUL and no half of a pair, also where a long text is cut', (t) => {
  const after = { cut: `${'a'.repeat(499)}\u{1F600}` };
  const { value } = auditRow({ at: 0, number: 0 }, 'x', { wall: 1, mono: 0 }, { ...entry, keyName: 'c\0i', after });
  t.like(JSON.parse(value), { keyName: 'c\u{FFFD}i', after: { cut: `${'a'.repeat(499)}\u{FFFD}…` } });
});
