/** What workers print: the last lines on request, all of it in rotated files. */
import { readdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';

import test from 'ava';
import { pino } from 'pino';

import { LogFiles } from '../../agent/logs/log-files.ts';
import { KEPT_IN_ALL, KEPT_LINES, LogStore } from '../../agent/logs/log-store.ts';
import type { LogLine } from '../../proto/gen/capstan/v1/nodes.ts';
import { startWorker } from './fixtures.ts';
import { folderOf } from '../support/folder.ts';

const silent = pino({ level: 'silent' });

function line(values: Partial<LogLine>): LogLine {
  return { atMs: 1n, workerId: 'w1', jobId: '', stream: 'stdout', text: 'text', endpointId: 'ep1', ...values };
}

test('lines are found by endpoint, worker and time, the last ones first to stay', async (t) => {
  const store = new LogStore(new LogFiles(await folderOf(t), 1_000_000), silent);
  store.add(line({ atMs: 1n, text: 'a' }));
  store.add(line({ atMs: 2n, text: 'b', workerId: 'w2' }));
  store.add(line({ atMs: 3n, text: 'c', endpointId: 'ep2' }));
  const all = { endpointId: '', workerId: '', limit: 10, afterMs: 0n };
  const texts = (request: Partial<typeof all>): string =>
    store
      .find({ ...all, ...request })
      .map(({ text }) => text)
      .join('');
  t.is(texts({}), 'abc');
  t.is(texts({ endpointId: 'ep1' }), 'ab');
  t.is(texts({ workerId: 'w2' }), 'b');
  t.is(texts({ afterMs: 1n }), 'bc');
  t.is(texts({ limit: 1 }), 'c');
  t.is(texts({ endpointId: 'ep9' }), '');
  await store.close();
});

test('memory keeps a bounded number of lines', async (t) => {
  const store = new LogStore(new LogFiles(await folderOf(t), 100_000_000), silent);
  for (let index = 0; index < KEPT_LINES * 3; index += 1) store.add(line({ text: String(index) }));
  const found = store.find({ endpointId: 'ep1', workerId: '', limit: 1_000, afterMs: 0n });
  t.is(found.length, 1_000);
  t.is(found.at(-1)?.text, String(KEPT_LINES * 3 - 1));
  await store.close();
});

test('memory is bounded over all endpoints: those that printed longest ago are forgotten first', async (t) => {
  const store = new LogStore(new LogFiles(await folderOf(t), 1_000), silent);
  const text = 'x'.repeat(900_000);
  const endpoints = Math.ceil(KEPT_IN_ALL / 900_000) + 5;
  store.add(line({ endpointId: 'first', text }));
  for (let index = 0; index < endpoints; index += 1) {
    store.add(line({ endpointId: `ep${index}`, text }));
    if (index < endpoints - 3) store.add(line({ endpointId: 'busy' }));
  }
  const found = (endpointId: string): number => store.find({ endpointId, workerId: '', limit: 1, afterMs: 0n }).length;
  t.deepEqual([found('first'), found('ep0'), found('busy'), found(`ep${endpoints - 1}`)], [0, 0, 1, 1]);
  await store.close();
});

test('files are rotated and never leave their folder', async (t) => {
  const folder = await folderOf(t);
  const store = new LogStore(new LogFiles(folder, 1_000), silent);
  for (let round = 0; round < 5; round += 1) {
    for (let index = 0; index < 10; index += 1) store.add(line({ text: `round ${round}` }));
    await store.close();
  }
  t.deepEqual((await readdir(folder)).sort(), ['ep1.log', 'ep1.log.1']);
  t.regex(await readFile(join(folder, 'ep1.log'), 'utf8'), /^1970-01-01T00:00:00\.001Z w1 stdout - round 4$/m);
  store.add(line({ endpointId: '../../evil' }));
  await store.close();
  t.true((await readdir(folder)).includes('______evil.log'));
});

test('the files of an account stay within its quota, those of others untouched, also after a new start', async (t) => {
  const folder = await folderOf(t);
  const accountOf = (endpoint: string): string => (endpoint.startsWith('theirs') ? 'theirs' : 'mine');
  const quota = { accountBytes: 5_000, accountOf };
  const text = (mark: string): string => `${mark.repeat(99)}\n`;
  const sizes = async (mark: string): Promise<number> => {
    const names = (await readdir(folder)).filter((name) => name.startsWith(mark));
    return (await Promise.all(names.map(async (name) => (await stat(join(folder, name))).size))).reduce((sum, size) => sum + size, 0);
  };
  let files = new LogFiles(folder, 1_000, quota);
  await files.append('theirs', text('t').repeat(8));
  for (let endpoint = 0; endpoint < 10; endpoint += 1) await files.append(`mine-${endpoint}`, text('m').repeat(8));
  t.is(await sizes('theirs'), 800);
  t.is(await sizes('mine'), 4_800);
  t.is(files.bytesOf('mine'), 4_800);
  t.deepEqual(
    (await readdir(folder)).toSorted(),
    ['accounts.json', ...[4, 5, 6, 7, 8, 9].map((n) => `mine-${n}.log`), 'theirs.log'],
    'the oldest went',
  );

  files = new LogFiles(folder, 1_000, quota);
  await files.append('mine-9', text('m').repeat(8));
  t.is(await sizes('mine'), 4_800);
  t.is(files.bytesOf('mine'), 4_800);
  t.is(files.bytesOf('theirs'), 800);
  t.true((await readdir(folder)).includes('mine-9.log.1'));
});

test('text longer than a file is cut to what two files hold, by bytes and at lines', async (t) => {
  const folder = await folderOf(t);
  const files = new LogFiles(folder, 1_000);
  await files.append('ep', Array.from({ length: 100 }, (_, i) => `${i} ${'ü'.repeat(45)}\n`).join(''));
  const [last, before] = await Promise.all(['ep.log', 'ep.log.1'].map((name) => readFile(join(folder, name))));
  t.true((last?.length ?? 0) <= 1_000 && (before?.length ?? 0) <= 1_000);
  t.true(last?.toString().endsWith(`99 ${'ü'.repeat(45)}\n`));
  t.true(before?.toString().endsWith('\n'));
});

test('what a handler prints is answered with its job, also over the session', async (t) => {
  const source =
    'export function talk(text: string) { console.log(text); console.error("!", text); process.stdout.write("no end"); return 1; }';
  const { scheduler } = await startWorker(t, source, 'talk');
  scheduler.dispatch({ jobId: 'j1' }, { text: 'hello' });
  await scheduler.ended('j1');
  scheduler.send({ $case: 'logs', value: { requestId: 9, endpointId: 'ep1', workerId: 'w1', limit: 50, afterMs: 0n } });
  const { lines } = await scheduler.hear('logs', ({ requestId }) => requestId === 9);
  t.deepEqual(
    lines.map(({ jobId, stream, text, workerId, endpointId }) => [jobId, stream, text, workerId, endpointId]),
    [
      ['j1', 'stdout', 'hello', 'w1', 'ep1'],
      ['j1', 'stderr', '! hello', 'w1', 'ep1'],
      ['j1', 'stdout', 'no end', 'w1', 'ep1'],
    ],
  );
});

test('memory keeps a bounded number of endpoints, those that printed last', async (t) => {
  const store = new LogStore(new LogFiles(await folderOf(t), 100_000), silent);
  const has = (endpointId: string): boolean => store.find({ endpointId, workerId: '', limit: 1, afterMs: 0n }).length === 1;
  store.add(line({ endpointId: 'busy' }));
  for (let index = 0; index < 1_100; index += 1) {
    store.add(line({ endpointId: `ep${index}` }));
    store.add(line({ endpointId: 'busy' }));
    if (index % 50 === 0) await store.close();
  }
  await store.close();
  for (let index = 0; index < 200; index += 1) store.add(line({ endpointId: 'busy' }));
  t.true(has('busy'));
  t.true(has('ep1099'));
  t.false(has('ep0'));
  t.false(has('ep99'));
  await store.close();
});
