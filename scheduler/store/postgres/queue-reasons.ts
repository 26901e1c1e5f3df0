/** Why the queues of endpoints waited, in PostgreSQL: written on the connections that read, so that no batch waits for it. */
import { MAX_REASONS, REASONS_KEPT_MS, type QueueReasonStore } from '../queue-reasons.ts';
import type { Query } from './reads/query.ts';

/** $1 cell, $2 to $5 the rows' columns, $6 before when rows of the endpoint are removed. The new row is not among those that are counted. */
const SAVE = `WITH given AS MATERIALIZED (
  SELECT * FROM unnest($2::text[], $3::bigint[], $4::text[], $5::text[], $6::bigint[]) g (endpoint, at, reason, detail, expired)
), removed AS (
  DELETE FROM capstan.queue_reasons r USING given g WHERE r.endpoint = g.endpoint AND (r.at < g.expired OR r.at <= (
    SELECT o.at FROM capstan.queue_reasons o WHERE o.endpoint = g.endpoint AND o.at <> g.at ORDER BY o.at DESC LIMIT 1 OFFSET ${MAX_REASONS - 1}))
)
INSERT INTO capstan.queue_reasons (endpoint, at, reason, detail)
SELECT g.endpoint, g.at, g.reason, g.detail FROM given g
WHERE EXISTS (SELECT FROM capstan.control c WHERE c.cell = $1 AND c.kind = 'endpoint' AND c.key = g.endpoint)
ON CONFLICT (endpoint, at) DO UPDATE SET reason = excluded.reason, detail = excluded.detail`;
const READ = `SELECT at, reason, detail FROM capstan.queue_reasons WHERE endpoint = $1 AND at < $3
AND at >= coalesce((SELECT max(at) FROM capstan.queue_reasons WHERE endpoint = $1 AND at <= $2), 0) ORDER BY at`;
/** Looked up for each endpoint of the cell. */
const STANDING = `SELECT c.key, l.reason FROM capstan.control c
CROSS JOIN LATERAL (SELECT r.reason FROM capstan.queue_reasons r WHERE r.endpoint = c.key ORDER BY r.at DESC LIMIT 1) l
WHERE c.cell = $1 AND c.kind = 'endpoint' AND l.reason <> ''`;

export function queueReasonsOf(query: Query, cell: number): QueueReasonStore {
  return {
    async save(rows) {
      const columns = [
        rows.map(({ endpoint }) => endpoint),
        rows.map(({ at }) => at),
        rows.map(({ reason }) => reason),
        // PostgreSQL's texts cannot hold it.
        rows.map(({ detail }) => detail.replaceAll('\0', '\uFFFD')),
        rows.map(({ at }) => at - REASONS_KEPT_MS),
      ];
      await query('save-queue-reasons', SAVE, [cell, ...columns]);
    },
    async read({ endpoint, from, until }) {
      const rows = await query<[number, string, string]>('queue-reasons', READ, [endpoint, from, until]);
      return rows.map(([at, reason, detail]) => ({ at, reason, detail }));
    },
    async standing() {
      const rows = await query<[string, string]>('standing-queue-reasons', STANDING, [cell]);
      return rows.map(([endpoint, reason]) => ({ endpoint, reason }));
    },
  };
}
