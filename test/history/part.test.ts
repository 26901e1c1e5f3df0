/** A part of the stack under faults: who waits for a start hears of it, whatever happens to the part meanwhile. */
import { join } from 'node:path';

import test from 'ava';

import { folderOf } from '../support/folder.ts';
import { until } from '../support/until.ts';
import { Part } from './stack/part.ts';

test('a part that is killed again before it is ready keeps the promise of its next start', async (t) => {
  const folder = await folderOf(t);
  const ends: string[] = [];
  const part = new Part({
    name: 'scheduler',
    role: 'scheduler',
    folder,
    prefix: [],
    log: join(folder, 'scheduler.log'),
    env: () => ({ ...process.env, CAPSTAN_DATA_DIR: folder, CAPSTAN_GRPC_PORT: '0', SERVICE_API_KEY: 'cap_a-part-under-faults' }),
    exited: (how) => ends.push(how),
  });
  t.teardown(() => part.close());
  const first = await part.start();
  await part.kill();
  // As the healing of a first fault waits for it, while a second fault hits.
  const back = part.ready;
  await until('the part starts again', () => part.pid !== undefined);
  await part.kill();
  const second = await back;
  t.regex(second, /^127\.0\.0\.1:\d+$/);
  t.not(second, first);
  t.is(await part.ready, second);
  t.deepEqual(ends, ['SIGKILL', 'SIGKILL']);
  t.is(part.restarts, 2);
});
