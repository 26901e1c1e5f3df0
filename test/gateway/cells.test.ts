/** Several cells behind one gateway: the directory keeps them apart, and look-ups ask all of them. */
import { status, type Metadata, type ServiceError } from '@grpc/grpc-js';
import test from 'ava';

import { DEFAULT_CELL } from '../../lib/cells.ts';
import { DirectoryUpdate, EndpointEntry, KeyEntry, KeyScope, type ControlServiceClient } from '../../proto/gen/capstan/v1/control.ts';
import { refusal } from '../../gateway/directory/permission.ts';
import { RemovedNodes } from '../../gateway/cells/removed-nodes.ts';
import { Directory } from '../../gateway/directory/directory.ts';
import { createLog } from '../../gateway/log.ts';
import { Lookup, type LookupCell, type LookupOptions } from '../../gateway/lookup/lookup.ts';
import { Cluster } from '../../proto/gen/capstan/v1/cluster.ts';
import { FakeScheduler } from './fake-scheduler.ts';
import { caller, KEY, startGateway } from './harness.ts';
import { CellList } from '../../gateway/cells/cell-list.ts';
import { CapstanError } from '../../lib/errors.ts';
import { until } from '../support/until.ts';

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

type Reply = 'never' | 'unknown' | 'away' | EndpointEntry | (() => 'unknown' | EndpointEntry);

/** A cell whose owner replies so; counts how often it was asked. */
function cell(name: string, reply: Reply, reached = true): LookupCell & { asked: number; term: bigint | undefined } {
  const self = {
    name,
    asked: 0,
    term: undefined as bigint | undefined,
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
        const present = typeof reply === 'function' ? reply() : reply;
        if (present === 'never') return;
        const failed = (code: status): Error => Object.assign(new Error('x'), { code, details: 'x' });
        if (present === 'unknown') done(failed(status.NOT_FOUND));
        else if (present === 'away') done(failed(status.UNAVAILABLE));
        else done(null, present);
      },
    } as unknown as ControlServiceClient,
  };
  return self;
}

const READ = { reached: true, firstRead: () => Promise.resolve(true), now: () => Promise.resolve(new Map<string, bigint>()) };

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
    now: READ.now,
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

test('what neither cell knows while an account moves between them is asked again, until both answer under their present terms', async (t) => {
  const answers: ('unknown' | EndpointEntry)[] = ['unknown', endpoint('e', 'acme')];
  const [east, west] = [cell(DEFAULT_CELL, 'unknown'), cell('west', () => answers.shift() ?? 'unknown')];
  [east.term, west.term] = [7n, 3n];
  let readings = 0;
  const list = {
    ...READ,
    now: () => Promise.resolve(new Map([[DEFAULT_CELL, 7n] as const, ['west', (readings += 1) === 0 ? 3n : 4n] as const])),
  };
  const options = { cells: () => [east, west], timeoutMs: 1_000, perSecond: 4, now: () => 0 };
  const lookup = new Lookup({ ...options, directory: new Directory(), cellList: () => list });
  t.like(await lookup.endpoint('e', 'caller'), { cell: 'west' });
  t.is(west.asked, 2);
  t.is(readings, 1, 'what is found needs no list');

  // The owner of west shows its new term with its second answer.
  const again = cell('west', 'unknown');
  again.term = 3n;
  const late = new Lookup({
    ...options,
    directory: new Directory(),
    cells: () => [east, again],
    cellList: () => ({
      ...READ,
      now() {
        if (again.asked === 2) again.term = 4n;
        return list.now();
      },
    }),
  });
  t.is(await late.endpoint('e', 'caller'), undefined);
  t.is(again.asked, 3, 'the answer that brought the term may have been given before it');

  again.term = 3n;
  const never = new Lookup({ ...options, timeoutMs: 100, directory: new Directory(), cells: () => [east, again], cellList: () => list });
  await t.throwsAsync(never.endpoint('e', 'caller'), { code: 'UNAVAILABLE' }, 'a cell whose new owner does not show itself');
});

test('what no known cell knows may be of a cell that the list shows', async (t) => {
  const cells = [cell(DEFAULT_CELL, 'unknown'), cell('west', 'unknown')];
  const list = {
    ...READ,
    now() {
      if (cells.length === 2) cells.push(cell('south', endpoint('e', 'acme')));
      return Promise.resolve(new Map([['south', 1n]]));
    },
  };
  const options = { directory: new Directory(), timeoutMs: 1_000, perSecond: 4, now: () => 0 };
  t.like(await new Lookup({ ...options, cells: () => [...cells], cellList: () => list }).endpoint('e', 'caller'), { cell: 'south' });
  const failing = { ...READ, now: () => Promise.reject(new CapstanError('UNAVAILABLE', 'x')) };
  const lookup = new Lookup({ ...options, cells: () => cells.slice(0, 2), cellList: () => failing });
  await t.throwsAsync(lookup.endpoint('other', 'caller'), { code: 'UNAVAILABLE' });
});

test('readings that look-ups wait for are shared, and begin after they were asked for', async (t) => {
  const readings: PromiseWithResolvers<void>[] = [];
  const list = async (): Promise<never> => {
    const reading = Promise.withResolvers<void>();
    readings.push(reading);
    await reading.promise;
    return { cells: [{ name: 'west', ownerId: 'o', term: readings.length }] } as never;
  };
  const cellList = new CellList({ cluster: { list }, log: createLog('silent'), onCells: () => undefined });
  t.teardown(() => cellList.close());
  t.is(readings.length, 1, 'that of the start');
  const [first, second] = [cellList.now(), cellList.now()];
  await until('it is read', () => readings.length === 2);
  const third = cellList.now();
  readings[1]?.resolve();
  t.deepEqual([...(await first)], [['west', 2n]]);
  t.deepEqual(await second, await first);
  await until('it is read', () => readings.length === 3);
  readings[2]?.resolve();
  t.deepEqual([...(await third)], [['west', 3n]]);
  readings[0]?.resolve();
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
    const cellList = new CellList({ cluster: { list }, log, onCells: (owners) => seen.push([...owners.keys()]) });
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
        { name: 'west', ownerId: 'o', term: 1 },
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
