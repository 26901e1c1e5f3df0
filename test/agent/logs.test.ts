/** What workers print: the last lines on request, all of it in rotated files. */
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';

import test from 'ava';
import { pino } from 'pino';

import { KEPT_LINES, LogStore } from '../../agent/logs/log-store.ts';
import type { LogLine } from '../../proto/gen/capstan/v1/nodes.ts';
import { startWorker } from './fixtures.ts';
import { folderOf } from '../support/folder.ts';

const silent = pino({ level: 'silent' });

function line(values: Partial<LogLine>): LogLine {
  return { atMs: 1n, workerId: 'w1', jobId: '', stream: 'stdout', text: 'text', endpointId: 'ep1', ...values };
}

test('lines are found by endpoint, worker and time, the last ones first to stay', async (t) => {
  const store = new LogStore(await folderOf(t), 1_000_000, silent);
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
  const store = new LogStore(await folderOf(t), 100_000_000, silent);
  for (let index = 0; index < KEPT_LINES * 3; index += 1) store.add(line({ text: String(index) }));
  const found = store.find({ endpointId: 'ep1', workerId: '', limit: 1_000, afterMs: 0n });
  t.is(found.length, 1_000);
  t.is(found.at(-1)?.text, String(KEPT_LINES * 3 - 1));
  await store.close();
});

test('files are rotated and never leave their folder', async (t) => {
  const folder = await folderOf(t);
  const store = new LogStore(folder, 1_000, silent);
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
