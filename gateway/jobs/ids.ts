/** Creates job ids, in the gateway, so that a submission can be sent again without creating a second job. */
import { randomFillSync } from 'node:crypto';

import { v7 as uuidv7 } from 'uuid';

/** Random bytes for 512 ids at once: a system call per id costs more than the rest of a submission. */
const pool = new Uint8Array(16 * 512);
let taken = pool.length;

function random(): Uint8Array {
  if (taken === pool.length) {
    randomFillSync(pool);
    taken = 0;
  }
  taken += 16;
  return pool.subarray(taken - 16, taken);
}

let lastMs = 0;
let sequence = 0;

/** UUIDv7: ids that grow with time, also within a millisecond, keep the store's index compact. */
function uuid(): string {
  const now = Date.now();
  const bytes = random();
  if (now > lastMs) {
    lastMs = now;
    // From the lower half of the range, so that the ids of one millisecond do not exceed it.
    sequence = (((bytes[6] ?? 0) & 0x7f) << 24) | ((bytes[7] ?? 0) << 16) | ((bytes[8] ?? 0) << 8) | (bytes[9] ?? 0);
  } else {
    sequence += 1;
  }
  return uuidv7({ msecs: lastMs, seq: sequence, random: bytes });
}

/** Id of a /run job. */
export function runId(): string {
  return `${uuid()}-u1`;
}

/** Id of a /runsync job. */
export function runsyncId(): string {
  return `sync-${uuid()}-u1`;
}
