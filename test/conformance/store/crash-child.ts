/**
 * A scheduler's worth of writing, to be killed: commits jobs round by round and prints each
 * batch's last number once it was acknowledged.
 *
 * node crash-child.ts <file> <first number>
 */
import { writeSync } from 'node:fs';

import { openSqliteStore } from '../../../scheduler/store/sqlite/client.ts';
import type { Op } from '../../../scheduler/core/ports/store.ts';
import { completed, json, leaseOf, queued, submit } from './jobs.ts';
import { take } from './take.ts';

const [file = '', first = '1'] = process.argv.slice(2);
const store = await openSqliteStore({ file, checkpointPages: 100 });
const fence = await take(store, `crash-${process.pid}`);

/** Jobs of one batch; each batch also leases the batch before it and completes the one before that. */
const PER_BATCH = 7;
const body = json('x'.repeat(500));

try {
  for (let seq = Number(first); ; seq += PER_BATCH) {
    const ops: Op[] = [];
    for (let i = seq; i < seq + PER_BATCH; i++) {
      ops.push(submit(queued(i), { input: body }));
      if (i - PER_BATCH >= Number(first)) ops.push(leaseOf(i - PER_BATCH));
      if (i - 2 * PER_BATCH >= Number(first)) ops.push(completed(i - 2 * PER_BATCH, { output: body }));
    }
    await store.commit(fence, ops);
    writeSync(1, `${seq + PER_BATCH - 1}\n`);
  }
} catch (error) {
  const later = await store.commit(fence, []).then(
    () => 'resolved',
    () => 'rejected',
  );
  const { code, message } = error as { code?: string; message: string };
  writeSync(1, `failed ${JSON.stringify({ code, message, later })}\n`);
  await store.close();
}
