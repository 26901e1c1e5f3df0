import { PLACE, type Operation } from './operation.ts';

/** Drops the chunks of an ended job below an index. */
export const drain: Operation = {
  type: 'drain',
  columns: [...PLACE, ['seq', 'int8'], ['below', 'int4']],
  apply: `
  RETURN QUERY SELECT g.at, CASE WHEN j.seq IS NULL THEN 'gone' ELSE 'stale' END, NULL::text, NULL::text[]
    FROM unnest(p_drain) g LEFT JOIN capstan.jobs j ON j.cell = p_cell AND j.seq = g.seq
    WHERE g.wave = w AND j.ended_at IS NULL;
  WITH dropped_chunks AS (
    DELETE FROM capstan.chunks c USING unnest(p_drain) g, capstan.jobs j
      WHERE g.wave = w AND j.cell = p_cell AND j.seq = g.seq AND j.ended_at IS NOT NULL
        AND c.cell = p_cell AND c.seq = g.seq AND c.idx < g.below
    RETURNING g.at, c.seq, c.idx, c.blob
  ), counted AS (
    UPDATE capstan.jobs j SET chunks = j.chunks - d.dropped
      FROM (SELECT seq, count(*)::int AS dropped FROM dropped_chunks GROUP BY seq) d WHERE j.cell = p_cell AND j.seq = d.seq
  )
  SELECT array_agg(ROW (d.at, d.blob)::capstan.dropped_blob ORDER BY d.at, d.idx) INTO dropped_blobs
    FROM dropped_chunks d WHERE d.blob IS NOT NULL;
  IF dropped_blobs IS NOT NULL THEN
    RETURN QUERY SELECT d.at, 'ok', NULL::text, array_agg(d.blob) FROM unnest(dropped_blobs) d GROUP BY d.at;
  END IF;`,
};
