/** What happened at endpoints, in PostgreSQL: written on the connections that read, so that no batch waits for it. */
import { keptMs, type HistoryStore } from '../history.ts';
import type { Query } from './reads/query.ts';

/** $1 cell, $2 to $5 the rows' columns, $6 before when rows of its step are removed. No row is twice in one call. */
const SAVE = `WITH given AS MATERIALIZED (
  SELECT * FROM unnest($2::text[], $3::int[], $4::bigint[], $5::text[], $6::bigint[]) g (endpoint, step, at, value, expired)
), removed AS (
  DELETE FROM capstan.history h USING given g WHERE h.endpoint = g.endpoint AND h.step = g.step AND h.at < g.expired
)
INSERT INTO capstan.history (endpoint, step, at, value)
SELECT g.endpoint, g.step, g.at, g.value FROM given g
WHERE EXISTS (SELECT FROM capstan.control c WHERE c.cell = $1 AND c.kind = 'endpoint' AND c.key = g.endpoint)
ON CONFLICT (endpoint, step, at) DO UPDATE SET value = excluded.value`;
const READ = 'SELECT at, value FROM capstan.history WHERE endpoint = $1 AND step = $2 AND at >= $3 AND at < $4 ORDER BY at';

export function historyOf(query: Query, cell: number): HistoryStore {
  return {
    async save(rows) {
      const columns = [
        rows.map(({ endpoint }) => endpoint),
        rows.map(({ step }) => step),
        rows.map(({ at }) => at),
        rows.map(({ value }) => value),
        rows.map(({ step, at }) => at - keptMs(step)),
      ];
      await query('save-history', SAVE, [cell, ...columns]);
    },
    async read({ endpoint, step, from, until }) {
      const rows = await query<[number, string]>('history', READ, [endpoint, step, from, until]);
      return rows.map(([at, value]) => ({ at, value }));
    },
  };
}
