/** Several schedulers on PostgreSQL are upgraded while they serve, in the order of docs/upgrade.md. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import test from 'ava';

import { folderOf } from '../support/folder.ts';
import { NO_POSTGRES, postgresBinaries, startPostgres } from '../support/postgres.ts';
import { until } from '../support/until.ts';
import { application, versionCheck, works } from './application.ts';
import { checkOut, CURRENT, EARLIER, whyMissing } from './earlier.ts';
import { MixedStack } from './mixed-stack.ts';

const binaries = await postgresBinaries();
const versions = await Promise.all(
  EARLIER.filter(({ hasStandbys }) => hasStandbys).map(async (each) => ({ each, missing: await whyMissing(each) })),
);

for (const { each: earlier, missing } of versions) {
  const why = binaries === undefined ? NO_POSTGRES : missing;
  const only = why === '' ? test.serial : test.serial.skip;

  only(`gateways and agents go first, then a standby takes ${earlier.name} over with its jobs${why && ` (skipped: ${why})`}`, async (t) => {
    t.timeout(240_000);
    const before = await checkOut(t, earlier);
    const server = await startPostgres(binaries ?? '');
    t.teardown(() => server.stop());
    const stack = await MixedStack.create(t, await server.newDatabase());
    await stack.run('scheduler', before);
    await stack.run('gateway', CURRENT);
    await stack.run('agent', CURRENT);
    await stack.deploy(before, await application(t));
    await works(t, stack, 'with an old scheduler');
    t.deepEqual(
      (await versionCheck(stack)).upgrade.map(({ part, from }) => [part, from]),
      [
        ['scheduler', null],
        ['agent', null],
      ],
    );

    const gate = join(await folderOf(t), 'open');
    const [started, waiting] = [await stack.submit('gated', { gate }), await stack.submit('gated', { gate })];
    await until('the first job runs', async () => (await stack.status('gated', started)).status === 'IN_PROGRESS');
    await stack.run('standby', CURRENT);
    await works(t, stack, 'with a new standby');
    await stack.stop('scheduler');
    await until('the job is known to run still', async () => {
      const job = await stack.status('gated', started).catch(() => undefined);
      return job?.status === 'IN_PROGRESS';
    });
    await writeFile(gate, '');
    for (const id of [started, waiting]) t.like(await stack.ended('gated', id), { status: 'COMPLETED', output: 'through' });
    t.is((await stack.status('gated', started)).retries ?? 0, 0, 'it ran once');
    await works(t, stack, 'with the new owner');
    await t.throwsAsync(
      stack.run('scheduler', before),
      { message: /this program knows up to/ },
      'an older scheduler is refused from now on',
    );
    await stack.run('scheduler', CURRENT);
    t.deepEqual((await versionCheck(stack)).upgrade, []);
  });
}
