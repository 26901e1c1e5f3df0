import type { Database } from 'better-sqlite3';

import type { PayloadCodec } from '../../payload-codec.ts';
import { MAX_LISTED, type JobRow, type StoredState, type WholeJob } from '../../../core/ports/store.ts';
import { bound, fromPayloadColumns, resultOf, toJob, type JobTuple, type WholeJobTuple } from '../../rows.ts';
import { JOB_COLUMNS, JOB_RESULT_COLUMNS } from './columns.ts';
import type { bodyStatements } from './bodies.ts';

const wholeColumns = `${JOB_COLUMNS}, ${JOB_RESULT_COLUMNS}`;
const one = `SELECT ${wholeColumns} FROM jobs WHERE id = ? AND endpoint = ?`;
const ENDPOINT = 'SELECT endpoint FROM jobs WHERE id = ?';
const TAKEN = 'SELECT 1 FROM jobs WHERE id = ?';
const byNumber = `SELECT ${wholeColumns} FROM jobs WHERE seq = ?`;

/**
 * Newest first means latest submission or retry first, which is the order of positions. No index holds all of an
 * endpoint's jobs in that order (it would slow every submission); each state's own index does, and a page merges the
 * newest of each.
 */
const sources: Readonly<Record<StoredState, readonly string[]>> = {
  IN_QUEUE: [
    "FROM jobs INDEXED BY jobs_queued WHERE state = 'IN_QUEUE' AND endpoint = @endpoint AND priority = 0",
    "FROM jobs INDEXED BY jobs_queued WHERE state = 'IN_QUEUE' AND endpoint = @endpoint AND priority = 1",
  ],
  LEASED: ["FROM jobs INDEXED BY jobs_leased WHERE state = 'LEASED' AND endpoint = @endpoint"],
  COMPLETED: ["FROM jobs INDEXED BY jobs_ended WHERE ended_at IS NOT NULL AND endpoint = @endpoint AND state = 'COMPLETED'"],
  FAILED: ["FROM jobs INDEXED BY jobs_ended WHERE ended_at IS NOT NULL AND endpoint = @endpoint AND state = 'FAILED'"],
  CANCELLED: ["FROM jobs INDEXED BY jobs_ended WHERE ended_at IS NOT NULL AND endpoint = @endpoint AND state = 'CANCELLED'"],
  TIMED_OUT: ["FROM jobs INDEXED BY jobs_ended WHERE ended_at IS NOT NULL AND endpoint = @endpoint AND state = 'TIMED_OUT'"],
};

function pageSql(from: readonly string[]): string {
  const newest = from.map(
    (source) => `SELECT * FROM (SELECT seq, queue_position ${source} ORDER BY queue_position DESC LIMIT @offset + @limit)`,
  );
  return `SELECT seq FROM (${newest.join(' UNION ALL ')}) ORDER BY queue_position DESC, seq DESC LIMIT @limit OFFSET @offset`;
}

function newestSql(from: readonly string[]): string {
  const newest = from.map(
    (source) =>
      `SELECT * FROM (SELECT seq, queue_position ${source} AND queue_position < @before ORDER BY queue_position DESC LIMIT @limit)`,
  );
  const numbers = `SELECT seq FROM (${newest.join(' UNION ALL ')}) ORDER BY queue_position DESC LIMIT @limit`;
  return `SELECT ${JOB_COLUMNS} FROM jobs WHERE seq IN (${numbers}) ORDER BY queue_position DESC`;
}

function totalSql(from: readonly string[]): string {
  return `SELECT min(${MAX_LISTED}, ${from.map((source) => `(SELECT count(*) FROM (SELECT 1 ${source} LIMIT ${MAX_LISTED}))`).join(' + ')})`;
}

/** Reads jobs with their bodies: one by id, or pages of an endpoint's jobs. */
export function pageStatements(db: Database, { chunks: chunksOf }: Pick<ReturnType<typeof bodyStatements>, 'chunks'>, codec: PayloadCodec) {
  const oneRow = db.prepare<[string, string], WholeJobTuple>(one).raw();
  const numberRow = db.prepare<[number], WholeJobTuple>(byNumber).raw();
  const endpointRow = db.prepare<[string], string>(ENDPOINT).pluck();
  const takenRow = db.prepare<[string], 1>(TAKEN).pluck();
  const prepare = (from: readonly string[]) => ({
    page: db.prepare<[{ endpoint: string; offset: number; limit: number }], number>(pageSql(from)).pluck(),
    total: db.prepare<[{ endpoint: string }], number>(totalSql(from)).pluck(),
    newest: db.prepare<[{ endpoint: string; before: number; limit: number }], JobTuple>(newestSql(from)).raw(),
  });
  const states: Readonly<Record<StoredState | 'ALL', ReturnType<typeof prepare>>> = {
    IN_QUEUE: prepare(sources.IN_QUEUE),
    LEASED: prepare(sources.LEASED),
    COMPLETED: prepare(sources.COMPLETED),
    FAILED: prepare(sources.FAILED),
    CANCELLED: prepare(sources.CANCELLED),
    TIMED_OUT: prepare(sources.TIMED_OUT),
    ALL: prepare(Object.values(sources).flat()),
  };
  const whole = (row: WholeJobTuple): WholeJob => {
    const job = toJob(row);
    const { chunks, output } = resultOf(row);
    return { job, output: fromPayloadColumns(output, codec), ...(chunks > 0 ? chunksOf(job.seq) : { chunks: [], firstChunk: 0 }) };
  };
  return {
    job(endpoint: string, id: string): WholeJob | null {
      const row = oneRow.get(id, endpoint);
      return row === undefined ? null : whole(row);
    },
    endpointOfJob(id: string): string | null {
      return endpointRow.get(id) ?? null;
    },
    idTaken(id: string): boolean {
      return takenRow.get(id) !== undefined;
    },
    page(endpoint: string, state: StoredState | null, offset: number, limit: number): { jobs: WholeJob[]; total: number } {
      const { page, total } = states[state ?? 'ALL'];
      const jobs: WholeJob[] = [];
      const from = Math.min(bound(offset), MAX_LISTED);
      for (const seq of page.all({ endpoint, offset: from, limit: Math.min(bound(limit), MAX_LISTED - from) })) {
        const row = numberRow.get(seq);
        if (row !== undefined) jobs.push(whole(row));
      }
      return { jobs, total: total.get({ endpoint }) ?? 0 };
    },
    newest(endpoint: string, state: StoredState | null, before: number, limit: number): JobRow[] {
      return states[state ?? 'ALL'].newest.all({ endpoint, before: bound(before), limit: bound(limit) }).map(toJob);
    },
  };
}
