import type { Database } from 'better-sqlite3';

import type { JobRow } from '../../../core/ports/store.ts';
import { bound, toJob, type JobTuple } from '../../rows.ts';
import { JOB_COLUMNS } from './columns.ts';

const REMOVE =
  'DELETE FROM jobs WHERE seq = ? AND delete_at <= ? RETURNING queue_position, chunks, output_blob, endpoint, ifnull(length(output), 0)';
const due = `SELECT ${JOB_COLUMNS} FROM jobs INDEXED BY jobs_due WHERE delete_at <= ? ORDER BY delete_at, seq LIMIT ?`;
const NEXT_DUE = 'SELECT delete_at FROM jobs INDEXED BY jobs_due ORDER BY delete_at, seq LIMIT 1 OFFSET ?';
const MARK = 'UPDATE marks SET value = @value WHERE name = @name AND value < @value';
const MARKED = 'SELECT value FROM marks WHERE name = ?';
const HIGHEST_SEQ = 'SELECT max(seq) FROM jobs';

/** Take-over only: three scans of indexes that hold the position, none of the table. */
const HIGHEST_POSITION = `
SELECT max(p) FROM (
  SELECT max(queue_position) AS p FROM jobs INDEXED BY jobs_queued WHERE state = 'IN_QUEUE'
  UNION ALL SELECT max(queue_position) FROM jobs INDEXED BY jobs_leased WHERE state = 'LEASED'
  UNION ALL SELECT max(queue_position) FROM jobs INDEXED BY jobs_ended WHERE ended_at IS NOT NULL
)`;

type RemovedTuple = [queuePosition: number, chunks: number, outputBlob: string | null, endpoint: string, inlineBytes: number];

/** What a removed row held. */
export interface RemovedRow {
  readonly queuePosition: number;
  readonly chunks: number;
  readonly outputBlob: string | null;
  readonly endpoint: string;
  /** Bytes of its output in the row. */
  readonly inlineBytes: number;
}

/** Removes jobs, and keeps the marks that prevent reuse of their numbers. */
export function removalStatements(db: Database) {
  const removeRow = db.prepare<[number, number], RemovedTuple>(REMOVE).raw();
  const dueRows = db.prepare<[number, number], JobTuple>(due).raw();
  const nextRow = db.prepare<[number], number>(NEXT_DUE).pluck();
  const markRow = db.prepare<[{ name: string; value: number }]>(MARK);
  const markedRow = db.prepare<[string], number>(MARKED).pluck();
  const seqRow = db.prepare<[], number | null>(HIGHEST_SEQ).pluck();
  const positionRow = db.prepare<[], number | null>(HIGHEST_POSITION).pluck();
  return {
    /** Returns what the removed row held, or null if it did not exist or was not due. */
    remove(seq: number, dueBy: number): RemovedRow | null {
      const row = removeRow.get(seq, dueBy);
      if (row === undefined) return null;
      const [queuePosition, chunks, outputBlob, endpoint, inlineBytes] = row;
      return { queuePosition, chunks, outputBlob, endpoint, inlineBytes };
    },
    /** Stores the highest number and position of a batch's removed jobs. */
    mark(seq: number, queuePosition: number): void {
      markRow.run({ name: 'seq', value: seq });
      markRow.run({ name: 'queue_position', value: queuePosition });
    },
    due(wall: number, limit: number): { jobs: JobRow[]; nextAt: number | null } {
      const jobs = dueRows.all(wall, bound(limit)).map(toJob);
      return { jobs, nextAt: nextRow.get(jobs.length) ?? null };
    },
    highest(): { seq: number; queuePosition: number } {
      return {
        seq: Math.max(seqRow.get() ?? 0, markedRow.get('seq') ?? 0),
        queuePosition: Math.max(positionRow.get() ?? 0, markedRow.get('queue_position') ?? 0),
      };
    },
  };
}
