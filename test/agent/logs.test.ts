/** What workers print: stored in segments, bounded, searched, with the secrets masked. */
import { randomBytes } from 'node:crypto';
import { appendFile, chmod, mkdir, readdir, readFile, stat, unlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import test, { type ExecutionContext } from 'ava';

import type { LogFilter } from '../../agent/logs/filter.ts';
import { parseText } from '../../agent/logs/line.ts';
import { LogStore, type LogStoreOptions, type PrintedLine } from '../../agent/logs/log-store.ts';
import { MASK, MaskBudget, SecretMask, secretsOf, WITHHELD } from '../../agent/logs/secret-mask.ts';
import type { LogLine } from '../../proto/gen/capstan/v1/nodes.ts';
import { folderOf } from '../support/folder.ts';
import { until } from '../support/until.ts';
import { storedLog } from '../support/worker-logs.ts';
import { startWorker } from './fixtures.ts';

const DAY_MS = 86_400_000;
const EVERYTHING: LogFilter = {
  ...{ workerId: '', releaseId: '', jobId: '', stream: '', level: '', contains: '', pattern: '' },
  after: undefined,
  before: undefined,
};

async function storeIn(t: ExecutionContext, options: Partial<LogStoreOptions> = {}): Promise<LogStore> {
  const store = new LogStore({
    folder: options.folder ?? (await folderOf(t)),
    segmentBytes: 100_000,
    endpointBytes: 10_000_000,
    accountBytes: 100_000_000,
    keptMs: 7 * DAY_MS,
    accountOf: () => '',
    log: { warn: (fields: unknown) => t.log(fields) },
    ...options,
  });
  t.teardown(() => store.close());
  return store.open();
}

function printed(text: string, values: Partial<PrintedLine> = {}): PrintedLine {
  return { endpointId: 'ep1', workerId: 'w1', releaseId: 'r1', jobId: '', attempt: 0, stream: 'stdout', text, ...values };
}

async function find(store: LogStore, filter: Partial<LogFilter> = {}, limit = 1_000, oldestFirst = false): Promise<LogLine[]> {
  return (await store.search('ep1', { ...EVERYTHING, ...filter }, { limit, oldestFirst })).lines;
}

const texts = (lines: readonly LogLine[]): string => lines.map(({ text }) => text).join(' ');

test('lines are found by each field, the newest or the oldest ones, in the order of time', async (t) => {
  const store = await storeIn(t);
  store.add(printed('a', { jobId: 'j1', attempt: 1 }));
  store.add(printed('b', { workerId: 'w2', stream: 'stderr' }));
  store.add(printed('ERROR: c', { releaseId: 'r2' }));
  store.add(printed('other', { endpointId: 'ep2' }));
  store.add(printed('DEBUG: d [x]', { jobId: 'j2', attempt: 3 }));
  t.is(texts(await find(store)), 'a b ERROR: c DEBUG: d [x]');
  t.is(texts(await find(store, { workerId: 'w2' })), 'b');
  t.is(texts(await find(store, { jobId: 'j2' })), 'DEBUG: d [x]');
  t.is(texts(await find(store, { releaseId: 'r2' })), 'ERROR: c');
  t.is(texts(await find(store, { stream: 'stderr' })), 'b');
  t.is(texts(await find(store, { level: 'info' })), 'a b ERROR: c', 'a line without a level counts as info');
  t.is(texts(await find(store, { level: 'error' })), 'ERROR: c');
  t.is(texts(await find(store, { contains: '[x]' })), 'DEBUG: d [x]');
  t.is(texts(await find(store, { pattern: '^(a|b)$' })), 'a b');
  t.is(texts(await find(store, {}, 2)), 'ERROR: c DEBUG: d [x]');
  t.is(texts(await find(store, {}, 2, true)), 'a b');
  t.is((await find(store, { jobId: 'j2' }))[0]?.attempt, 3);
  const [first, second] = await find(store);
  const at = ({ atUs, workerId }: LogLine): { us: number; workerId: string } => ({ us: Number(atUs), workerId });
  if (first === undefined || second === undefined) return t.fail();
  t.is(texts(await find(store, { after: at(second) })), 'ERROR: c DEBUG: d [x]');
  t.is(texts(await find(store, { before: at(second) })), 'a');
  await t.throwsAsync(find(store, { pattern: '(' }), { code: 'INVALID_ARGUMENT', message: /^pattern: not a valid RE2 expression/ });
});

test('a pattern that would take ages elsewhere takes linear time', async (t) => {
  const store = await storeIn(t);
  store.add(printed('a'.repeat(16_000)));
  t.is((await find(store, { pattern: '(a+)+$' })).length, 1);
  t.is((await find(store, { pattern: '(a+)+b' })).length, 0);
});

test('closed segments are compressed, searched, and found by the next agent', async (t) => {
  const folder = await folderOf(t);
  let store = await storeIn(t, { folder, segmentBytes: 2_000 });
  for (let index = 0; index < 200; index += 1) {
    store.add(printed(`line ${index}`, { jobId: `job-${index}` }));
    // Lines of one turn are one write: segments are closed between writes.
    if (index % 10 === 9) await find(store, {}, 1);
  }
  await store.close();
  const names = await readdir(join(folder, 'ep1'));
  t.true(names.filter((name) => name.endsWith('.ndjson.zst')).length >= 5, names.join());
  store = await storeIn(t, { folder, segmentBytes: 2_000 });
  t.is(texts(await find(store, { jobId: 'job-7' })), 'line 7');
  t.is(texts(await find(store, {}, 3, true)), 'line 0 line 1 line 2');
  t.is((await find(store)).length, 200);
  store.add(printed('new'));
  t.is(texts(await find(store, {}, 2)), 'line 199 new');
});

test('a crash loses no whole line: a truncated one, a lost index and a draft are no obstacle', async (t) => {
  const folder = await folderOf(t);
  let store = await storeIn(t, { folder, segmentBytes: 1_000 });
  for (let index = 0; index < 60; index += 1) {
    store.add(printed(`line ${index}`));
    if (index % 5 === 4) await find(store, {}, 1);
  }
  await store.close();
  const names = await readdir(join(folder, 'ep1'));
  const index = names.find((name) => name.endsWith('.index'));
  if (index === undefined) return t.fail(names.join());
  await unlink(join(folder, 'ep1', index));
  await writeFile(join(folder, 'ep1', '00000000000000001.ndjson.zst.draft'), 'half');
  await writeFile(join(folder, 'ep1', '00000000000000001.ndjson'), '');
  const open = names.filter((name) => name.endsWith('.ndjson')).at(-1);
  if (open !== undefined) await appendFile(join(folder, 'ep1', open), '{"t":12,"s":"std');
  store = await storeIn(t, { folder });
  t.is((await find(store)).length, 60);
});

test('an endpoint keeps within its bytes, and lines within their days', async (t) => {
  let now = 1_000 * DAY_MS;
  const folder = await folderOf(t);
  const store = await storeIn(t, { folder, segmentBytes: 4_000, endpointBytes: 20_000, keptMs: DAY_MS, now: () => now });
  for (let index = 0; index < 2_000; index += 1) {
    store.add(printed(`${index} ${Math.random()}`.repeat(5)));
    if (index % 20 === 19) await find(store, {}, 1);
  }
  const size = async (): Promise<number> => {
    const names = await readdir(join(folder, 'ep1'));
    const sizes = await Promise.all(
      names.filter((name) => !name.endsWith('.index')).map(async (name) => (await stat(join(folder, 'ep1', name))).size),
    );
    return sizes.reduce((sum, each) => sum + each, 0);
  };
  await until('the oldest segments are removed', async () => ((await size()) <= 24_000 ? true : null));
  t.regex((await find(store, {}, 1))[0]?.text ?? '', /^1999 /);
  now += 3 * DAY_MS;
  await store.close();
  const later = await storeIn(t, { folder, keptMs: DAY_MS, now: () => now });
  t.deepEqual(await find(later), []);
});

test('the endpoints of an account share its bytes; those of others are untouched, also after a new start', async (t) => {
  const folder = await folderOf(t);
  const options = {
    folder,
    segmentBytes: 1_000,
    accountBytes: 12_000,
    accountOf: (id: string) => (id.startsWith('theirs') ? 'theirs' : 'mine'),
  };
  const store = await storeIn(t, options);
  const fill = async (endpointId: string): Promise<void> => {
    for (let index = 0; index < 20; index += 1) store.add(printed(`${Math.random()}`.repeat(4), { endpointId }));
    await store.search(endpointId, EVERYTHING, { limit: 1, oldestFirst: false });
  };
  await fill('theirs-1');
  const before = store.bytesOf('theirs');
  t.true(before > 1_000);
  for (let endpoint = 0; endpoint < 12; endpoint += 1) await fill(`mine-${endpoint}`);
  await until('the oldest went', () => (store.bytesOf('mine') <= 12_000 ? true : null));
  t.is(store.bytesOf('theirs'), before);
  await store.close();
  const again = await storeIn(t, options);
  t.true(again.bytesOf('mine') > 0 && again.bytesOf('mine') <= 12_000);
  t.true(again.bytesOf('theirs') > 0);
});

test('endpoint ids never leave the folder, and control characters never reach a terminal', async (t) => {
  const folder = await folderOf(t);
  const store = await storeIn(t, { folder });
  store.add(printed('\u001b[31mred\u202e', { endpointId: '../../evil' }));
  await store.close();
  t.deepEqual(await readdir(folder), ['______evil']);
  const text = await storedLog(folder, '______evil');
  t.false(text.includes('\u001b') || text.includes('\u202e'));
  t.is((JSON.parse(text) as { m: string }).m, '\u001b[31mred\u202e', 'the value is whole');
});

test('lines that cannot be written are searched all the same, and written later', async (t) => {
  const folder = await folderOf(t);
  const store = await storeIn(t, { folder });
  // A file in the place of the folder: works for root, too.
  await writeFile(join(folder, 'ep1'), '');
  store.add(printed('kept'));
  t.is(texts(await find(store)), 'kept');
  await unlink(join(folder, 'ep1'));
  await until('the line is on disk', async () => ((await storedLog(folder, 'ep1')).includes('kept') ? true : null));
  t.is(texts(await find(store)), 'kept', 'once');
});

test('a clock that is set back mixes no lines up', async (t) => {
  let now = 1_000_000_000_000;
  const store = await storeIn(t, { now: () => now });
  store.add(printed('late'));
  await find(store);
  now -= 3_600_000;
  store.add(printed('early'));
  t.is(texts(await find(store)), 'early late');
});

test('a level and fields are read from JSON lines and from common prefixes', (t) => {
  const of = (text: string): unknown[] => {
    const { level, text: shown, fields } = parseText(text);
    return [level, shown, fields];
  };
  t.deepEqual(of('{"level":"warning","msg":"slow","ms":12}'), ['warn', 'slow', '{"level":"warning","ms":12}']);
  t.deepEqual(of('{"level":50,"time":1,"msg":"broke"}'), ['error', 'broke', '{"level":50,"time":1}']);
  t.deepEqual(of('{"severity":"CRITICAL"}'), ['fatal', '{"severity":"CRITICAL"}', '']);
  t.deepEqual(of('{"not json'), ['', '{"not json', '']);
  t.deepEqual(of('[1,2]'), ['', '[1,2]', '']);
  t.is(of('ERROR:root:it broke')[0], 'error');
  t.is(of('2026-11-23 10:00:00,123 - app - WARNING - slow')[0], 'warn');
  t.is(of('[info] ready')[0], 'info');
  t.is(of('INFO:     127.0.0.1:1 - "GET / HTTP/1.1" 200 OK')[0], 'info');
  t.is(of('an error in the middle')[0], '');
  t.is(of('Information is not a level')[0], '');
});

test('secrets of the environment are masked: whole, by lines, in JSON, and cut between two pieces', (t) => {
  const env = {
    API_KEY: 'sk-0123456789',
    PASSWORD: 'a"b\\cdefgh',
    PRIVATE_KEY: '-----BEGIN-----\nMIIEvQIBADANBg\n-----END-----',
    OPAQUE: 'zX81kq0Lm3Vt9Qe7',
    MODEL: 'meta-llama/Llama-3-8B',
    MODE: 'production',
    PIN_TOKEN: '1234',
  };
  t.deepEqual(secretsOf({ MODE: 'production', MODEL: 'meta-llama/Llama-3-8B', PIN_TOKEN: '1234' }), []);
  const mask = new SecretMask(env);
  t.is(mask.apply('key=sk-0123456789;sk-0123456789'), `key=${MASK};${MASK}`);
  t.is(mask.apply(JSON.stringify({ p: env.PASSWORD })), `{"p":"${MASK}"}`);
  t.is(mask.apply('MIIEvQIBADANBg'), MASK);
  t.is(mask.apply('zX81kq0Lm3Vt9Qe7 production meta-llama/Llama-3-8B 1234'), `${MASK} production meta-llama/Llama-3-8B 1234`);
  const first = mask.apply(`${'x'.repeat(16_384)}sk-01234`);
  const second = mask.apply('56789 and on');
  t.false(`${first}${second}`.includes('sk-01234'));
  t.is(second, `${MASK} and on`);
});

test('addresses and paths are no secrets by themselves, long values are masked in pieces', (t) => {
  t.deepEqual(
    secretsOf({ CAPSTAN_URL: 'http://127.0.0.1:8080', SSL_CERT_FILE: '/etc/ssl/certs/ca.pem', API_KEY_PATH: '/run/keys/api-key-1' }),
    [],
  );
  const env = {
    DATABASE_URL: 'postgres://user:s3cret@db/app',
    HOOK: 'https://example.com/hook?sig=abcdef',
    LONG_KEY: randomBytes(1_501).toString('hex'),
  };
  const mask = new SecretMask(env);
  t.is(mask.apply(`to ${env.DATABASE_URL} and ${env.HOOK}`), `to ${MASK} and ${MASK}`);
  t.regex(mask.apply(`long: ${env.LONG_KEY}.`), /^long: (\[masked\])+\.$/);
});

test('a search for secrets that takes too long withholds the line instead of the agent', (t) => {
  let now = 0;
  const env = Object.fromEntries(Array.from({ length: 40 }, (_, at) => [`KEY_${at}`, `secret-number-${at}`]));
  const mask = new SecretMask(env, new MaskBudget(() => (now += 30)));
  t.is(mask.apply('secret-number-1'), WITHHELD);
  now += 2_000;
  const quick = new SecretMask(env, new MaskBudget(() => now));
  t.is(quick.apply('secret-number-1 x'), `${MASK} x`);
});

test('a reply is bounded by its size, and a search goes on behind it', async (t) => {
  const store = await storeIn(t, { segmentBytes: 100_000_000, endpointBytes: 1_000_000_000, accountBytes: 1_000_000_000 });
  for (let index = 0; index < 300; index += 1) store.add(printed(`${index} ${'x'.repeat(16_000)}`));
  const first = await store.search('ep1', EVERYTHING, { limit: 1_000, oldestFirst: true });
  t.true(first.lines.length > 50 && first.lines.length < 130, String(first.lines.length));
  t.is(Number(first.lines.at(-1)?.atUs) < (first.stoppedAtUs ?? 0), true);
  const rest = await store.search(
    'ep1',
    { ...EVERYTHING, after: { us: (first.stoppedAtUs ?? 0) - 1, workerId: '~' } },
    { limit: 1, oldestFirst: true },
  );
  t.is(rest.lines[0]?.text.split(' ')[0], String(first.lines.length));
});

test('a pattern that compiles to a large program is refused', async (t) => {
  const store = await storeIn(t);
  await t.throwsAsync(find(store, { pattern: '[a-d]{1000}'.repeat(9) }), {
    code: 'INVALID_ARGUMENT',
    message: /^pattern: has too many repetitions/,
  });
});

test('what a handler prints is answered with its job, attempt and release, secrets masked, also over the session', async (t) => {
  const source = `export function talk(text) {
    console.log(text); console.error("!", text); process.stdout.write("s3cret-"); process.stdout.write("value\\n");
    process.stdout.write("no end"); return 1;
  }`;
  const { scheduler } = await startWorker(t, source, 'talk', { env: { API_TOKEN: 's3cret-value' } });
  scheduler.dispatch({ jobId: 'j1' }, { text: 'hello' });
  await scheduler.ended('j1');
  scheduler.send({ $case: 'logs', value: { requestId: 9, endpointId: 'ep1', workerId: 'w1', limit: 50, afterMs: 0n } });
  const { lines } = await scheduler.hear('logs', ({ requestId }) => requestId === 9);
  t.deepEqual(
    lines.map(({ jobId, attempt, stream, text, workerId, endpointId }) => [jobId, attempt, stream, text, workerId, endpointId]),
    [
      ['j1', 1, 'stdout', 'hello', 'w1', 'ep1'],
      ['j1', 1, 'stderr', '! hello', 'w1', 'ep1'],
      ['j1', 1, 'stdout', MASK, 'w1', 'ep1'],
      ['j1', 1, 'stdout', 'no end', 'w1', 'ep1'],
    ],
  );
  t.true(lines.every(({ releaseId }) => releaseId !== ''));
});

test('a folder of logs that cannot be read is reported, and does not keep the agent from starting', async (t) => {
  const folder = await folderOf(t);
  await mkdir(join(folder, 'ep1'));
  await writeFile(join(folder, 'ep1', '00000000000000001.ndjson.zst'), 'no archive');
  await chmod(join(folder, 'ep1'), 0o700);
  const warned: unknown[] = [];
  const store = await storeIn(t, { folder, log: { warn: (fields: unknown) => warned.push(fields) } as LogStoreOptions['log'] });
  store.add(printed('works'));
  t.is(texts(await find(store)), 'works');
  t.true(warned.length > 0);
  t.is(await readFile(join(folder, 'ep1', '00000000000000001.ndjson.zst.damaged'), 'utf8'), 'no archive');
});
