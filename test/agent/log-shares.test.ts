/** Searches of several accounts on one node: each has its share of the log thread. */
import test, { type ExecutionContext } from 'ava';

import type { LogFilter } from '../../agent/logs/filter.ts';
import { LogStore, type PrintedLine } from '../../agent/logs/log-store.ts';
import { folderOf } from '../support/folder.ts';

const EVERYTHING: LogFilter = {
  ...{ workerId: '', releaseId: '', jobId: '', stream: '', level: '', contains: '', pattern: '' },
  after: undefined,
  before: undefined,
};
const NEWEST = { limit: 10, oldestFirst: false };

/** Endpoints are named `<account>-<n>`. */
async function storeIn(t: ExecutionContext): Promise<LogStore> {
  const store = new LogStore({
    folder: await folderOf(t),
    segmentBytes: 4_000_000,
    endpointBytes: 100_000_000,
    accountBytes: 100_000_000,
    keptMs: 86_400_000,
    accountOf: (endpoint) => endpoint.split('-')[0] ?? '',
    log: { warn: (fields: unknown) => t.log(fields) },
  });
  t.teardown(() => store.close());
  return store.open();
}

function print(store: LogStore, endpointId: string, lines: number): void {
  const printed: PrintedLine = { endpointId, workerId: 'w1', releaseId: 'r1', jobId: '', attempt: 0, stream: 'stdout', text: '' };
  for (let n = 0; n < lines; n += 1) store.add({ ...printed, text: `line ${n} ${'x'.repeat(60)}` });
}

test('an account that searches in a loop delays no other one by more than a slice', async (t) => {
  const store = await storeIn(t);
  print(store, 'attacker-1', 60_000);
  print(store, 'victim-1', 5);
  await store.search('attacker-1', EVERYTHING, NEWEST);
  const ended: string[] = [];
  const search = async (name: string, endpoint: string, filter: Partial<LogFilter>): Promise<number> => {
    const { lines } = await store.search(endpoint, { ...EVERYTHING, ...filter }, NEWEST);
    ended.push(name);
    return lines.length;
  };
  const floods = Array.from({ length: 12 }, (_, n) => search(`attacker ${n}`, 'attacker-1', { pattern: 'nowhere$' }));
  t.is(await search('victim', 'victim-1', {}), 5);
  t.deepEqual(ended, ['victim'], 'no search of the attacker, which began earlier, has ended');
  t.deepEqual(new Set(await Promise.all(floods)), new Set([0]));
  t.deepEqual(
    ended.slice(1),
    Array.from({ length: 12 }, (_, n) => `attacker ${n}`),
  );
});

test('a search that was paused finds what one without a pause finds', async (t) => {
  const store = await storeIn(t);
  print(store, 'a-1', 40_000);
  print(store, 'b-1', 40_000);
  const options = { limit: 3, oldestFirst: true };
  const [a, b] = await Promise.all(
    ['a-1', 'b-1'].map((endpoint) => store.search(endpoint, { ...EVERYTHING, pattern: '^line (10000|39999) ' }, options)),
  );
  for (const found of [a, b]) {
    t.deepEqual(
      found?.lines.map(({ text }) => text.split(' ', 2).join(' ')),
      ['line 10000', 'line 39999'],
    );
    t.is(found?.stoppedAtUs, undefined);
  }
});

test('searches of an account that are too many are refused, and those of others are not', async (t) => {
  const store = await storeIn(t);
  print(store, 'attacker-1', 20_000);
  print(store, 'victim-1', 1);
  await store.search('attacker-1', EVERYTHING, NEWEST);
  const outcomes = Promise.allSettled(
    Array.from({ length: 40 }, () => store.search('attacker-1', { ...EVERYTHING, pattern: 'nowhere$' }, NEWEST)),
  );
  t.is((await store.search('victim-1', EVERYTHING, NEWEST)).lines.length, 1);
  const refused = (await outcomes).filter(({ status }) => status === 'rejected');
  t.true(refused.length >= 7 && refused.length < 12, `${refused.length} of 40`);
  await t.throwsAsync(store.search('attacker-1', { ...EVERYTHING, pattern: '(' }, NEWEST), { code: 'INVALID_ARGUMENT' });
});
