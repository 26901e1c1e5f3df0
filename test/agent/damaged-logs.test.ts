/** Damage to stored lines: what is damaged is left out and named, all the rest is returned, and no line is ever returned changed. */
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import test from 'ava';
import fc from 'fast-check';

import type { LogFilter } from '../../agent/logs/filter.ts';
import { encodeLine } from '../../agent/logs/line.ts';
import { LogStore } from '../../agent/logs/log-store.ts';
import { sealSegment } from '../../agent/logs/seal.ts';
import { searchInSlices, type SearchResult, type SegmentFile } from '../../agent/logs/search.ts';
import { encodeIndex, parseIndex } from '../../agent/logs/segment-index.ts';
import type { LogLine } from '../../proto/gen/capstan/v1/nodes.ts';
import { flip } from '../conformance/store/killed-store.ts';
import { folderOf } from '../support/folder.ts';
import { ownFolder } from '../support/own-folder.ts';

const SEGMENTS = 4;
const LINES = 60;
const RUNS = 150;
const FIRST_US = 1_700_000_000_000_000;
const EVERYTHING: LogFilter = {
  ...{ workerId: '', releaseId: '', jobId: '', stream: '', level: '', contains: '', pattern: '' },
  after: undefined,
  before: undefined,
};

function lineAt(i: number): LogLine {
  const us = FIRST_US + i * 1_000;
  return {
    ...{ atUs: BigInt(us), atMs: BigInt(Math.trunc(us / 1_000)), workerId: `w${i % 3}`, releaseId: 'r', jobId: `job-${i}`, attempt: 1 },
    ...{ stream: 'stdout', level: 'info', text: `line ${i} café \u001b[1m`, fields: '', endpointId: 'ep1' },
  };
}

interface Stored {
  readonly folder: string;
  /** Oldest first; the last one is open. */
  readonly segments: readonly SegmentFile[];
  readonly bytes: readonly Buffer[];
}

let root: string;
let stored: Stored;
test.before(async () => {
  root = await ownFolder('capstan-test');
  stored = await store(root);
});
test.after.always(() => rm(root, { recursive: true, force: true }));

async function store(folder: string): Promise<Stored> {
  const segments: SegmentFile[] = [];
  for (let i = 0; i < SEGMENTS; i++) {
    const path = join(folder, `0${FIRST_US + i * LINES * 1_000}.ndjson`);
    await writeFile(path, Array.from({ length: LINES }, (_, n) => encodeLine(lineAt(i * LINES + n))).join(''));
    const sealed = i < SEGMENTS - 1 ? await sealSegment(path, 'ep1') : undefined;
    segments.push(sealed === undefined ? { path, index: undefined } : { path: `${path}.zst`, index: sealed.index });
  }
  return { folder, segments, bytes: await Promise.all(segments.map(({ path }) => readFile(path))) };
}

interface Wanted {
  readonly filter?: Partial<LogFilter>;
  readonly limit?: number;
  readonly oldestFirst?: boolean;
}

function search(segments: readonly SegmentFile[], { filter = {}, limit = 10_000, oldestFirst = false }: Wanted = {}): SearchResult {
  const budget = { ms: 60_000, bytes: 1_000_000_000 };
  const task = { endpointId: 'ep1', segments, unwritten: '', filter: { ...EVERYTHING, ...filter }, limit, oldestFirst, budget };
  const running = searchInSlices(task, 60_000);
  for (;;) {
    const next = running.next();
    if (next.done === true) return next.value;
  }
}

const isNotice = ({ stream }: LogLine): boolean => stream === 'system';
const shown = (lines: readonly LogLine[]): string[] => lines.filter((line) => !isNotice(line)).map(({ atUs, text }) => `${atUs} ${text}`);
const expected = (numbers: readonly number[]): string[] => numbers.map((i) => `${lineAt(i).atUs} ${lineAt(i).text}`);
const all = Array.from({ length: SEGMENTS * LINES }, (_, i) => i);
const without = (segment: number): number[] => all.filter((i) => Math.floor(i / LINES) !== segment);

/** Searches with one segment replaced by other bytes. */
async function withDamage<T>(segment: number, bytes: Buffer, use: (segments: readonly SegmentFile[], name: string) => T): Promise<T> {
  const own = await mkdtemp(join(root, 'case-'));
  try {
    const name = stored.segments[segment]?.path.split('/').at(-1) ?? '';
    const path = join(own, name);
    await writeFile(path, bytes);
    return use(
      stored.segments.map((each, i) => (i === segment ? { ...each, path } : each)),
      name,
    );
  } finally {
    await rm(own, { recursive: true });
  }
}

test('without damage every line is returned as it was printed', (t) => {
  for (const oldestFirst of [false, true]) {
    const { lines, damaged } = search(stored.segments, { oldestFirst });
    t.deepEqual(shown(lines), expected(all));
    t.deepEqual(damaged, []);
  }
});

test('one flipped bit anywhere in a sealed segment leaves that segment out and names it', async (t) => {
  await fc.assert(
    fc.asyncProperty(
      fc.nat({ max: SEGMENTS - 2 }),
      fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
      fc.boolean(),
      async (segment, at, oldestFirst) => {
        const bytes = stored.bytes[segment] ?? Buffer.alloc(0);
        await withDamage(segment, flip(bytes, Math.floor(at * bytes.length * 8)), (segments, name) => {
          const { lines, damaged } = search(segments, { oldestFirst });
          // A few bits of the format mean nothing.
          if (damaged.length === 0) {
            t.deepEqual(shown(lines), expected(all));
            return;
          }
          t.deepEqual(shown(lines), expected(without(segment)));
          t.deepEqual(
            damaged.map(({ path }) => path.split('/').at(-1)),
            [name],
          );
          const notices = lines.filter(isNotice).map(({ text }) => text);
          t.is(notices.length, 1);
          t.true(notices[0]?.includes(`${LINES} lines from `) === true && notices[0].includes(name), notices[0]);
        });
      },
    ),
    { numRuns: RUNS },
  );
});

test('one flipped bit anywhere in the open segment leaves its line out, and changes none', async (t) => {
  const open = SEGMENTS - 1;
  const bytes = stored.bytes[open] ?? Buffer.alloc(0);
  await fc.assert(
    fc.asyncProperty(fc.nat({ max: bytes.length * 8 - 1 }), fc.boolean(), async (bit, oldestFirst) => {
      await withDamage(open, flip(bytes, bit), (segments, name) => {
        const { lines, damaged } = search(segments, { oldestFirst });
        const found = shown(lines);
        t.true(found.every((line) => expected(all).includes(line)));
        t.true(found.length >= all.length - 2, `${found.length}`);
        // The end of the last line is like one that a crash has cut off.
        if (found.length === all.length || bit >> 3 === bytes.length - 1) return;
        if (bit < (bytes.length - 200) * 8) {
          t.deepEqual(
            damaged.map(({ path }) => path.split('/').at(-1)),
            [name],
          );
          t.true(lines.some((line) => isNotice(line) && line.text.includes(name)));
        }
      });
    }),
    { numRuns: RUNS },
  );
});

test('a damaged line stays known as damaged when its segment is sealed', async (t) => {
  const open = SEGMENTS - 1;
  const bytes = stored.bytes[open] ?? Buffer.alloc(0);
  const own = await folderOf(t);
  const path = join(own, `0${FIRST_US}.ndjson`);
  await writeFile(path, flip(bytes, (bytes.indexOf('line 200') + 6) * 8));
  const sealed = await sealSegment(path, 'ep1');
  t.is(sealed?.index.lines, LINES - 1);
  const { lines, damaged } = search([{ path: `${path}.zst`, index: sealed?.index }]);
  t.is(shown(lines).length, LINES - 1);
  t.false(shown(lines).some((line) => line.includes('line 200')));
  t.is(damaged.length, 1);
});

test('pages go on behind a damaged segment, in both directions, and name it once', async (t) => {
  const bytes = stored.bytes[1] ?? Buffer.alloc(0);
  await withDamage(1, flip(bytes, bytes.length * 4), (segments) => {
    for (const oldestFirst of [false, true]) {
      const pages: LogLine[] = [];
      let filter: Partial<LogFilter> = {};
      for (let page = 0; page < 100; page++) {
        const { lines } = search(segments, { filter, limit: 7, oldestFirst });
        if (lines.length === 0) break;
        pages.push(...(oldestFirst ? lines : lines.toReversed()));
        const last = pages.at(-1);
        const position = { us: Number(last?.atUs), workerId: last?.workerId ?? '' };
        filter = oldestFirst ? { after: position } : { before: position };
      }
      t.is(pages.filter(isNotice).length, 1);
      t.deepEqual(shown(oldestFirst ? pages : pages.toReversed()), expected(without(1)));
    }
  });
});

test('a search that a damaged segment cannot answer does not mention it', async (t) => {
  const bytes = stored.bytes[1] ?? Buffer.alloc(0);
  await withDamage(1, flip(bytes, bytes.length * 4), (segments) => {
    t.is(search(segments, { filter: { jobId: `job-${LINES + 5}` } }).lines.filter(isNotice).length, 1);
    const later = { after: { us: FIRST_US + 2 * LINES * 1_000, workerId: '' } };
    t.deepEqual(search(segments, { filter: later }).damaged, []);
  });
});

test('an index with a flipped bit is not believed', (t) => {
  const index = stored.segments[0]?.index;
  if (index === undefined) throw new Error('no index');
  const text = Buffer.from(encodeIndex(index));
  t.deepEqual(parseIndex(text.toString()), index);
  for (let bit = 0; bit < text.length * 8; bit++) t.is(parseIndex(flip(text, bit).toString('latin1')), undefined, `bit ${bit}`);
  t.deepEqual(parseIndex(JSON.stringify(index)), index, 'of an earlier version');
});

test('a store over damaged files answers with the rest, and logs each damaged file once', async (t) => {
  const folder = await folderOf(t);
  const warned: { file?: string }[] = [];
  const open = async (): Promise<LogStore> => {
    const bounds = { segmentBytes: 20_000, endpointBytes: 10_000_000, accountBytes: 100_000_000, keptMs: 86_400_000 };
    const logs = new LogStore({
      folder,
      ...bounds,
      accountOf: () => '',
      log: { warn: (fields: { file?: string }) => void warned.push(fields) } as never,
    });
    return logs.open();
  };
  const first = await open();
  for (let i = 0; i < 2_000; i++) {
    first.add({
      endpointId: 'ep1',
      workerId: 'w',
      releaseId: 'r',
      jobId: '',
      attempt: 0,
      stream: 'stdout',
      text: `n ${i} ${'x'.repeat(500)}`,
    });
    // What is written at once is in one segment.
    if (i % 200 === 0) await first.search('ep1', EVERYTHING, { limit: 1, oldestFirst: false });
  }
  await first.close();
  const names = (await readdir(join(folder, 'ep1'))).filter((name) => name.endsWith('.zst')).toSorted();
  t.true(names.length > 2);
  const path = join(folder, 'ep1', names[1] ?? '');
  const bytes = await readFile(path);
  await writeFile(path, flip(bytes, bytes.length * 4));
  const second = await open();
  for (let i = 0; i < 3; i++) {
    const { lines } = await second.search('ep1', EVERYTHING, { limit: 10_000, oldestFirst: false });
    t.true(lines.some((line) => line.text.startsWith('n 0 ')) && lines.some((line) => line.text.startsWith('n 1999 ')));
    t.is(lines.filter(isNotice).length, 1);
  }
  await second.close();
  t.deepEqual(
    warned.map(({ file }) => file),
    [path],
  );
});
