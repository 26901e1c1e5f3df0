/** The database's clock steps by an hour, forward and back: terms grow, and no owner's time runs backwards. */
import { chmod, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import test from 'ava';

import { openPostgresStore } from '../../../scheduler/store/postgres/client.ts';
import { findLibrary } from '../../history/faults/clock.ts';
import { folderOf } from '../../support/folder.ts';
import { NO_POSTGRES, postgresBinaries, startPostgres } from '../../support/postgres.ts';
import { until } from '../../support/until.ts';
import { given, queued, queueOf, submit } from './jobs.ts';
import { take } from './take.ts';

const HOUR_MS = 3_600_000;

test('a database whose clock steps by an hour gives out higher terms, and owners do not go back in time', async (t) => {
  const [binaries, library] = [await postgresBinaries(), findLibrary()];
  if (binaries === undefined || library === undefined) {
    t.log(`skipped: ${binaries === undefined ? NO_POSTGRES : 'libfaketime is not installed (Debian: faketime)'}`);
    t.pass();
    return;
  }
  const folder = await folderOf(t);
  await chmod(folder, 0o755);
  const file = join(folder, 'clock');
  const step = (hours: number): Promise<void> => writeFile(file, `${hours < 0 ? '' : '+'}${hours * 3_600}\n`);
  await step(0);
  const environment = {
    LD_PRELOAD: library,
    FAKETIME_TIMESTAMP_FILE: file,
    FAKETIME_CACHE_DURATION: '1',
    FAKETIME_DONT_FAKE_MONOTONIC: '1',
  };
  const server = await startPostgres(binaries, {}, environment);
  t.teardown(() => server.stop());
  const url = await server.newDatabase();
  const wallOf = async (): Promise<number> =>
    Number((await server.query(url, 'SELECT extract(epoch FROM clock_timestamp()) * 1000 AS wall'))[0]?.['wall']);

  /** What former owners wrote. */
  const writtenWall = async (): Promise<number> => Number((await server.query(url, 'SELECT wall FROM capstan.cells'))[0]?.['wall']);

  let last = { term: 0n, wall: 0 };
  for (const [at, hours] of [0, -1, 1, 0].entries()) {
    await step(hours);
    await until('the database has the clock', async () => Math.abs((await wallOf()) - Date.now() - hours * HOUR_MS) < HOUR_MS / 2);
    const store = await openPostgresStore({ url });
    const fence = await take(store, `owner-${at}`);
    t.true(fence.term > last.term, `${hours} h: term ${fence.term} after ${last.term}`);
    t.true(store.now() >= last.wall, `${hours} h: ${store.now()} after ${last.wall}`);
    // An owner commits and reads while the clock steps under it.
    await given(store, fence, submit(queued(at + 1)));
    await step(-hours);
    await given(store, fence, submit(queued(at + 101)));
    last = { term: fence.term, wall: await writtenWall() };
    t.true(store.now() >= last.wall);
    await store.close();
  }
  const store = await openPostgresStore({ url });
  t.teardown(() => store.close());
  await take(store, 'the-last');
  t.is((await queueOf(store)).length, 8, 'nothing is lost or ended');
});
