import type { Database } from 'better-sqlite3';

import type { PayloadCodec } from '../../payload-codec.ts';
import type { Op } from '../../../core/ports/store.ts';
import { ms, msOrNull, payloadColumns } from '../../rows.ts';
import { inlineLength, type InlineUsage } from './inline-usage.ts';

type OpOf<K extends Op['kind']> = Extract<Op, { kind: K }>;

/** A lease starts a new attempt: the data of the previous one is cleared. */
const LEASE = `
UPDATE jobs SET state = 'LEASED', token = ?, node = ?, incarnation = ?, worker = ?, started_at = NULL, delay_ms = NULL
WHERE seq = ? AND state = 'IN_QUEUE' AND token = ? - 1`;

const STARTED = `
UPDATE jobs SET started_at = ?, attempts = ?, delay_ms = ?
WHERE seq = ? AND state = 'LEASED' AND token = ?`;

const REQUEUE = `
UPDATE jobs SET state = 'IN_QUEUE', node = NULL, incarnation = NULL, attempts = ?, past_attempts = ?, started_at = NULL,
  delay_ms = NULL
WHERE seq = ? AND state = 'LEASED' AND token = ?`;

const FINISH = `
UPDATE jobs SET state = ?, node = NULL, incarnation = NULL, ended_at = ?, delete_at = ?, attempts = ?, delay_ms = ?, execution_ms = ?,
  error = ?, output = ?, output_blob = ?, output_size = ?, chunks = ?
WHERE seq = ? AND state = ? AND token = ?`;

/** The row is read before it is written: its chunks are deleted with the old end. */
const RETRIABLE = `
SELECT chunks, output_blob, endpoint, ifnull(length(output), 0) FROM jobs WHERE seq = ? AND state IN ('FAILED', 'TIMED_OUT')`;

const RETRY = `
UPDATE jobs SET state = 'IN_QUEUE', queue_position = ?, submitted_at = ?, delete_at = ?, token = token + 1, attempts = 0, past_attempts = ?,
  worker = NULL, started_at = NULL, ended_at = NULL, delay_ms = NULL, execution_ms = NULL,
  error = NULL, output = NULL, output_blob = NULL, output_size = NULL, chunks = 0
WHERE seq = ?`;

/** Read by itself: with RETURNING, an end costs twice as much more. */
const ENDPOINT = 'SELECT endpoint FROM jobs WHERE seq = ?';
const STANDING = 'SELECT 1 FROM jobs WHERE seq = ?';

/** The guarded changes of a job's row; each returns false or null if the guard failed. */
export function transitionStatements(db: Database, codec: PayloadCodec, usage: InlineUsage) {
  const leaseRow = db.prepare(LEASE);
  const startRow = db.prepare(STARTED);
  const requeueRow = db.prepare(REQUEUE);
  const finishRow = db.prepare(FINISH);
  const endpointRow = db.prepare<[number], string>(ENDPOINT).pluck();
  const retriableRow = db.prepare<[number], [chunks: number, output: string | null, endpoint: string, inline: number]>(RETRIABLE).raw();
  const retryRow = db.prepare(RETRY);
  const standingRow = db.prepare<[number], 1>(STANDING).pluck();
  return {
    lease(op: OpOf<'lease'>): boolean {
      return leaseRow.run(op.token, op.lease.node, op.lease.incarnation, op.lease.worker, op.seq, op.token).changes === 1;
    },
    started(op: OpOf<'started'>): boolean {
      return startRow.run(ms(op.startedAt), op.attempts, ms(op.delayMs), op.seq, op.token).changes === 1;
    },
    requeue(op: OpOf<'requeue'>): boolean {
      return requeueRow.run(op.attempts, op.pastAttempts, op.seq, op.token).changes === 1;
    },
    /** Returns the endpoint of the job. */
    finish(op: OpOf<'finish'>): string | null {
      const output = payloadColumns(op.output, codec);
      const { changes } = finishRow.run(
        op.state,
        ms(op.endedAt),
        ms(op.deleteAt),
        op.attempts,
        msOrNull(op.delayMs),
        msOrNull(op.executionMs),
        op.error,
        ...output,
        op.chunks.length,
        op.seq,
        op.from,
        op.token,
      );
      if (changes === 0) return null;
      const endpoint = endpointRow.get(op.seq) as string;
      usage.add(endpoint, inlineLength(output));
      return endpoint;
    },
    /**
     * Returns the endpoint of the row, the number of chunks that it kept until now, and the blob of its output; null if the guard
     * failed.
     */
    retry(op: OpOf<'retry'>): { readonly endpoint: string; readonly chunks: number; readonly outputBlob: string | null } | null {
      const row = retriableRow.get(op.seq);
      if (row === undefined) return null;
      retryRow.run(op.queuePosition, ms(op.submittedAt), ms(op.deleteAt), op.pastAttempts, op.seq);
      const [chunks, outputBlob, endpoint, inline] = row;
      usage.add(endpoint, -inline);
      return { endpoint, chunks, outputBlob };
    },
    /** Whether the job's row exists, in any state. */
    standing(seq: number): boolean {
      return standingRow.get(seq) !== undefined;
    },
  };
}
