import type { Database } from 'better-sqlite3';

import { MAX_PAYLOAD_OVERHEAD, type PayloadCodec } from '../../payload-codec.ts';
import type { EndpointCounts, JobRow, QueuedJob, StoredState, HeadWindow } from '../../../core/ports/store.ts';
import { besideJob, bound, toJob, toQueuedInput, type JobTuple } from '../../rows.ts';
import { JOB_COLUMNS, JOINED_JOB_COLUMNS } from './columns.ts';

/** length() of a blob reads no overflow page, so a large excluded input costs nothing. */
const head = `
SELECT ${JOINED_JOB_COLUMNS}, CASE WHEN length(inputs.inline) <= ? THEN inputs.inline END
FROM jobs INDEXED BY jobs_queued LEFT JOIN inputs ON inputs.seq = jobs.seq
WHERE state = 'IN_QUEUE' AND endpoint = ? AND priority = ? AND queue_position > ?
ORDER BY queue_position LIMIT ?`;

/** Without the hint the planner scans the whole table by number. */
const leased = `
SELECT ${JOB_COLUMNS} FROM jobs INDEXED BY jobs_leased WHERE state = 'LEASED' AND seq > ? ORDER BY seq LIMIT ?`;

const COUNTS = `
SELECT endpoint, 'IN_QUEUE', priority, count(*), 0 FROM jobs INDEXED BY jobs_queued WHERE state = 'IN_QUEUE' GROUP BY endpoint, priority
UNION ALL
SELECT endpoint, 'LEASED', priority, count(*), sum(max(attempts - 1, 0)) FROM jobs INDEXED BY jobs_leased WHERE state = 'LEASED' GROUP BY endpoint, priority
UNION ALL
SELECT endpoint, state, priority, count(*), sum(max(attempts - 1, 0)) FROM jobs INDEXED BY jobs_ended WHERE ended_at IS NOT NULL GROUP BY endpoint, state, priority`;

/** The reads of take-over and of the head windows. */
export function queueStatements(db: Database, codec: PayloadCodec) {
  const headRows = db.prepare<[number, string, number, number, number], [...JobTuple, Uint8Array | null]>(head).raw();
  const leasedRows = db.prepare<[number, number], JobTuple>(leased).raw();
  const countRows = db.prepare<[], [string, StoredState, 0 | 1, number, number]>(COUNTS).raw();
  return {
    head({ endpoint, priority, after, limit, inputLimit }: HeadWindow): QueuedJob[] {
      return headRows.all(inputLimit + MAX_PAYLOAD_OVERHEAD, endpoint, priority, after, bound(limit)).map((row) => ({
        job: toJob(row),
        input: toQueuedInput(besideJob(row), codec, inputLimit),
      }));
    },
    leased(after: number, limit: number): JobRow[] {
      return leasedRows.all(after, bound(limit)).map(toJob);
    },
    counts(): EndpointCounts[] {
      return countRows.all().map(([endpoint, state, priority, count, retried]) => ({ endpoint, state, priority, count, retried }));
    },
  };
}
