/** Log files stay small; log lines become words for people. */
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';

import test from 'ava';

import { openLogFile } from '../../cli/supervisor/log-file.ts';
import { readNotice, splitLines } from '../../cli/supervisor/log-line.ts';
import { folderOf } from '../support/folder.ts';

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
