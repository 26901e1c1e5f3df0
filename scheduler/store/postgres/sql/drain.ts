import { PLACE, lookUp, usageOf, type Operation } from './operation.ts';

/** Drops the chunks of an ended job below an index. */
export const drain: Operation = {
  type: 'drain',
  columns: [...PLACE, ['seq', 'int8'], ['below', 'int4']],
  apply: `
  RETURN QUERY SELECT g.at, CASE WHEN f.seq IS NULL THEN 'gone' ELSE 'stale' END, NULL::text, NULL::text[]
    FROM unnest(p_drain) g LEFT JOIN ${lookUp('jobs', 't.seq = g.seq', 't.seq, t.ended_at')} ON true
    WHERE g.wave = w AND f.ended_at IS NULL;
  WITH ended AS MATERIALIZED (
    SELECT g.at, g.seq, g.below, f.endpoint FROM unnest(p_drain) g, ${lookUp('jobs', 't.seq = g.seq', 't.ended_at, t.endpoint')}
    WHERE g.wave = w AND f.ended_at IS NOT NULL
  ), dropped_chunks AS (
    DELETE FROM capstan.chunks c USING ended e, ${lookUp('chunks', 't.seq = e.seq AND t.idx < e.below')} WHERE c.ctid = f.place
    RETURNING e.at, e.endpoint, c.seq, c.idx, c.blob, octet_length(c.inline) AS bytes
  ), counted AS (
    UPDATE capstan.jobs j SET chunks = j.chunks - d.dropped
      FROM (SELECT seq, count(*)::int AS dropped FROM dropped_chunks GROUP BY seq) d, ${lookUp('jobs', 't.seq = d.seq')} WHERE j.ctid = f.place
  )
  SELECT array_agg(ROW (d.at, d.blob)::capstan.dropped_blob ORDER BY d.at, d.idx) FILTER (WHERE d.blob IS NOT NULL),
      usage || ${usageOf('SELECT e.endpoint, -e.bytes AS bytes FROM dropped_chunks e')}
    INTO dropped_blobs, usage FROM dropped_chunks d;
  IF dropped_blobs IS NOT NULL THEN
    RETURN QUERY SELECT d.at, 'ok', NULL::text, array_agg(d.blob) FROM unnest(dropped_blobs) d GROUP BY d.at;
  END IF;`,
};
