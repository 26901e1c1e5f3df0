/** Reading of the segment that still receives lines: whoever follows a log, or looks for its last lines, reads its end only. */
import { openSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import test, { type ExecutionContext } from 'ava';

import { encodeLine } from '../../agent/logs/line.ts';
import { linesFrom, tailLines } from '../../agent/logs/open-segment.ts';
import { folderOf } from '../support/folder.ts';

const ENDPOINT = 'ep';

function lineAt(us: number, text: string, workerId = 'w'): string {
  const line = { atUs: BigInt(us), atMs: 0n, workerId, releaseId: 'r', jobId: 'j', attempt: 1, stream: 'stdout' as const, level: '' };
  return encodeLine({ ...line, text, fields: '', endpointId: ENDPOINT }).trimEnd();
}

async function segment(t: ExecutionContext, text: string): Promise<() => number> {
  const path = join(await folderOf(t), 'segment.ndjson');
  await writeFile(path, text);
  return () => openSync(path, 'r');
}

const words = ['', 'é'.repeat(40_000), 'x'.repeat(200_000), '😀 line', 'short'];
const mixed = Array.from({ length: 400 }, (_, at) => lineAt(1_000 + at, `${at} ${words[at % 97] ?? 'z'.repeat(at)}`));

for (const [name, tail] of [
  ['that ends with a line end', '\n'],
  ['whose last line has none', ''],
  ['whose last line is truncated', '\n{"t":12'],
] as const)
  test(`a segment ${name} is read alike from both ends`, async (t) => {
    const open = await segment(t, mixed.join('\n') + tail);
    const forward = [...linesFrom(open(), ENDPOINT, 0)].filter((line) => line !== '');
    const backward = [...tailLines(open(), ENDPOINT)].filter((line) => line !== '');
    t.deepEqual(forward, mixed);
    t.deepEqual(backward.toReversed(), mixed);
  });

for (const [name, tail] of [
  ['that ends with a line end', '\n'],
  ['whose last line has none', ''],
] as const)
  test(`a long last line of a segment ${name} is read alike from both ends`, async (t) => {
    // As a worker prints them whose characters are stored as six each.
    for (const length of [60_000, 130_000, 200_000, 400_000]) {
      const lines = [lineAt(1_000, 'before'), lineAt(1_001, 'x'.repeat(length))];
      const open = await segment(t, lines.join('\n') + tail);
      const backward = [...tailLines(open(), ENDPOINT)].filter((line) => line !== '');
      t.is(backward.length, lines.length);
      t.true(backward.toReversed().join('\n') === lines.join('\n'), `${length} characters`);
      const forward = [...linesFrom(open(), ENDPOINT, 0)].filter((line) => line !== '');
      t.true(forward.join('\n') === lines.join('\n'), `${length} characters, forward`);
    }
  });

test('an empty segment has no lines', async (t) => {
  const open = await segment(t, '');
  t.deepEqual([...linesFrom(open(), ENDPOINT, 5)].join(''), '');
  t.deepEqual([...tailLines(open(), ENDPOINT)].join(''), '');
});

test('from a time on, all lines of it and after are read, and few of those before', async (t) => {
  const lines = Array.from({ length: 20_000 }, (_, at) => lineAt(1_000 + Math.floor(at / 4), `line ${at}`, `w${at % 4}`));
  const open = await segment(t, `${lines.join('\n')}\n`);
  for (const at of [0, 1, 9_999, 19_000, 19_996, 19_999]) {
    const us = 1_000 + Math.floor(at / 4);
    const read = [...linesFrom(open(), ENDPOINT, us)];
    const expected = lines.slice(Math.floor(at / 4) * 4);
    t.deepEqual(read.slice(-expected.length), expected, `from ${at}`);
    t.true(read.length <= 2 * expected.length + 1_500, `${read.length} lines are read for ${expected.length}`);
  }
});

test('damaged lines where the beginning is looked for lead to an earlier one', async (t) => {
  const lines = Array.from({ length: 4_000 }, (_, at) =>
    at > 2_500 && at < 3_900 ? `damaged ${at}${'?'.repeat(100)}` : lineAt(1_000 + at, `${at}`),
  );
  const open = await segment(t, `${lines.join('\n')}\n`);
  const read = [...linesFrom(open(), ENDPOINT, 4_900)];
  t.deepEqual(read.slice(-1_500), lines.slice(-1_500));
});
