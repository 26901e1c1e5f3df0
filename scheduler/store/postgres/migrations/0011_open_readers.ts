import { COMMIT_V1 } from './functions/commit_v1.ts';
import { COMMIT_V2 } from './functions/commit_v2.ts';
import { COMMIT_V3 } from './functions/commit_v3.ts';
import { COMMIT_V4 } from './functions/commit_v4.ts';
import type { Migration } from './migration.ts';

/**
 * Keeps the cost of a batch constant while a reader holds a snapshot open. Until the snapshot ends, every update leaves a dead version of the
 * row, and a lookup by key reads all of them. Every batch updated two such rows.
 *
 * - A batch finds the row of its cell by `ctid`, where the last batch of the session left it. Only the functions change. By key, the
 *   lookup took as long as the rest of the batch after two and a half minutes.
 * - The owner tracks the hosts of webhooks in memory. `commit_v4` is `commit_v3` without the table `hook_hosts`, which owners of earlier
 *   versions still use. The view replaces the table for copies.
 */
export const openReaders: Migration = {
  number: 11,
  name: 'open_readers',
  sql: `
${COMMIT_V1}${COMMIT_V2}${COMMIT_V3}${COMMIT_V4}
CREATE VIEW capstan.pending_hosts AS
  SELECT cell, host, min(due_at) AS next_at FROM capstan.hooks WHERE state = 'PENDING' GROUP BY cell, host;`,
};
