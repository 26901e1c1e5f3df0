import test from 'ava';

import { AUDIT_KEPT_MS, controlKinds, type ControlKind, type Op } from '../../../scheduler/core/ports/store.ts';
import { given, outcomes } from './jobs.ts';
import type { Use } from './use.ts';

const put = (key: string, version: number, value: unknown, kind: ControlKind = 'endpoint'): Op => ({
  kind: 'put',
  rowKind: kind,
  key,
  version,
  value: value === null ? null : JSON.stringify(value),
});

export function controlRules(name: string, use: Use): void {
  test.serial(`${name}: a control row is put, replaced and removed under its version`, async (t) => {
    const { store, fence } = await use(t);
    const rows = async () => (await store.read('control', 'endpoint', '', 10)).map((row) => [row.kind, row.key, row.version, row.value]);
    t.deepEqual(await outcomes(store, fence, put('a', 1, { n: 1 })), ['ok']);
    t.deepEqual(await rows(), [['endpoint', 'a', 1, '{"n":1}']]);
    t.deepEqual(await outcomes(store, fence, put('a', 2, { n: 'ü' }), put('a', 3, { n: 3 })), ['ok', 'ok']);
    t.deepEqual(await rows(), [['endpoint', 'a', 3, '{"n":3}']]);
    t.deepEqual(await outcomes(store, fence, put('a', 4, null)), ['ok']);
    t.deepEqual(await rows(), []);
    t.deepEqual(await outcomes(store, fence, put('a', 1, { again: true })), ['ok']);
    t.deepEqual(await rows(), [['endpoint', 'a', 1, '{"again":true}']]);
  });

  test.serial(`${name}: a put with another version than the next is a conflict and changes nothing`, async (t) => {
    const { store, fence } = await use(t);
    await given(store, fence, put('a', 1, 1), put('a', 2, 2));
    t.deepEqual(
      await outcomes(store, fence, put('a', 1, 9), put('a', 2, 9), put('a', 4, 9), put('b', 2, 9), put('a', 2, null), put('a', 4, null)),
      ['conflict', 'conflict', 'conflict', 'conflict', 'conflict', 'conflict'],
    );
    t.deepEqual(await store.read('control', 'endpoint', '', 10), [{ kind: 'endpoint', key: 'a', version: 2, value: '2' }]);
  });

  test.serial(`${name}: removing a control row that is not there is gone`, async (t) => {
    const { store, fence } = await use(t);
    t.deepEqual(await outcomes(store, fence, put('a', 1, null), put('a', 2, null)), ['gone', 'gone']);
  });

  test.serial(`${name}: control rows are listed per kind by key, after a key, bounded`, async (t) => {
    const { store, fence } = await use(t);
    await given(store, fence, put('c', 1, 1), put('a', 1, 1), put('b', 1, 1), put('a', 1, 1, 'node'));
    const keys = async (kind: ControlKind, after: string, limit: number) =>
      (await store.read('control', kind, after, limit)).map((row) => row.key);
    t.deepEqual(await keys('endpoint', '', 10), ['a', 'b', 'c']);
    t.deepEqual(await keys('endpoint', '', 2), ['a', 'b']);
    t.deepEqual(await keys('endpoint', 'b', 2), ['c']);
    t.deepEqual(await keys('node', '', 10), ['a']);
    t.deepEqual(await keys('release', '', 10), []);
  });

  test.serial(`${name}: every kind of control row is taken`, async (t) => {
    const { store, fence } = await use(t);
    await given(store, fence, ...controlKinds.map((kind) => put('x', 1, { kind }, kind)));
    for (const kind of controlKinds) t.is((await store.read('control', kind, '', 10))[0]?.value, JSON.stringify({ kind }));
  });

  test.serial(`${name}: an entry of the audit log comes with its batch and stays apart from control rows`, async (t) => {
    const { store, fence } = await use(t);
    const at = 1_700_000_000_000;
    const entry = (account: string, time: number, n: number): Op => ({
      ...{ kind: 'put', rowKind: 'audit', version: 1 },
      ...{ key: `${account}/${time}${n}`, value: JSON.stringify({ at: time, account, n }) },
    });
    const ids = async (account: string, before = '', limit = 10) => (await store.read('audit', account, before, limit)).map(({ id }) => id);
    t.deepEqual(await outcomes(store, fence, put('a', 1, 1), entry('x', at, 1), entry('x', at, 2), entry('x-y', at, 3), put('a', 9, 9)), [
      ...['ok', 'ok', 'ok', 'ok', 'conflict'],
    ]);
    t.deepEqual(await store.read('control', 'audit' as ControlKind, '', 10), []);
    t.deepEqual(await store.read('audit', 'x', '', 1), [{ id: `x/${at}2`, value: JSON.stringify({ at, account: 'x', n: 2 }) }]);
    t.deepEqual(await ids('x'), [`x/${at}2`, `x/${at}1`]);
    t.deepEqual(await ids('x', `x/${at}2`), [`x/${at}1`]);
    t.deepEqual(await ids('x', '', 1), [`x/${at}2`]);
    t.deepEqual(await ids('x-y'), [`x-y/${at}3`]);
    t.deepEqual(await ids('y'), []);
    const after = async (time: number, id: string, until = at + 1, limit = 10) =>
      (await store.read('auditAfter', { at: time, id }, until, limit)).map((row) => row.id);
    t.deepEqual(await after(at, ''), [`x-y/${at}3`, `x/${at}1`, `x/${at}2`], 'of every account');
    t.deepEqual(await after(0, 'z', at + 1, 2), [`x-y/${at}3`, `x/${at}1`]);
    t.deepEqual(await after(at, `x/${at}1`), [`x/${at}2`]);
    t.deepEqual(await after(at, `x/${at}2`), []);
    t.deepEqual(await after(0, '', at), [], 'before a time alone');
    // Entries older than the time for which they are kept go with later ones.
    await given(store, fence, entry('x', at + AUDIT_KEPT_MS, 4));
    t.is((await ids('x')).length, 3);
    await given(store, fence, entry('other', at + AUDIT_KEPT_MS + 1, 5));
    t.deepEqual(await ids('x'), [`x/${at + AUDIT_KEPT_MS}4`]);
  });
}
