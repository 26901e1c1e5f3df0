/** Several cells behind one gateway: the directory keeps them apart, and look-ups ask all of them. */
import { status, type Metadata, type ServiceError } from '@grpc/grpc-js';
import test from 'ava';

import { DEFAULT_CELL } from '../../lib/cells.ts';
import { DirectoryUpdate, EndpointEntry, KeyEntry, KeyScope, type ControlServiceClient } from '../../proto/gen/capstan/v1/control.ts';
import { refusal } from '../../gateway/auth/permission.ts';
import { RemovedNodes } from '../../gateway/cells/removed-nodes.ts';
import { Directory } from '../../gateway/directory/directory.ts';
import { createLog } from '../../gateway/log.ts';
import { Lookup, type LookupCell, type LookupOptions } from '../../gateway/directory/lookup.ts';
import { Cluster } from '../../proto/gen/capstan/v1/cluster.ts';
import { FakeScheduler } from './fake-scheduler.ts';
import { caller, KEY, startGateway } from './harness.ts';
import { CellList } from '../../gateway/cells/cell-list.ts';
import { CapstanError } from '../../lib/errors.ts';

const hash = (name: string): Buffer => Buffer.from(name.padEnd(32, '0'));
const hex = (name: string): string => hash(name).toString('hex');
const key = (name: string, accountId = name): KeyEntry => KeyEntry.fromPartial({ hash: hash(name), accountId, scope: KeyScope.ALL });
const endpoint = (id: string, accountId = id): EndpointEntry => EndpointEntry.fromPartial({ id, accountId });
const update = (parts: Partial<DirectoryUpdate>): DirectoryUpdate => DirectoryUpdate.fromPartial(parts);

function two(): Directory {
  const directory = new Directory();
  const placed = (nodeId: string) => ({ nodeId, workers: [{ workerId: `w-${nodeId}`, endpointId: 'e', releaseId: 'r', slots: 1 }] });
  for (const cell of ['default', 'west'])
    directory.apply(update({ reset: true, keys: [key(cell)], endpoints: [endpoint(cell)], placements: [placed(cell)] }), cell);
  return directory;
}

test('an update of one cell changes nothing of another, not even by the same name', (t) => {
  const directory = two();
  directory.apply(update({ removedKeys: [hash('default')], removedEndpoints: ['default'] }), 'west');
  t.is(directory.key(hex('default'))?.cell, 'default');
  t.is(directory.endpoint('default')?.cell, 'default');
  const changed: string[] = [];
  directory.onPlacements = (node) => changed.push(node);
  directory.apply(update({ reset: true }), 'west');
  t.deepEqual([directory.key(hex('west')), directory.endpoint('west'), directory.placement('w-west')], [undefined, undefined, undefined]);
  t.deepEqual(changed, ['west']);
  t.is(directory.placement('w-default')?.nodeId, 'default');
  t.is(directory.cellOfAccount('default'), 'default');
  t.is(directory.cellOfAccount('west'), undefined);
});

test('a key is none at an endpoint of another cell whose account has the same name', (t) => {
  const directory = new Directory();
  directory.apply(update({ keys: [key('k', 'acme')], endpoints: [endpoint('here', 'acme')] }), 'default');
  directory.apply(update({ endpoints: [endpoint('there', 'acme')] }), 'west');
  const holder = directory.key(hex('k'));
  if (holder === undefined) throw new Error('the key is not there');
  t.is(refusal(holder, 'here', directory.endpoint('here'), 'call'), null);
  t.is(refusal(holder, 'there', directory.endpoint('there'), 'call')?.code, 'NOT_FOUND');
});

test('removed nodes of all cells count', (t) => {
  const seen: (readonly string[])[] = [];
  const removed = new RemovedNodes((nodes) => seen.push(nodes));
  removed.set('default', ['a', 'b']);
  removed.set('west', ['c']);
  removed.set('default', []);
  t.deepEqual(seen.at(-1), ['c']);
  t.deepEqual(seen[1], ['a', 'b', 'c']);
});

type Reply = 'never' | 'unknown' | 'away' | EndpointEntry;

/** A cell whose owner replies so; counts how often it was asked. */
function cell(name: string, reply: Reply, reached = true): LookupCell & { asked: number } {
  const self = {
    name,
    asked: 0,
    watch: { reached, firstRead: () => Promise.resolve(reached) },
    metadata: {} as Metadata,
    control: {
      lookupEndpoint(
        _request: unknown,
        _metadata: unknown,
        _options: unknown,
        done: (error: Partial<ServiceError> | null, entry?: unknown) => void,
      ) {
        self.asked += 1;
        if (reply === 'never') return;
        const failed = (code: status): Error => Object.assign(new Error('x'), { code, details: 'x' });
        if (reply === 'unknown') done(failed(status.NOT_FOUND));
        else if (reply === 'away') done(failed(status.UNAVAILABLE));
        else done(null, reply);
      },
    } as unknown as ControlServiceClient,
  };
  return self;
}

const READ = { reached: true, firstRead: () => Promise.resolve(true) };

/** A list of cells that is read when the test says so. */
function unreadList(): {
  readonly cellList: LookupOptions['cellList'];
  readonly waited: Promise<void>;
  readonly end: (isRead: boolean) => void;
} {
  const asked = Promise.withResolvers<void>();
  const read = Promise.withResolvers<boolean>();
  const list = {
    reached: false,
    firstRead: (timeoutMs: number) => {
      asked.resolve();
      return timeoutMs === 1_000 ? read.promise : Promise.reject(new Error(`it waits for ${timeoutMs} ms`));
    },
  };
  return { cellList: () => list, waited: asked.promise, end: (isRead) => read.resolve((list.reached = isRead)) };
}

function lookupOver(...cells: LookupCell[]): Lookup {
  return new Lookup({ directory: new Directory(), cells: () => cells, cellList: () => READ, timeoutMs: 1_000, perSecond: 4, now: () => 0 });
}

test('an unknown endpoint is asked of all cells at once, and the first that has it answers, whatever the others do', async (t) => {
  const cells = [cell(DEFAULT_CELL, 'never'), cell('west', endpoint('e', 'acme')), cell('away', 'away'), cell('new', 'unknown', false)];
  const lookup = lookupOver(...cells);
  t.like(await lookup.endpoint('e', 'caller'), { accountId: 'acme', cell: 'west' });
  t.is(lookup.cellOf('e'), 'west');
  t.deepEqual(
    cells.map(({ asked }) => asked),
    [1, 1, 1, 0],
  );
  await lookup.endpoint('e', 'caller');
  t.is(cells[1]?.asked, 1, 'the directory holds it now');
});

test('nothing is said not to exist while a cell that may have it does not answer', async (t) => {
  for (const other of [cell('west', 'away'), cell('west', 'unknown', false)])
    await t.throwsAsync(lookupOver(cell(DEFAULT_CELL, 'unknown'), other).endpoint('e', 'caller'), { code: 'UNAVAILABLE' });
  const cells = [cell(DEFAULT_CELL, 'unknown'), cell('west', 'unknown')];
  const lookup = lookupOver(...cells);
  t.is(await lookup.endpoint('e', 'caller'), undefined);
  t.is(await lookup.endpoint('e', 'caller'), undefined);
  t.deepEqual(
    cells.map(({ asked }) => asked),
    [1, 1],
    'the negative answer is kept for a second',
  );
});

test('a look-up in several cells takes one from the budget', async (t) => {
  const lookup = lookupOver(cell(DEFAULT_CELL, 'unknown'), cell('west', 'unknown'), cell('south', 'unknown'));
  const codes = await Promise.all(
    Array.from({ length: 6 }, async (_, i) =>
      lookup.endpoint(`e${i}`, `caller-${i}`).then(
        () => 'absent',
        (error: { code: string }) => error.code,
      ),
    ),
  );
  t.deepEqual(codes, ['absent', 'absent', 'absent', 'absent', 'UNAVAILABLE', 'UNAVAILABLE']);
});

test('what is unknown before the first list of cells waits for it, and is asked of the cells that it shows', async (t) => {
  const [first, west] = [cell(DEFAULT_CELL, 'unknown'), cell('west', endpoint('e', 'acme'))];
  const cells = [first];
  const directory = new Directory();
  directory.apply(update({ reset: true, endpoints: [endpoint('known')] }), DEFAULT_CELL);
  const { cellList, waited, end } = unreadList();
  const lookup = new Lookup({ directory, cells: () => cells, cellList, timeoutMs: 1_000, perSecond: 4, now: () => 0 });
  t.like(await lookup.endpoint('known', 'caller'), { id: 'known' }, 'what is known waits for nothing');
  const found = lookup.endpoint('e', 'caller');
  await Promise.race([waited, found]);
  t.is(first.asked, 0, 'nobody is asked before');
  cells.push(west);
  end(true);
  t.like(await found, { accountId: 'acme', cell: 'west' });
});

test('what is unknown is unavailable when the list of cells is not read in time', async (t) => {
  const { cellList, end } = unreadList();
  const cells = [cell(DEFAULT_CELL, 'unknown')];
  const lookup = new Lookup({ directory: new Directory(), cells: () => cells, cellList, timeoutMs: 1_000, perSecond: 4, now: () => 0 });
  const endpointFound = lookup.endpoint('e', 'caller');
  const keyFound = lookup.key(hex('k'), 'caller');
  const workerFound = lookup.worker('wkr_w', hex('w'), 'caller');
  end(false);
  for (const found of [endpointFound, keyFound, workerFound]) await t.throwsAsync(found, { code: 'UNAVAILABLE' });
});

test('the list of cells is read once a scheduler answers, or has no such service', async (t) => {
  const failures = [status.UNAVAILABLE];
  const seen: (readonly string[])[] = [];
  const listOf = (list: () => Promise<never>): CellList => {
    const cellList = new CellList({ cluster: { list }, log, onCells: (names) => seen.push(names) });
    t.teardown(() => cellList.close());
    return cellList;
  };
  const log = createLog('silent');
  const fail = (code: status): never => {
    throw new CapstanError('UNAVAILABLE', 'x', { cause: Object.assign(new Error('x'), { code }) });
  };
  const later = listOf(async () => {
    const code = failures.shift();
    if (code !== undefined) fail(code);
    return {
      cells: [
        { name: 'west', ownerId: 'o' },
        { name: 'new', ownerId: '' },
      ],
    } as never;
  });
  t.false(later.reached);
  t.true(await later.firstRead(60_000));
  t.deepEqual(seen, [['west']]);
  t.true(await listOf(async () => fail(status.UNIMPLEMENTED)).firstRead(60_000));
  const closed = listOf(async () => fail(status.UNAVAILABLE));
  const waiting = closed.firstRead(60_000);
  closed.close();
  t.false(await waiting);
  t.false(await listOf(async () => fail(status.UNAVAILABLE)).firstRead(1));
});

test('a gateway that has just started refuses no key before it knows the cells', async (t) => {
  const scheduler = new FakeScheduler();
  t.teardown(() => scheduler.stop());
  const listed = Promise.withResolvers<Cluster>();
  scheduler.onCluster = () => listed.promise;
  scheduler.announce = false;
  scheduler.addKey(KEY);
  scheduler.addEndpoint('ep');
  await scheduler.start();
  const gateway = await startGateway(t, scheduler);
  const call = (name: string) => caller(t, gateway.url)('GET', '/v2/ep/health', { key: name });
  const asked = call('new-key');
  t.is((await call(KEY)).status, 200, 'a known key waits for no list');
  t.deepEqual(scheduler.lookups, []);
  scheduler.addKey('new-key');
  listed.resolve(Cluster.fromPartial({ cells: [{ name: DEFAULT_CELL, ownerId: 'o' }] }));
  t.is((await asked).status, 200);
  t.is(scheduler.lookups.length, 1, 'one cell is asked once');
});
