import { MAX_PAYLOAD_OVERHEAD, type PayloadCodec } from '../../payload-codec.ts';
import { MAX_LISTED, type Reads, type StoredState, type WholeJob } from '../../../core/ports/store.ts';
import {
  besideJob,
  bound,
  fromPayloadColumns,
  fromWholePayloadColumns,
  resultOf,
  toJob,
  toQueuedInput,
  type JobTuple,
  type PayloadTuple,
  type WholeJobTuple,
} from '../../rows.ts';
import { JOB_COLUMNS, JOB_RESULT_COLUMNS } from '../sql/columns.ts';
import { NONE, type LeftEdge } from './left-edge.ts';
import type { LeftEdges } from './left-edges.ts';
import type { AsyncReads, Query } from './query.ts';

const WHOLE = `SELECT ${JOB_COLUMNS}, ${JOB_RESULT_COLUMNS} FROM capstan.jobs j`;
const ONE = `${WHOLE} WHERE j.cell = $1 AND j.id = $2 AND j.seq > 0 AND j.endpoint = $3`;
const ENDPOINT = 'SELECT endpoint FROM capstan.jobs WHERE cell = $1 AND id = $2 AND seq > 0';
const BY_SEQ = `${WHOLE} WHERE j.cell = $1 AND j.seq = ANY ($2::bigint[])`;
const CHUNKS = 'SELECT seq, idx, inline, blob, size FROM capstan.chunks WHERE cell = $1 AND seq = ANY ($2::bigint[]) ORDER BY seq, idx';

type HeadTuple = [...JobTuple, input: Uint8Array | null];

const HEAD = `SELECT ${JOB_COLUMNS}, CASE WHEN octet_length(i.inline) <= $5 THEN i.inline END
FROM (SELECT * FROM capstan.jobs q WHERE q.cell = $1 AND q.state = 'IN_QUEUE' AND q.endpoint = $2 AND q.priority = $3 AND q.queue_position > $4
  ORDER BY q.queue_position LIMIT $6) j LEFT JOIN LATERAL
  (SELECT t.inline FROM capstan.inputs t WHERE t.cell = $1 AND t.seq = j.seq OFFSET 0) i ON true ORDER BY j.queue_position`;
const LEASED = `SELECT ${JOB_COLUMNS} FROM capstan.jobs j WHERE j.cell = $1 AND j.state = 'LEASED' AND j.seq > $2 ORDER BY j.seq LIMIT $3`;
const DUE = `SELECT ${JOB_COLUMNS} FROM capstan.jobs j WHERE j.cell = $1 AND j.delete_at >= 0 AND j.delete_at >= $2 AND j.delete_at <= $3 ORDER BY j.delete_at, j.seq LIMIT $4`;
const NEXT_DUE =
  'SELECT delete_at FROM capstan.jobs WHERE cell = $1 AND delete_at >= 0 AND (delete_at, seq) > ($2, $3) ORDER BY delete_at, seq LIMIT 1';
/** By the index of each part: a take-over waits for this count, and that of queued jobs need not touch the table. */
const COUNTS = `SELECT endpoint, 'IN_QUEUE', priority, count(*), 0 FROM capstan.jobs WHERE cell = $1 AND state = 'IN_QUEUE' GROUP BY endpoint, priority
UNION ALL SELECT endpoint, state::text, priority, count(*), sum(greatest(attempts - 1, 0)) FROM capstan.jobs WHERE cell = $1 AND state = 'LEASED'
  GROUP BY endpoint, state, priority
UNION ALL SELECT endpoint, state::text, priority, count(*), sum(greatest(attempts - 1, 0)) FROM capstan.jobs WHERE cell = $1 AND ended_at IS NOT NULL
  GROUP BY endpoint, state, priority`;
const HIGHEST = 'SELECT highest_seq, highest_queue_position FROM capstan.cells WHERE cell = $1';

/**
 * Newest first means latest submission or retry first, which is the order of positions. No index holds all of an endpoint's
 * jobs in that order (it would cost every submission); each state's own index does, and a page takes the newest of each.
 */
const ENDED = ['COMPLETED', 'FAILED', 'CANCELLED', 'TIMED_OUT'] as const;
const endedOf = (state: (typeof ENDED)[number]): string => `ended_at IS NOT NULL AND state = '${state}'`;
const SOURCES: Readonly<Record<StoredState, readonly string[]>> = {
  IN_QUEUE: ["state = 'IN_QUEUE' AND priority = 0", "state = 'IN_QUEUE' AND priority = 1"],
  LEASED: ["state = 'LEASED'"],
  COMPLETED: [endedOf('COMPLETED')],
  FAILED: [endedOf('FAILED')],
  CANCELLED: [endedOf('CANCELLED')],
  TIMED_OUT: [endedOf('TIMED_OUT')],
};

function pageSql(sources: readonly string[]): string {
  const newest = sources.map(
    (source) => `(SELECT seq, queue_position FROM capstan.jobs WHERE cell = $1 AND endpoint = $2 AND ${source}
    ORDER BY queue_position DESC LIMIT $3::bigint + $4::bigint)`,
  );
  return `SELECT seq FROM (${newest.join(' UNION ALL ')}) newest ORDER BY queue_position DESC, seq DESC LIMIT $4 OFFSET $3`;
}

function newestSql(sources: readonly string[]): string {
  const newest = sources.map(
    (source) => `(SELECT * FROM capstan.jobs WHERE cell = $1 AND endpoint = $2 AND ${source} AND queue_position < $3::bigint
    ORDER BY queue_position DESC LIMIT $4::bigint)`,
  );
  return `SELECT ${JOB_COLUMNS} FROM (${newest.join(' UNION ALL ')}) j ORDER BY j.queue_position DESC LIMIT $4::bigint`;
}

function totalSql(sources: readonly string[]): string {
  const counts = sources.map(
    (source) =>
      `(SELECT count(*) FROM (SELECT 1 FROM capstan.jobs WHERE cell = $1 AND endpoint = $2 AND ${source} LIMIT ${MAX_LISTED}) bounded)`,
  );
  return `SELECT least(${MAX_LISTED}, ${counts.join(' + ')})`;
}

type JobReads = Pick<AsyncReads<Reads>, 'job' | 'endpointOfJob' | 'head' | 'leased' | 'due' | 'counts' | 'highest' | 'page' | 'newest'>;

export function jobReads(query: Query, cell: number, edges: LeftEdges, codec: PayloadCodec): JobReads {
  const whole = async (tuples: readonly WholeJobTuple[]): Promise<WholeJob[]> => {
    const rows = tuples.map((tuple) => ({ job: toJob(tuple), ...resultOf(tuple) }));
    const withChunks = rows.filter(({ chunks }) => chunks > 0).map(({ job }) => job.seq);
    const chunks =
      withChunks.length === 0 ? [] : await query<[seq: number, idx: number, ...PayloadTuple]>('chunks', CHUNKS, [cell, withChunks]);
    return rows.map(({ job, output, chunks: count }) => {
      const kept = count === 0 ? [] : chunks.filter(([seq]) => seq === job.seq);
      return {
        job,
        output: fromPayloadColumns(output, codec),
        chunks: kept.map(([, , ...columns]) => fromWholePayloadColumns(columns, codec)),
        firstChunk: kept[0]?.[1] ?? 0,
      };
    });
  };
  return {
    async job(endpoint, id) {
      const [found] = await whole(await query<WholeJobTuple>('job', ONE, [cell, id, endpoint]));
      return found ?? null;
    },
    async endpointOfJob(id) {
      const [found] = await query<[string]>('endpoint-of-job', ENDPOINT, [cell, id]);
      return found?.[0] ?? null;
    },
    async head({ endpoint, priority, after, limit, inputLimit }) {
      const edge = edges.queue(endpoint, priority);
      return fromLeft(edge, after, async (from) => {
        const rows = await query<HeadTuple>('head', HEAD, [
          cell,
          endpoint,
          priority,
          from,
          inputLimit + MAX_PAYLOAD_OVERHEAD,
          bound(limit),
        ]);
        const found = rows.map((row) => ({ job: toJob(row), input: toQueuedInput(besideJob(row), codec, inputLimit) }));
        return [found, found[0]?.job.queuePosition ?? NONE];
      });
    },
    async leased(afterSeq, limit) {
      return fromLeft(edges.leased, afterSeq, async (from) => {
        const found = (await query<JobTuple>('leased', LEASED, [cell, from, bound(limit)])).map(toJob);
        return [found, found[0]?.seq ?? NONE];
      });
    },
    due(wall, limit) {
      return edges.due.look(async (from) => {
        const jobs = (await query<JobTuple>('due', DUE, [cell, from, Math.trunc(wall), bound(limit)])).map(toJob);
        const last = jobs.at(-1);
        const [next] = await query<[number]>('next-due', NEXT_DUE, [cell, last?.deleteAt ?? from - 1, last?.seq ?? NONE]);
        const nextAt = next?.[0] ?? null;
        return [{ jobs, nextAt }, jobs[0]?.deleteAt ?? nextAt ?? NONE];
      });
    },
    async counts() {
      const rows = await query<[string, StoredState, 0 | 1, number, number | string]>('counts', COUNTS, [cell]);
      return rows.map(([endpoint, state, priority, count, retried]) => ({ endpoint, state, priority, count, retried: Number(retried) }));
    },
    async highest() {
      const [row] = await query<[number, number]>('highest', HIGHEST, [cell]);
      return { seq: row?.[0] ?? 0, queuePosition: row?.[1] ?? 0 };
    },
    async page(endpoint, state, offset, limit) {
      const sources = state === null ? Object.values(SOURCES).flat() : SOURCES[state];
      const name = state ?? 'all';
      const from = Math.min(bound(offset), MAX_LISTED);
      const most = Math.min(bound(limit), MAX_LISTED - from);
      const seqs = (await query<[number]>(`page-${name}`, pageSql(sources), [cell, endpoint, from, most])).map(([seq]) => seq);
      const [total] = await query<[number]>(`total-${name}`, totalSql(sources), [cell, endpoint]);
      const found = seqs.length === 0 ? [] : await whole(await query<WholeJobTuple>('jobs-by-seq', BY_SEQ, [cell, seqs]));
      const bySeq = new Map(found.map((each) => [each.job.seq, each]));
      return { jobs: seqs.flatMap((seq) => bySeq.get(seq) ?? []), total: total?.[0] ?? 0 };
    },
    async newest(endpoint, state, before, limit) {
      const sources = state === null ? Object.values(SOURCES).flat() : SOURCES[state];
      const values = [cell, endpoint, bound(before), bound(limit)];
      return (await query<JobTuple>(`newest-${state ?? 'all'}`, newestSql(sources), values)).map(toJob);
    },
  };
}

/** Reads the rows with a key above `after`: from the edge on, if that is further right; then the edge moves. */
async function fromLeft<R>(edge: LeftEdge, after: number, read: (after: number) => Promise<readonly [R, number]>): Promise<R> {
  if (after >= edge.at) return (await read(after))[0];
  return edge.look((from) => read(edge.isLeast ? after : Math.max(after, from - 1)));
}
