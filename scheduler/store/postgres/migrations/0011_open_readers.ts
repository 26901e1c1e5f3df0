import { batchFunction, batchFunctionV2, batchFunctionV3, batchFunctionV4 } from '../sql/batch.ts';
import type { Migration } from './migration.ts';

/**
 * Batches that cost the same for as long as a reader holds a snapshot open. Until it ends, every change of a row leaves a version behind,
 * and a look by the row's key goes through all of them: two rows changed with each batch.
 *
 * - The row of a cell is found where the last batch of the session left it. Only the functions change; after two and a half minutes the
 *   look took as long as the rest of the batch.
 * - Which hosts have deliveries, the owner keeps in memory. `commit_v4` is `commit_v3` without the table of hosts, which owners of earlier
 *   versions go on with; the view is what copies read instead.
 */
export const openReaders: Migration = {
  number: 11,
  name: 'open_readers',
  sql: `
${[batchFunction, batchFunctionV2, batchFunctionV3, batchFunctionV4].join('\n')}
CREATE VIEW capstan.pending_hosts AS
  SELECT cell, host, min(due_at) AS next_at FROM capstan.hooks WHERE state = 'PENDING' GROUP BY cell, host;`,
};
