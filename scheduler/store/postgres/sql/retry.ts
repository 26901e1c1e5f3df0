import { PLACE, lookUp, returnRefused, usageOf, type Operation } from './operation.ts';

/** FAILED or TIMED_OUT → IN_QUEUE at a new position. The row is read before it is written: its chunks go with the old end. */
export const retry: Operation = {
  type: 'retry',
  version: 2,
  columns: [
    ...PLACE,
    ['seq', 'int8'],
    ['queue_position', 'int8'],
    ['submitted_at', 'int8'],
    ['delete_at', 'int8'],
    ['past_attempts', 'text'],
  ],
  apply: `
  WITH ended AS MATERIALIZED (
    SELECT g.at, f.* FROM unnest(p_retry) g, ${lookUp('jobs', 't.seq = g.seq', 't.seq, t.state, t.endpoint, t.output_blob, t.chunks, octet_length(t.output) AS bytes')}
    WHERE g.wave = w AND f.state IN ('FAILED', 'TIMED_OUT')
  ), dropped_chunks AS (
    DELETE FROM capstan.chunks c USING ended e, ${lookUp('chunks', 't.seq = e.seq')} WHERE e.chunks > 0 AND c.ctid = f.place
    RETURNING e.at, e.endpoint, c.idx, c.blob, octet_length(c.inline) AS bytes
  ), named AS (
    SELECT e.at, -1 AS idx, e.output_blob AS blob FROM ended e WHERE e.output_blob IS NOT NULL
    UNION ALL SELECT d.at, d.idx, d.blob FROM dropped_chunks d WHERE d.blob IS NOT NULL
  )
  SELECT coalesce((SELECT array_agg(e.at) FROM ended e), '{}'),
    (SELECT array_agg(ROW (n.at, n.blob)::capstan.dropped_blob ORDER BY n.at, n.idx) FROM named n),
    usage || ${usageOf('SELECT e.endpoint, -e.bytes AS bytes FROM ended e UNION ALL SELECT d.endpoint, -d.bytes FROM dropped_chunks d')}
    INTO applied, dropped_blobs, usage;
  UPDATE capstan.jobs j SET state = 'IN_QUEUE', queue_position = g.queue_position, submitted_at = g.submitted_at, delete_at = g.delete_at,
      token = j.token + 1, attempts = 0, worker = NULL, started_at = NULL, ended_at = NULL, delay_ms = NULL, execution_ms = NULL,
      error = NULL, output = NULL, output_blob = NULL, output_size = NULL, chunks = 0, past_attempts = g.past_attempts
    FROM unnest(p_retry) g, ${lookUp('jobs', 't.seq = g.seq')}
    WHERE g.wave = w AND g.at = ANY (applied) AND j.ctid = f.place;${returnRefused('retry')}
  IF dropped_blobs IS NOT NULL THEN
    RETURN QUERY SELECT d.at, 'ok', NULL::text, array_agg(d.blob) FROM unnest(dropped_blobs) d GROUP BY d.at;
  END IF;`,
};
