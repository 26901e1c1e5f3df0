/**
 * A power cut in the first run, on the strictest file system: only synced bytes and synced names survive. Whatever was
 * acknowledged by then is there when a scheduler starts on what is left (invariant 1).
 */
import { mkdir } from 'node:fs/promises';
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';

import test from 'ava';
import Database from 'better-sqlite3';

import { blobPath } from '../../scheduler/blobs/ids.ts';
import { folderOf } from '../support/folder.ts';
import { recordDisk, whyNoPowerCuts, type DiskRecording } from '../support/power-cut/record.ts';
import { TestScheduler } from '../support/scheduler-client.ts';
import { Stack } from '../support/stack.ts';

const recorded = whyNoPowerCuts === null ? test : test.skip;
if (whyNoPowerCuts !== null) console.log(`skipped: power cuts: ${whyNoPowerCuts}`);

const JOBS = 20;
/** Every second job has an input that goes to the blob store. */
const LARGE = 'x'.repeat(100_000);

recorded('what was acknowledged in the first run survives a power cut at any moment after', async (t) => {
  t.timeout(240_000);
  let disk: DiskRecording | undefined;
  const stack = await Stack.start({}, async (folder) => {
    await mkdir(join(folder, 'data'), { mode: 0o700 });
    disk = await recordDisk(t, join(folder, 'data'));
    return disk.env;
  });
  t.teardown(() => stack.close());
  if (disk === undefined) throw new Error('nothing is recorded');
  const endpoint = (await stack.deploy(join(import.meta.dirname, 'app'))).get('echo') ?? '';
  const acknowledged: { readonly id: string; readonly moment: number }[] = [];
  for (let n = 0; n < JOBS; n += 1) {
    const response = await fetch(`${stack.url}/v2/${endpoint}/run`, {
      method: 'POST',
      headers: { authorization: `Bearer ${stack.apiKey}`, 'content-type': 'application/json' },
      body: JSON.stringify({ input: { n, ms: 0, more: n % 2 === 0 ? LARGE : '' } }),
    });
    const { id } = (await response.json()) as { id: string };
    acknowledged.push({ id, moment: disk.position() });
  }

  for (const count of [1, 2, JOBS]) {
    const moment = acknowledged[count - 1]?.moment;
    const survivors = disk.survivors(moment);
    t.true(survivors.has('agent/node.json'), 'the node keeps its identity');
    const left = await disk.cut(t, moment);
    t.deepEqual(missingBodies(left, survivors), [], `bodies of ${count} jobs`);
    const scheduler = await TestScheduler.open({ dataDir: left });
    try {
      const channel = scheduler.channel();
      for (const { id } of acknowledged.slice(0, count)) {
        const { result } = await channel.ask(endpoint, { $case: 'get', value: { jobId: id, waitMs: 0 } });
        t.is(result?.$case, 'job', `${id} after a cut behind job ${count}`);
      }
    } finally {
      await scheduler.close();
    }
  }
});

recorded(
  'a synced file is lost with a name that was never synced, in a folder that was never synced, and until its bytes are',
  async (t) => {
    const folder = await folderOf(t, { 'before/kept': 'kept' });
    const disk = await recordDisk(t, folder);
    const moments = new Map<string, number>();
    const does = (source: string): void => {
      execFileSync(process.execPath, ['--input-type=module', '-e', `import fs from 'node:fs'; ${source}`], {
        env: { ...process.env, ...disk.env },
        cwd: folder,
      });
      moments.set(source, disk.position());
    };
    const left = (): string[] => [...disk.survivors().keys()].toSorted();
    does(`fs.mkdirSync('new'); fs.writeFileSync('new/file', 'text', { flush: true })`);
    t.deepEqual(left(), ['before', 'before/kept']);
    does(`fs.fsyncSync(fs.openSync('new'))`);
    t.deepEqual(left(), ['before', 'before/kept'], 'the folder itself has no name yet');
    does(`fs.fsyncSync(fs.openSync('.'))`);
    t.deepEqual(left(), ['before', 'before/kept', 'new', 'new/file']);
    does(`fs.appendFileSync('new/file', ' more'); fs.renameSync('new/file', 'new/other')`);
    t.is(disk.survivors().get('new/file')?.toString(), 'text');
    does(`fs.fsyncSync(fs.openSync('new')); fs.unlinkSync('before/kept'); fs.truncateSync('new/other', 2)`);
    t.is(disk.survivors().get('new/other')?.toString(), 'text');
    t.false(disk.survivors().has('new/file'));
    t.is(disk.survivors().get('before/kept')?.toString(), 'kept');
    does(`fs.fsyncSync(fs.openSync('new/other')); fs.fsyncSync(fs.openSync('before'))`);
    t.is(disk.survivors().get('new/other')?.toString(), 'te');
    t.deepEqual(left(), ['before', 'new', 'new/other']);
    // Each moment of the past can be asked for.
    t.is(
      disk
        .survivors([...moments.values()][2])
        .get('new/file')
        ?.toString(),
      'text',
    );
  },
);

recorded('the durable calls leave nothing to chance, and name every new folder up to one that was there', async (t) => {
  const folder = await folderOf(t);
  const disk = await recordDisk(t, folder);
  const lib = JSON.stringify(join(import.meta.dirname, '../../lib/durable.ts'));
  const does = (source: string): void =>
    void execFileSync(process.execPath, ['--input-type=module', '-e', `import fs from 'node:fs'; import * as d from ${lib}; ${source}`], {
      env: { ...process.env, ...disk.env },
      cwd: folder,
    });
  does(`await d.makeFolder('a/b/c', 0o700); d.makeFolderSync('d/e', 0o700)`);
  t.deepEqual([...disk.survivors().keys()].toSorted(), ['a', 'a/b', 'a/b/c', 'd', 'd/e']);
  does(`await d.createDurably('a/one', '1'); await d.replaceDurably('a/two', '2'); d.replaceDurablySync('a/three', '3')`);
  does(`await d.replaceDurably('a/two', '22'); await d.renameDurably('a/three', 'a/b/three'); await d.removeDurably('a/one')`);
  t.is(disk.survivors().get('a/two')?.toString(), '22');
  t.is(disk.survivors().get('a/b/three')?.toString(), '3');
  t.false(disk.survivors().has('a/one'));
  // A folder of a process that was killed before it synced the name.
  does(`fs.mkdirSync('left'); fs.mkdirSync('left/inside')`);
  t.false(disk.survivors().has('left'));
  does(`await d.makeFolder('left', 0o700); await d.makeFolder('left/inside', 0o700)`);
  t.true(disk.survivors().has('left/inside'));
  does(`await d.moveUnsynced('a/two', 'a/gone')`);
  t.true(disk.survivors().has('a/two'));
});

/** Bodies that the surviving database names and the blob store lost. */
function missingBodies(folder: string, survivors: ReadonlyMap<string, Buffer | null>): string[] {
  const copy = new Database(join(folder, 'scheduler', 'capstan.db'));
  try {
    const named = copy.prepare<[], string>('SELECT blob FROM inputs WHERE blob IS NOT NULL').pluck().all();
    return named.filter((id) => !survivors.has(join('scheduler', 'blobs', blobPath(id))));
  } finally {
    copy.close();
  }
}
