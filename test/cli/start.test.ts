/** What `npm start` runs, with the real parts: the sample endpoint, one job, the line to try next, a clean end. */
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';

import test from 'ava';

import { descendants, gone, run } from './fakes/run.ts';
import { folderOf } from '../support/folder.ts';

const bin = join(import.meta.dirname, '../../cli/capstan.mjs');
const curl = join(import.meta.dirname, 'fakes/curl.ts');

test.serial('the first start deploys the sample and runs a job; the second finds it again', async (t) => {
  const data = await folderOf(t);
  const start = () => {
    const running = run([bin, 'start', '--data-dir', data, '--http-port', '0', '--grpc-port', '0'], { cwd: data });
    t.teardown(async () => {
      running.child.kill('SIGTERM');
      await running.ended;
    });
    return running;
  };

  const first = start();
  await first.hear(/^Press Ctrl\+C to stop it\.$/m);
  const job = JSON.parse(first.stdout()) as { status: string; output: { statistics: Record<string, number> } };
  t.is(job.status, 'COMPLETED');
  t.deepEqual(Object.keys(job.output.statistics), ['word_count', 'character_count', 'average_word_length', 'sentence_count']);
  const key = (await readFile(join(data, 'secrets/api-key'), 'utf8')).trim();
  t.is(first.stderr().split(key).length, 2, 'a new key is shown once');
  t.regex(first.stderr(), /=> deploying /);

  // The line to try next, tried as it stands.
  const [, command = ''] = await first.hear(/^next: (curl .*)$/m);
  const shell = async (line: string): Promise<string> =>
    (
      await promisify(execFile)('/bin/sh', ['-c', `curl() { "$NODE" "$CURL" "$@"; }\n${line}`], {
        env: { ...process.env, NODE: process.execPath, CURL: curl },
      })
    ).stdout;
  const stdout = await shell(command);
  t.deepEqual((JSON.parse(stdout) as { output: unknown }).output, {
    text: '😀 hi!',
    statistics: { word_count: 2, character_count: 5, average_word_length: 2, sentence_count: 1 },
  });

  // The same call with a value of another type than the source names.
  const mistaken = JSON.parse(await shell(command.replace(/"text":"[^"]*"/, '"text":1'))) as object;
  t.like(mistaken, { status: 'FAILED', error: 'text: must be a string' });

  // The commands find the stack by its data folder.
  const listed = run([bin, 'endpoints', 'list', '--json', '--data-dir', data], { cwd: data });
  t.is(await listed.ended, 0);
  t.true((JSON.parse(listed.stdout()) as { name: string }[]).some(({ name }) => name === 'text-analysis'));
  const doctor = run([bin, 'doctor', '--data-dir', data], { cwd: data });
  t.is(await doctor.ended, 0, doctor.stderr());
  t.regex(doctor.stderr(), /^✓ gateway: .* responds$/m);
  t.regex(doctor.stderr(), /^✓ scheduler: .* responds; 1 of 1 node connected$/m);
  t.regex(doctor.stderr(), /^[✓!] container engine: /m);
  t.regex(doctor.stderr(), /^✓ master key: [0-9a-f]{8}, 0 days old$/m);

  const below = await descendants(first.child.pid ?? 0);
  t.true(below.length >= 4, 'the three parts and a worker’s host');
  first.child.kill('SIGINT');
  t.is(await first.ended, 0);
  await Promise.all(below.map(gone));
  t.false((await readdir(data)).includes('run.json'));

  const second = start();
  await second.hear(/^Press Ctrl\+C to stop it\.$/m);
  t.notRegex(second.stderr(), /deploying|API key/);
  t.is((JSON.parse(second.stdout()) as { status: string }).status, 'COMPLETED');
  second.child.kill('SIGTERM');
  t.is(await second.ended, 0);
});

test.serial('a given key becomes the account’s, and is not shown; a later one does not replace it, and that is said', async (t) => {
  const data = await folderOf(t);
  for (const key of ['cap_given-at-first', 'cap_given-later']) {
    const running = run([bin, 'up', '--data-dir', data, '--http-port', '0', '--grpc-port', '0'], {
      cwd: data,
      env: { SERVICE_API_KEY: key },
    });
    await running.hear(/^Press Ctrl\+C to stop it\.$/m);
    t.is((await readFile(join(data, 'secrets/api-key'), 'utf8')).trim(), 'cap_given-at-first');
    t.notRegex(running.stderr(), /cap_given/);
    t.is(/^! SERVICE_API_KEY is not the key of this data folder/m.test(running.stderr()), key === 'cap_given-later');
    running.child.kill('SIGINT');
    t.is(await running.ended, 0);
  }
});
