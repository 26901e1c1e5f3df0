/** A module that cannot be loaded, as a caller and an operator meet it: the reason is said, and a corrected deployment ends it. */
import { join } from 'node:path';

import test from 'ava';

import { Fleet } from '../support/fleet.ts';
import { canFindProcesses } from '../support/processes.ts';
import { until } from '../support/until.ts';

const linux = canFindProcesses ? test : test.skip;
if (!canFindProcesses) console.log('skipped: the processes of a stack are found through /proc, which this system lacks');

linux('workers that cannot start are reported with their error, and a corrected deployment serves the waiting jobs', async (t) => {
  t.timeout(90_000);
  const fleet = await Fleet.start(0);
  t.teardown(() => fleet.close());
  const { stack } = fleet;
  await fleet.connected('a');
  const app = join(import.meta.dirname, 'broken-app');
  const endpoint = (await stack.deploy(app)).get('answer') ?? '';
  const jobs = await Promise.all([1, 2, 3].map((n) => stack.run(endpoint, { n })));
  await until('the reason is a crash loop', async () => {
    const document = (await stack.status(endpoint, jobs[0] ?? '')) as { queueReason?: string };
    return document.queueReason === 'CRASH_LOOP';
  });
  const health = await stack.health(endpoint);
  t.true(health.workers.unhealthy >= 1);
  t.is(health.workers.ready, 0);
  // The first failed start is reason enough to say so; the decision comes with the third.
  const shown = await until('the decision is shown', async () => {
    const said = await fleet.tool('endpoints', 'get', 'answer');
    return /CRASH_LOOP .*consecutive starts failed.*the weights are missing/.test(said.stdout) ? said : null;
  });
  t.regex(shown.stderr, /jobs are queued: CRASH_LOOP: .*the weights are missing/);
  await until('one worker goes on trying', async () => (await fleet.workers()).filter(({ state }) => state !== 'DRAINING').length === 1);
  await fleet.deployChanged(app, (manifest) => manifest.replace('"BROKEN": "yes"', '"BROKEN": "no"'));
  const documents = await Promise.all(jobs.map((job) => stack.ended(endpoint, job)));
  t.deepEqual(
    documents.map(({ status, output }) => `${status} ${String(output)}`),
    ['COMPLETED 1', 'COMPLETED 2', 'COMPLETED 3'],
  );
});
