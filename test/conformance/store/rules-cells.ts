/** What a driver with several cells promises: the stores of two cells on one database see nothing of each other. */
import test, { type ExecutionContext } from 'ava';

import type { PostgresStore } from '../../../scheduler/store/postgres/client.ts';
import { KeyScope } from '../../../proto/gen/capstan/v1/control.ts';
import { StaleTermError, type Fence, type Op } from '../../../scheduler/core/ports/store.ts';
import { completed, entry, failed, given, deliveryOf, idOf, json, leased, outcomes, queued, queueOf, submit, START } from './jobs.ts';
import { take } from './take.ts';

const FOREVER = Number.MAX_SAFE_INTEGER;

export function cellRules(open: (url: string, cell?: string) => Promise<PostgresStore>, newDatabase: () => Promise<string>): void {
  const opened = async (t: ExecutionContext, url: string, cell?: string): Promise<PostgresStore> => {
    const store = await open(url, cell);
    t.teardown(() => store.close());
    return store;
  };
  const two = async (t: ExecutionContext) => {
    const url = await newDatabase();
    const one = await opened(t, url);
    await one.cells.create('west');
    const other = await opened(t, url, 'west');
    return { url, one, other, fence: await take(one), otherFence: await take(other, 'owner-b', other.cell) };
  };

  test.serial('cells: the same ids, keys and endpoints in two cells are different rows', async (t) => {
    const { one, other, fence, otherFence } = await two(t);
    t.not(fence.cell, otherFence.cell);
    const key = { key: 'idempotent', bodyHash: new Uint8Array(32).fill(1), expiresAt: FOREVER };
    const ops = (text: string): Op[] => [
      { kind: 'put', rowKind: 'endpoint', key: 'endpoint-a', version: 1, value: JSON.stringify({ account: `account-${text}` }) },
      submit(queued(1), { input: json(text), idempotency: key, s3: new TextEncoder().encode(text) }),
      submit(leased(2)),
      submit(leased(3)),
      completed(3, { output: json(text), chunks: [json(text)], delivery: deliveryOf(3, { url: `https://example.com/${text}` }) }),
      submit(leased(4)),
      failed(4, { output: { blob: { id: `body/${text}`, size: 10 } } }),
    ];
    const named = { one: ops('one'), other: ops('other') };
    t.deepEqual(
      await outcomes(one, fence, ...named.one),
      named.one.map(() => 'ok'),
    );
    t.deepEqual(
      await outcomes(other, otherFence, ...named.other),
      named.other.map(() => 'ok'),
    );
    for (const [store, text] of [
      [one, 'one'],
      [other, 'other'],
    ] as const) {
      t.deepEqual(await queueOf(store), [1]);
      t.deepEqual(decoded((await store.read('payload', 1))?.input), text);
      t.deepEqual(
        (await store.read('encryptedInputs', 0, 10)).map(({ s3 }) => new TextDecoder().decode(s3)),
        [text],
      );
      t.deepEqual(
        (await store.read('leased', 0, 10)).map(({ seq }) => seq),
        [2],
      );
      const whole = await store.read('job', 'endpoint-a', idOf(3));
      t.deepEqual([decoded(whole?.output), ...(whole?.chunks ?? []).map(decoded)], [text, text]);
      t.deepEqual((await store.read('page', 'endpoint-a', null, 0, 10)).total, 4);
      t.deepEqual((await store.read('due', FOREVER, 10)).jobs.length, 4);
      t.is(
        (await store.read('counts')).reduce((sum, { count }) => sum + count, 0),
        4,
      );
      t.deepEqual(await store.read('highest'), { seq: 4, queuePosition: 4 });
      t.deepEqual(await store.read('blobsOf', 4), [`body/${text}`]);
      // 10 of the blob; 14 of each input that `submit` gives, that of the delivery included; the rest holds the text.
      const bytes = 10 + 4 * 14 + 4 * (json(text).inline.length + 5);
      t.deepEqual(await store.read('bodyUsage'), [{ account: `account-${text}`, bytes }]);
      const deliveries = await store.read('deliveries', { wall: FOREVER, skipHosts: [], skipIds: [], perHost: 10, limit: 10 });
      t.deepEqual(
        deliveries.deliveries.map(({ url }) => url),
        [`https://example.com/${text}`],
      );
      t.is((await store.read('delivery', `${idOf(3)}_1`))?.url, `https://example.com/${text}`);
      t.is((await store.read('deliveryPage', 'account-a', '', 10)).length, 1);
      t.is((await store.read('control', 'endpoint', '', 10)).length, 1);
      t.is((await store.read('idempotency', 'idempotent'))?.jobId, idOf(1));
    }
    t.deepEqual(await outcomes(other, otherFence, { kind: 'delete', seq: 1, dueBy: null }, completed(2)), ['ok', 'ok']);
    t.deepEqual(await queueOf(one), [1]);
    t.deepEqual(
      (await one.read('leased', 0, 10)).map(({ seq }) => seq),
      [2],
    );
  });

  test.serial('cells: a term holds in its own cell only', async (t) => {
    const { one, other, fence, otherFence } = await two(t);
    const stolen: Fence = { cell: otherFence.cell, term: otherFence.term };
    await t.throwsAsync(one.commit(stolen, [submit(queued(1))]), { instanceOf: StaleTermError });
    await t.throwsAsync(other.commit(fence, [submit(queued(1))]), { instanceOf: StaleTermError });
    await given(one, fence, submit(queued(1)));
    t.deepEqual(await queueOf(other), []);
  });

  test.serial('cells: a blob that any cell names is named', async (t) => {
    const { one, other, otherFence } = await two(t);
    const digest = 'a'.repeat(64);
    await given(other, otherFence, submit(queued(1), { input: { blob: { id: 'body/b', size: 1 } } }), {
      kind: 'put',
      rowKind: 'build',
      key: digest,
      version: 1,
      value: '{}',
    });
    const ids = ['body/a', 'body/b', `build/${digest}`, `build/${'b'.repeat(64)}`];
    t.deepEqual((await one.read('blobsNamed', ids)).toSorted(), ['body/b', `build/${digest}`]);
  });

  test.serial('cells: they are created once, by a name of the form, and a missing one is refused with the command', async (t) => {
    const url = await newDatabase();
    const store = await opened(t, url);
    t.deepEqual(await store.cells.list(), [{ name: 'default', accounts: 1, address: '' }], 'before its first owner');
    t.like(await store.cells.create('west'), { name: 'west', accounts: 0 });
    await t.throwsAsync(store.cells.create('west'), { code: 'ALREADY_EXISTS', message: 'name: cell west already exists' });
    for (const name of ['', 'West', '1st', 'a b', 'x'.repeat(33), '-a'])
      await t.throwsAsync(store.cells.create(name), { code: 'INVALID_ARGUMENT', message: /^name: ".*" must be 1 to 32 lowercase letters/ });
    const made = await Promise.all(Array.from({ length: 8 }, (_, i) => store.cells.create(`n${i}`)));
    t.is(made.length, 8);
    t.is((await store.cells.list()).length, 10);
    await t.throwsAsync(open(url, 'east'), {
      code: 'CONFIG',
      message: 'CAPSTAN_CELL: the database has no cell east; create it with: capstan cell create east',
    });
  });

  test.serial('cells: the id of an account is of one cell, whoever comes first', async (t) => {
    const { one, other, fence } = await two(t);
    t.is(await other.cells.claimAccount('default'), 'default');
    t.is(await other.cells.claimAccount('acme'), 'west');
    t.is(await one.cells.claimAccount('acme'), 'west');
    t.is(await other.cells.claimAccount('acme'), 'west');
    await given(one, fence, { kind: 'put', rowKind: 'account', key: 'copied', version: 1, value: '{}' });
    t.is(await other.cells.claimAccount('copied'), 'default', 'accounts that were written without a claim have one');
    t.deepEqual(
      (await one.cells.list()).map(({ name, accounts }) => [name, accounts]),
      [
        ['default', 2],
        ['west', 1],
      ],
    );
  });

  test.serial('cells: the keys that operate the service are those of the cell default', async (t) => {
    const { one, other, fence, otherFence } = await two(t);
    const key = (hash: string, scope: KeyScope): Op => ({
      kind: 'put',
      rowKind: 'key',
      key: hash,
      version: 1,
      value: JSON.stringify({ hash, scope, account: 'default', createdAt: START }),
    });
    await given(one, fence, key('a', KeyScope.OPERATOR), key('b', KeyScope.ALL));
    await given(other, otherFence, key('c', KeyScope.OPERATOR));
    for (const store of [one, other])
      t.deepEqual(
        (await store.cells.operatorKeys()).map((text) => (JSON.parse(text) as { hash: string }).hash),
        ['a'],
      );
  });

  test.serial('cells: an account moves under new terms of both cells, and not when its cell went on meanwhile', async (t) => {
    const { one, other, fence: first, otherFence } = await two(t);
    let fence = first;
    const put = (rowKind: 'account' | 'endpoint', key: string, value: object): Op => ({
      kind: 'put',
      rowKind,
      key,
      version: 1,
      value: JSON.stringify(value),
    });
    await given(one, fence, put('account', 'acme', {}), put('endpoint', 'endpoint-a', { account: 'acme' }), put('account', 'stays', {}));
    const move = { account: 'acme', to: 'west' };
    await t.throwsAsync(other.cells.checkAccountMove({ account: 'x', to: 'nowhere' }), { code: 'NOT_FOUND' });
    await given(one, fence, submit(queued(1)));
    const hasJobs = {
      code: 'CONFLICT',
      message: 'account: acme has 1 stored jobs; it can be moved once they have ended and their retention has expired',
    };
    await t.throwsAsync(one.cells.checkAccountMove(move), hasJobs);
    await given(one, fence, put('account', 'new', {}), { kind: 'delete', seq: 1, dueBy: null });
    await one.cells.checkAccountMove(move);
    // The term is given up first: a batch that was called before counts, one that is called later is refused.
    const before = one.commit(fence, [submit(queued(2))]);
    const refused = one.cells.moveAccount(move, entry('move'));
    await t.throwsAsync(one.commit(fence, []), { instanceOf: StaleTermError });
    await t.throwsAsync(refused, hasJobs);
    t.deepEqual(await before, [{ kind: 'ok' }]);
    fence = await take(one);
    await given(one, fence, { kind: 'delete', seq: 2, dueBy: null });
    await given(other, otherFence);
    await one.cells.moveAccount(move, entry('made'));
    for (const [store, stale] of [
      [one, fence],
      [other, otherFence],
    ] as const)
      await t.throwsAsync(store.commit(stale, []), { instanceOf: StaleTermError });
    const keys = async (store: PostgresStore, kind: 'account' | 'endpoint') =>
      (await store.read('control', kind, '', 10)).map(({ key }) => key);
    t.deepEqual([await keys(one, 'account'), await keys(one, 'endpoint')], [['new', 'stays'], []]);
    t.deepEqual([await keys(other, 'account'), await keys(other, 'endpoint')], [['acme'], ['endpoint-a']]);
    t.is(await one.cells.claimAccount('acme'), 'west');
    t.deepEqual(await actions(other), ['made'], 'what was refused left no entry, and what was made one');
    const unowned = await opened(t, (await two(t)).url);
    await t.throwsAsync(unowned.cells.moveAccount(move, entry('move')), { code: 'UNAVAILABLE' });
  });

  test.serial('cells: a node without leases moves with its identity, under new terms of both cells, and back', async (t) => {
    const { url, one, other, fence: first, otherFence } = await two(t);
    let fence = first;
    const node = { id: 'node-a', name: 'gpu', secretHash: 'f'.repeat(64), draining: true };
    const put = (rowKind: 'node' | 'desired', key: string, value: unknown, version = 1): Op => ({
      kind: 'put',
      rowKind,
      key,
      version,
      value: JSON.stringify(value),
    });
    await given(one, fence, put('node', 'node-a', node), put('desired', 'node-a', { epoch: 7, workers: [] }), put('node', 'stays', {}));
    const move = { node: 'node-a', to: 'west' };
    const isRefused = async (message: RegExp): Promise<void> => {
      await t.throwsAsync(one.cells.moveNode(move, entry('move')), { code: 'CONFLICT', message });
      fence = await take(one);
    };
    await t.throwsAsync(one.cells.checkNodeMove({ node: 'node-a', to: 'north' }), {
      code: 'NOT_FOUND',
      message: 'cell: north does not exist',
    });
    await t.throwsAsync(one.cells.checkNodeMove({ node: 'node-a', to: 'default' }), {
      code: 'CONFLICT',
      message: /belongs to the cell default/,
    });
    await given(one, fence, put('node', 'new', {}));
    await given(one, fence, submit(leased(1)));
    await t.throwsAsync(one.cells.checkNodeMove(move), { code: 'CONFLICT', message: /^node: node-a runs 1 job; drain it/ });
    await isRefused(/^node: node-a runs 1 job; drain it/);
    await given(one, fence, completed(1));
    // What another node or a removed one has there is not overwritten.
    await given(other, otherFence, put('node', 'node-a', { ...node, removedAt: 1 }));
    await isRefused(/is in use/);
    await given(other, otherFence, { kind: 'put', rowKind: 'node', key: 'node-a', version: 2, value: null });
    // A node of another cell, and an unknown one.
    await t.throwsAsync(other.cells.moveNode({ node: 'node-a', to: 'default' }, entry('move')), { code: 'CONFLICT' });
    const retaken = await take(other, 'owner-b', other.cell);
    await one.cells.moveNode(move, entry('made'));
    t.deepEqual(await actions(other), ['made'], 'what was refused left no entry, and what was made one');
    for (const [store, stale] of [
      [one, fence],
      [other, retaken],
    ] as const)
      await t.throwsAsync(store.commit(stale, []), { instanceOf: StaleTermError });
    const rows = async (store: PostgresStore, kind: 'node' | 'desired') =>
      (await store.read('control', kind, '', 10)).map(({ key, value }) => [key, JSON.parse(value) as unknown]);
    t.deepEqual(await rows(one, 'node'), [
      ['new', {}],
      ['node-a', { ...node, movedTo: 'west' }],
      ['stays', {}],
    ]);
    t.deepEqual(await rows(one, 'desired'), []);
    t.deepEqual(await rows(other, 'node'), [['node-a', node]]);
    // What it left behind cannot be moved, and gives way to the node itself.
    const [again, third] = [await opened(t, url), await opened(t, url, 'west')];
    await take(again, 'owner-c');
    await take(third, 'owner-d', third.cell);
    await t.throwsAsync(again.cells.moveNode(move, entry('move')), { code: 'CONFLICT', message: /is in use/ });
    await third.cells.moveNode({ node: 'node-a', to: 'default' }, entry('move'));
    t.deepEqual((await rows(again, 'node'))[1], ['node-a', node]);
    t.deepEqual(await rows(third, 'node'), [['node-a', { ...node, movedTo: 'default' }]]);
    const unowned = await opened(t, (await two(t)).url);
    await t.throwsAsync(unowned.cells.moveNode(move, entry('move')), { code: 'UNAVAILABLE' });
  });
}

function decoded(payload: { readonly inline: Uint8Array } | object | null | undefined): unknown {
  if (payload === null || payload === undefined || !('inline' in payload)) return payload;
  return JSON.parse(new TextDecoder().decode(payload.inline)) as unknown;
}

/** Of the audit log of the account `default`. */
async function actions(store: PostgresStore): Promise<string[]> {
  return (await store.read('audit', 'default', '', 10)).map(({ value }) => (JSON.parse(value) as { action: string }).action);
}
