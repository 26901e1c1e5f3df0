import { PLACE, lookUp, returnRefused, usageOf, type Operation } from './operation.ts';

/** Removes a job in any state with its bodies; with `due_by` only when it is due by then. */
export const remove: Operation = {
  type: 'delete',
  columns: [...PLACE, ['seq', 'int8'], ['due_by', 'int8']],
  apply: `
  WITH removed AS (
    DELETE FROM capstan.jobs j USING unnest(p_delete) g, ${lookUp('jobs', 't.seq = g.seq')}
      WHERE g.wave = w AND j.ctid = f.place AND (g.due_by IS NULL OR j.delete_at <= g.due_by)
    RETURNING g.at, j.seq, j.endpoint, j.output_blob, j.chunks, octet_length(j.output) AS bytes
  ), dropped_inputs AS (
    DELETE FROM capstan.inputs i USING removed r, ${lookUp('inputs', 't.seq = r.seq')} WHERE i.ctid = f.place
    RETURNING r.at, r.endpoint, i.blob, octet_length(i.inline) AS bytes
  ), dropped_chunks AS (
    DELETE FROM capstan.chunks c USING removed r, ${lookUp('chunks', 't.seq = r.seq')} WHERE r.chunks > 0 AND c.ctid = f.place
    RETURNING r.at, r.endpoint, c.idx, c.blob, octet_length(c.inline) AS bytes
  ), named AS (
    SELECT i.at, -2 AS idx, i.blob FROM dropped_inputs i WHERE i.blob IS NOT NULL
    UNION ALL SELECT r.at, -1, r.output_blob FROM removed r WHERE r.output_blob IS NOT NULL
    UNION ALL SELECT c.at, c.idx, c.blob FROM dropped_chunks c WHERE c.blob IS NOT NULL
  )
  SELECT coalesce((SELECT array_agg(r.at) FROM removed r), '{}'),
    (SELECT array_agg(ROW (n.at, n.blob)::capstan.dropped_blob ORDER BY n.at, n.idx) FROM named n),
    usage || ${usageOf(`SELECT r.endpoint, -r.bytes AS bytes FROM removed r UNION ALL SELECT i.endpoint, -i.bytes FROM dropped_inputs i
      UNION ALL SELECT c.endpoint, -c.bytes FROM dropped_chunks c`)}
    INTO applied, dropped_blobs, usage;${returnRefused('delete')}
  IF dropped_blobs IS NOT NULL THEN
    RETURN QUERY SELECT d.at, 'ok', NULL::text, array_agg(d.blob) FROM unnest(dropped_blobs) d GROUP BY d.at;
  END IF;`,
};
