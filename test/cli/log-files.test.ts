/** Log files stay small; log lines become words for people. */
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';

import test from 'ava';

import { openLogFile } from '../../supervisor/log-file.ts';
import { readNotice, splitLines } from '../../supervisor/log-line.ts';
import { folderOf } from '../support/folder.ts';
import { smallDisk, whyNoSmallDisk } from '../support/small-disk.ts';

test('a full file is rotated, and only so many are kept', async (t) => {
  const folder = await folderOf(t);
  const path = join(folder, 'part.log');
  const log = openLogFile(path, 10, 2);
  for (const line of ['one\n', 'two\n', 'three\n', 'four\n', 'five\n', 'six\n', 'seven\n', 'eight\n']) log.write(line);
  log.close();
  t.deepEqual((await readdir(folder)).sort(), ['part.log', 'part.log.1', 'part.log.2']);
  t.is(await readFile(path, 'utf8'), 'eight\n');
  t.is(await readFile(`${path}.1`, 'utf8'), 'six\nseven\n');
  t.is(await readFile(`${path}.2`, 'utf8'), 'four\nfive\n');
});

test('a later start goes on with the file, and counts what is in it', async (t) => {
  const folder = await folderOf(t);
  const path = join(folder, 'part.log');
  for (const line of ['12345\n', '67890\n']) {
    const log = openLogFile(path, 10);
    log.write(line);
    log.close();
  }
  t.is(await readFile(path, 'utf8'), '67890\n');
  t.is(await readFile(`${path}.1`, 'utf8'), '12345\n');
});

test('what a part prints is cut into lines, also where a character lies across two pieces', (t) => {
  const lines: string[] = [];
  const cutter = splitLines((line) => lines.push(line), 8);
  const bytes = Buffer.from('ein Wört\n\nzwei 😀\nvery long line\nend');
  for (const byte of bytes) cutter.push(Buffer.from([byte]));
  cutter.end();
  t.deepEqual(lines, ['ein Wört', '', 'zwei 😀', 'very long', ' line', 'end']);
});

const notices: [string, ReturnType<typeof readNotice>][] = [
  ['{"level":30,"msg":"serves"}', null],
  ['{"level":40,"msg":"node  lost\\n"}', { level: 'warn', text: 'node lost' }],
  ['{"level":50,"msg":"write failed","err":{"message":"EIO"}}', { level: 'error', text: 'write failed: EIO' }],
  ['{"level":60,"err":{"message":"gone"}}', { level: 'error', text: 'gone' }],
  ['{"level":50,"msg":"same","err":{"message":"same"}}', { level: 'error', text: 'same' }],
  [
    '{"level":40,"endpoint":"e1","endpointName":"hello","node":"n1","worker":"w1","reason":"3 starts failed","msg":"workers keep failing"}',
    { level: 'warn', text: 'workers keep failing (endpoint hello, worker w1): 3 starts failed' },
  ],
  [
    '{"level":40,"endpoint":"e1","job":"j1","how":"lost","msg":"attempt lost"}',
    { level: 'warn', text: 'attempt lost (endpoint e1, job j1): lost' },
  ],
  ['{"level":40,"nodeName":"gpu-1","error":"EIO","msg":"node lost"}', { level: 'warn', text: 'node lost (node gpu-1): EIO' }],
  ['{"level":40,"endpoint":7,"reason":{},"msg":"odd facts"}', { level: 'warn', text: 'odd facts' }],
  ['{"level":50}', { level: 'error', text: 'no message' }],
  ['Error: a crash report', null],
  ['{"not": "pino"}', null],
  ['{half a line', null],
];
for (const [line, notice] of notices) {
  test(`for the terminal, of: ${line}`, (t) => {
    t.deepEqual(readNotice(line), notice);
  });
}

const onSmallDisk = whyNoSmallDisk === '' ? test : test.skip;

onSmallDisk(`a full disk costs lines, which are counted, and nothing else${whyNoSmallDisk}`, async (t) => {
  const disk = await smallDisk(t, '256k');
  const path = join(disk.path, 'part.log');
  const told: string[] = [];
  const log = openLogFile(path, 100_000, 2, (text) => told.push(text));
  log.write('before\n');
  disk.fill(0);
  // The page that the file has already takes some; then nothing goes in.
  for (let n = 0; n < 100; n++) log.write(`${'x'.repeat(199)}\n`);
  t.regex(told.join('\n'), /^\S+part\.log is not writable; lines are lost until it is: ENOSPC/);
  t.is(told.length, 1);
  disk.free();
  log.write('after\n');
  log.close();
  t.regex(told[1] ?? '', /part\.log is writable again; (\d+) lines are missing from it/);
  const lines = (await readFile(path, 'utf8')).split('\n').filter((line) => line !== '');
  const whole = lines.filter((line) => line.length === 199 && line.startsWith('x')).length;
  t.is(lines[0], 'before');
  t.is(lines.at(-1), 'after');
  t.is((JSON.parse(lines.at(-2) ?? '') as { msg: string }).msg, `${100 - whole} lines are missing: the file was not writable`);
});

onSmallDisk(`a file that cannot be begun anew at its limit is begun once there is room${whyNoSmallDisk}`, async (t) => {
  const disk = await smallDisk(t, '256k,nr_inodes=4');
  const path = join(disk.path, 'part.log');
  const log = openLogFile(path, 10, 3);
  // The root and three more: this file, what it was before, and the one that takes the last place.
  log.write('12345678\n');
  disk.fill(200_000);
  log.write('23456789\n');
  log.write('dropped\n');
  disk.free();
  log.write('again\n');
  log.close();
  t.is(await readFile(path, 'utf8'), 'again\n');
});
