import { DELIVERY_BYTES } from './finish.ts';
import { PLACE, inWave, lookUp, rowExists, usageOf, type Operation } from './operation.ts';

/** Changes a webhook's delivery, or removes it (`state` null). */
export const delivery: Operation = {
  type: 'hook',
  columns: [...PLACE, ['id', 'text'], ['after', 'int4'], ['state', 'text'], ['due_at', 'int8'], ['tries', 'int4'], ['error', 'text']],
  apply: `
  WITH changed AS (
    UPDATE capstan.hooks h SET state = g.state::capstan.hook_state, due_at = g.due_at, tries = g.tries, error = g.error
      FROM unnest(p_hook) g, ${lookUp('hooks', 't.id = g.id')}
      WHERE g.wave = w AND g.state IS NOT NULL AND h.ctid = f.place AND h.tries = coalesce(g.after, h.tries)
    RETURNING g.at, h.host
  ), removed AS (
    DELETE FROM capstan.hooks h USING unnest(p_hook) g, ${lookUp('hooks', 't.id = g.id')}
      WHERE g.wave = w AND g.state IS NULL AND h.ctid = f.place AND h.tries = coalesce(g.after, h.tries)
    RETURNING g.at, h.host, h.endpoint, h.input_blob, h.output_blob, ${DELIVERY_BYTES} AS bytes
  ), done AS (
    SELECT c.at, c.host FROM changed c UNION ALL SELECT r.at, r.host FROM removed r
  ), named AS (
    SELECT r.at, 0 AS idx, r.input_blob AS blob FROM removed r WHERE r.input_blob IS NOT NULL
    UNION ALL SELECT r.at, 1, r.output_blob FROM removed r WHERE r.output_blob IS NOT NULL
  )
  SELECT (SELECT array_agg(g.at) FROM ${inWave('hook', 'g')} AND g.at NOT IN (SELECT d.at FROM done d)),
    (SELECT array_agg(ROW (n.at, n.blob)::capstan.dropped_blob ORDER BY n.at, n.idx) FROM named n),
    usage || ${usageOf('SELECT r.endpoint, -r.bytes AS bytes FROM removed r')}
    INTO refused, dropped_blobs, usage;
  IF refused IS NOT NULL THEN
    RETURN QUERY SELECT g.at,
      CASE WHEN ${rowExists('hooks', 't.id = g.id')} THEN 'stale' ELSE 'gone' END, NULL::text, NULL::text[]
      FROM unnest(p_hook) g WHERE g.at = ANY (refused);
  END IF;
  IF dropped_blobs IS NOT NULL THEN
    RETURN QUERY SELECT d.at, 'ok', NULL::text, array_agg(d.blob) FROM unnest(dropped_blobs) d GROUP BY d.at;
  END IF;`,
};
