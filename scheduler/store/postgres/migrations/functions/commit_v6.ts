/**
 * `capstan.commit_v6`: `commit_v5` whose submissions name the API key. It is what sql/batch.ts makes, which a test holds.
 */
export const COMMIT_V6 = `
CREATE OR REPLACE FUNCTION capstan.commit_v6(
  p_cell int, p_term bigint, p_batch bigint, p_now bigint, p_seq bigint, p_queue_position bigint,
  -- For each wave, which types it holds; whether any submission has an idempotency key; how many expired rows to remove.
  p_waves int[], p_keyed boolean, p_sweep int, p_put capstan.put_v1[], p_submit capstan.submit_v3[], p_lease capstan.lease_v1[], p_started capstan.started_v1[], p_finish capstan.finish_v1[], p_chunk capstan.chunk_v1[], p_new_hook capstan.new_hook_v1[], p_requeue capstan.requeue_v2[], p_retry capstan.retry_v2[], p_delete capstan.delete_v1[], p_drain capstan.drain_v1[], p_reencrypt capstan.reencrypt_v1[], p_hook capstan.hook_v1[]
) RETURNS TABLE (at int, outcome text, job_id text, dropped text[]) LANGUAGE plpgsql AS $function$
#variable_conflict use_column
DECLARE
  queued CONSTANT capstan.job_state := 'IN_QUEUE';
  leased CONSTANT capstan.job_state := 'LEASED';
  w int;
  mask int;
  expected int;
  applied int[];
  inserted bigint[];
  refused int[];
  existing int[];
  dropped_blobs capstan.dropped_blob[];
  swept int;
  -- What the batch changes in the bytes that rows hold of payloads themselves.
  usage capstan.usage_change[] := '{}';
  row_setting CONSTANT text := 'capstan.row_of_cell_' || p_cell;
  row_place tid;
BEGIN
  UPDATE capstan.cells c SET batch = p_batch, wall = greatest(c.wall, p_now), highest_seq = greatest(c.highest_seq, p_seq),
      highest_queue_position = greatest(c.highest_queue_position, p_queue_position),
      counted_batch = CASE WHEN c.counted_batch = p_batch - 1 THEN p_batch ELSE c.counted_batch END WHERE c.ctid = nullif(current_setting(row_setting, true), '')::tid AND c.cell = p_cell AND c.term = p_term AND c.batch = p_batch - 1
    RETURNING c.ctid INTO row_place;
  IF NOT FOUND THEN
    UPDATE capstan.cells c SET batch = p_batch, wall = greatest(c.wall, p_now), highest_seq = greatest(c.highest_seq, p_seq),
      highest_queue_position = greatest(c.highest_queue_position, p_queue_position),
      counted_batch = CASE WHEN c.counted_batch = p_batch - 1 THEN p_batch ELSE c.counted_batch END WHERE c.cell = p_cell AND c.term = p_term AND c.batch = p_batch - 1 RETURNING c.ctid INTO row_place;
  END IF;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'cell % is no longer owned under term %, or batch % is out of turn', p_cell, p_term, p_batch USING ERRCODE = 'CT001';
  END IF;
  PERFORM set_config(row_setting, row_place::text, false);
  FOR w IN 1 .. cardinality(p_waves) LOOP
  mask := p_waves[w];
  IF mask & 1 <> 0 THEN
  -- An endpoint that goes may say whose the bodies of earlier operations are.
  IF usage <> '{}' THEN
    PERFORM capstan.add_usage_v1(p_cell, usage);
    usage := '{}';
  END IF;
  WITH inserted AS (
    INSERT INTO capstan.control (cell, kind, key, version, account, value)
      SELECT p_cell, g.kind, g.key, 1, g.account, g.value::json FROM unnest(p_put) g WHERE g.wave = w AND g.value IS NOT NULL AND g.version = 1
      ON CONFLICT DO NOTHING RETURNING kind, key
  ), updated AS (
    UPDATE capstan.control c SET version = g.version, account = g.account, value = g.value::json
      FROM unnest(p_put) g, LATERAL (SELECT t.ctid AS place FROM capstan.control t WHERE t.cell = p_cell AND t.kind = g.kind AND t.key = g.key OFFSET 0) f
      WHERE g.wave = w AND g.value IS NOT NULL AND g.version > 1 AND c.ctid = f.place AND c.version = g.version - 1
    RETURNING c.kind, c.key
  ), removed AS (
    DELETE FROM capstan.control c USING unnest(p_put) g, LATERAL (SELECT t.ctid AS place FROM capstan.control t WHERE t.cell = p_cell AND t.kind = g.kind AND t.key = g.key OFFSET 0) f
      WHERE g.wave = w AND g.value IS NULL AND c.ctid = f.place AND c.version = g.version - 1
    RETURNING c.kind, c.key
  ), done AS (
    SELECT i.kind, i.key FROM inserted i UNION ALL SELECT u.kind, u.key FROM updated u UNION ALL SELECT r.kind, r.key FROM removed r
  )
  SELECT array_agg(g.at) INTO refused FROM unnest(p_put) g WHERE g.wave = w AND (g.kind, g.key) NOT IN (SELECT d.kind, d.key FROM done d);
  IF refused IS NOT NULL THEN
    RETURN QUERY SELECT g.at,
      CASE WHEN g.value IS NULL AND NOT coalesce((SELECT true FROM capstan.control t WHERE t.cell = p_cell AND t.kind = g.kind AND t.key = g.key), false)
        THEN 'gone' ELSE 'conflict' END, NULL::text, NULL::text[]
      FROM unnest(p_put) g WHERE g.at = ANY (refused);
  END IF;
  END IF;
  IF mask & 2 <> 0 THEN
  refused := '{}';
  IF p_keyed THEN
    SELECT coalesce(array_agg(g.at), '{}') INTO refused FROM unnest(p_submit) g, LATERAL (SELECT t.expires_at FROM capstan.idempotency t WHERE t.cell = p_cell AND t.key = g.key OFFSET 0) f
      WHERE g.wave = w AND g.key IS NOT NULL AND f.expires_at > p_now;
  END IF;
  IF refused <> '{}' THEN
    RETURN QUERY SELECT g.at,
      CASE WHEN coalesce((SELECT true FROM capstan.jobs t WHERE t.cell = p_cell AND t.id = g.id AND t.seq > 0), false) THEN 'exists'
        WHEN f.body_hash = g.body_hash THEN 'idempotent-same' ELSE 'idempotent-other-body' END, f.job_id, NULL::text[]
      FROM unnest(p_submit) g, LATERAL (SELECT t.job_id, t.body_hash FROM capstan.idempotency t WHERE t.cell = p_cell AND t.key = g.key OFFSET 0) f
      WHERE g.at = ANY (refused);
  END IF;
  WITH new AS (
    INSERT INTO capstan.jobs (cell, has_s3, seq, id, endpoint, kind, state, priority, queue_position, token, attempts, node, incarnation, worker, submitted_at, delete_at, execution_timeout_ms, ttl_ms, retention_ms, webhook, trace, tags, submitted_by)
    SELECT p_cell, g.s3 IS NOT NULL, g.seq, g.id, g.endpoint, g.kind::capstan.job_kind, g.state::capstan.job_state, g.priority, g.queue_position, g.token, g.attempts, g.node, g.incarnation, g.worker, g.submitted_at, g.delete_at, g.execution_timeout_ms, g.ttl_ms, g.retention_ms, g.webhook, g.trace, g.tags, g.submitted_by
    FROM unnest(p_submit) g WHERE g.wave = w AND NOT g.at = ANY (refused)
    ON CONFLICT (cell, id) WHERE seq > 0 DO NOTHING RETURNING seq
  )
  SELECT coalesce(array_agg(seq), '{}') INTO inserted FROM new;
  IF cardinality(p_waves) = 1 THEN
    expected := cardinality(p_submit);
  ELSE
    SELECT count(*) INTO expected FROM unnest(p_submit) g WHERE g.wave = w;
  END IF;
  IF cardinality(inserted) + cardinality(refused) <> expected THEN
    SELECT array_agg(g.at) INTO existing FROM unnest(p_submit) g WHERE g.wave = w AND NOT g.at = ANY (refused) AND NOT g.seq = ANY (inserted);
    RETURN QUERY SELECT u.at, 'exists', NULL::text, NULL::text[] FROM unnest(existing) u (at);
    refused := refused || existing;
  END IF;
  INSERT INTO capstan.inputs (cell, seq, inline, blob, size, s3)
    SELECT p_cell, g.seq, g.inline, g.blob, g.size, g.s3 FROM unnest(p_submit) g WHERE g.wave = w AND NOT g.at = ANY (refused);
  usage := usage || (SELECT array_agg(ROW (s.endpoint, s.bytes)::capstan.usage_change)
    FROM (SELECT u.endpoint, sum(u.bytes) AS bytes FROM (SELECT g.endpoint, octet_length(g.inline) AS bytes FROM unnest(p_submit) g WHERE g.wave = w AND NOT g.at = ANY (refused)) u GROUP BY u.endpoint) s WHERE s.bytes <> 0);
  IF p_keyed THEN
    INSERT INTO capstan.idempotency (cell, key, job_id, body_hash, expires_at)
      SELECT p_cell, g.key, g.id, g.body_hash, g.expires_at FROM unnest(p_submit) g WHERE g.wave = w AND g.key IS NOT NULL AND NOT g.at = ANY (refused)
      ON CONFLICT (cell, key) DO UPDATE SET job_id = excluded.job_id, body_hash = excluded.body_hash, expires_at = excluded.expires_at;
  END IF;
  END IF;
  IF mask & 4 <> 0 THEN
  WITH done AS (
    UPDATE capstan.jobs j SET state = 'LEASED', token = g.token, node = g.node, incarnation = g.incarnation, worker = g.worker,
      started_at = NULL, delay_ms = NULL
    FROM unnest(p_lease) g, LATERAL (SELECT t.ctid AS place FROM capstan.jobs t WHERE t.cell = p_cell AND t.seq = g.seq OFFSET 0) f
    WHERE g.wave = w AND j.ctid = f.place AND j.state = queued AND j.token = g.token - 1
    RETURNING g.at
  )
  SELECT coalesce(array_agg(at), '{}') INTO applied FROM done;
  IF cardinality(p_waves) = 1 THEN
    expected := cardinality(p_lease);
  ELSE
    SELECT count(*) INTO expected FROM unnest(p_lease) g WHERE g.wave = w;
  END IF;
  refused := '{}';
  IF cardinality(applied) <> expected THEN
    SELECT array_agg(g.at) INTO refused FROM unnest(p_lease) g WHERE g.wave = w AND NOT g.at = ANY (applied);
    RETURN QUERY SELECT g.at,
      CASE WHEN coalesce((SELECT true FROM capstan.jobs t WHERE t.cell = p_cell AND t.seq = g.seq), false) THEN 'stale' ELSE 'gone' END, NULL::text, NULL::text[]
      FROM unnest(p_lease) g WHERE g.at = ANY (refused);
  END IF;
  END IF;
  IF mask & 8 <> 0 THEN
  WITH done AS (
    UPDATE capstan.jobs j SET started_at = g.started_at, attempts = g.attempts, delay_ms = g.delay_ms
    FROM unnest(p_started) g, LATERAL (SELECT t.ctid AS place FROM capstan.jobs t WHERE t.cell = p_cell AND t.seq = g.seq OFFSET 0) f
    WHERE g.wave = w AND j.ctid = f.place AND j.state = leased AND j.token = g.token
    RETURNING g.at
  )
  SELECT coalesce(array_agg(at), '{}') INTO applied FROM done;
  IF cardinality(p_waves) = 1 THEN
    expected := cardinality(p_started);
  ELSE
    SELECT count(*) INTO expected FROM unnest(p_started) g WHERE g.wave = w;
  END IF;
  refused := '{}';
  IF cardinality(applied) <> expected THEN
    SELECT array_agg(g.at) INTO refused FROM unnest(p_started) g WHERE g.wave = w AND NOT g.at = ANY (applied);
    RETURN QUERY SELECT g.at,
      CASE WHEN coalesce((SELECT true FROM capstan.jobs t WHERE t.cell = p_cell AND t.seq = g.seq), false) THEN 'stale' ELSE 'gone' END, NULL::text, NULL::text[]
      FROM unnest(p_started) g WHERE g.at = ANY (refused);
  END IF;
  END IF;
  IF mask & 16 <> 0 THEN
  WITH done AS (
    UPDATE capstan.jobs j SET state = g.state::capstan.job_state, node = NULL, incarnation = NULL, ended_at = g.ended_at,
      delete_at = g.delete_at, attempts = g.attempts, delay_ms = g.delay_ms, execution_ms = g.execution_ms, error = g.error,
      output = g.output, output_blob = g.output_blob, output_size = g.output_size, chunks = g.chunks
    FROM unnest(p_finish) g, LATERAL (SELECT t.ctid AS place FROM capstan.jobs t WHERE t.cell = p_cell AND t.seq = g.seq OFFSET 0) f
    WHERE g.wave = w AND j.ctid = f.place AND j.state = g.expected::capstan.job_state AND j.token = g.token
    RETURNING g.at, j.endpoint, octet_length(g.output) AS bytes
  )
  SELECT coalesce(array_agg(d.at), '{}'), usage || (SELECT array_agg(ROW (s.endpoint, s.bytes)::capstan.usage_change)
    FROM (SELECT u.endpoint, sum(u.bytes) AS bytes FROM (SELECT e.endpoint, e.bytes FROM done e) u GROUP BY u.endpoint) s WHERE s.bytes <> 0)
    INTO applied, usage FROM done d;
  IF cardinality(p_waves) = 1 THEN
    expected := cardinality(p_finish);
  ELSE
    SELECT count(*) INTO expected FROM unnest(p_finish) g WHERE g.wave = w;
  END IF;
  refused := '{}';
  IF cardinality(applied) <> expected THEN
    SELECT array_agg(g.at) INTO refused FROM unnest(p_finish) g WHERE g.wave = w AND NOT g.at = ANY (applied);
    RETURN QUERY SELECT g.at,
      CASE WHEN coalesce((SELECT true FROM capstan.jobs t WHERE t.cell = p_cell AND t.seq = g.seq), false) THEN 'stale' ELSE 'gone' END, NULL::text, NULL::text[]
      FROM unnest(p_finish) g WHERE g.at = ANY (refused);
  END IF;
  IF p_chunk IS NOT NULL THEN
    INSERT INTO capstan.chunks (cell, seq, idx, inline, blob, size)
      SELECT p_cell, c.seq, c.idx, c.inline, c.blob, c.size FROM unnest(p_chunk) c WHERE c.wave = w AND NOT c.at = ANY (refused);
    usage := usage || (SELECT array_agg(ROW (s.endpoint, s.bytes)::capstan.usage_change)
    FROM (SELECT u.endpoint, sum(u.bytes) AS bytes FROM (SELECT f.endpoint, octet_length(c.inline) AS bytes
      FROM unnest(p_chunk) c, LATERAL (SELECT t.endpoint FROM capstan.jobs t WHERE t.cell = p_cell AND t.seq = c.seq OFFSET 0) f WHERE c.wave = w AND NOT c.at = ANY (refused)) u GROUP BY u.endpoint) s WHERE s.bytes <> 0);
  END IF;
  IF p_new_hook IS NOT NULL THEN
    -- Another life of the id, whose job was deleted and then sent again: the newer end stands.
    WITH former AS (
      DELETE FROM capstan.hooks h USING unnest(p_new_hook) g, LATERAL (SELECT t.ctid AS place FROM capstan.hooks t WHERE t.cell = p_cell AND t.id = g.id OFFSET 0) f
        WHERE g.wave = w AND NOT g.at = ANY (refused) AND h.ctid = f.place
      RETURNING h.endpoint, coalesce(octet_length(h.input), 0) + coalesce(octet_length(h.output), 0) AS bytes
    )
    SELECT usage || (SELECT array_agg(ROW (s.endpoint, s.bytes)::capstan.usage_change)
    FROM (SELECT u.endpoint, sum(u.bytes) AS bytes FROM (SELECT r.endpoint, -r.bytes AS bytes FROM former r) u GROUP BY u.endpoint) s WHERE s.bytes <> 0) INTO usage;
    WITH new AS (
      INSERT INTO capstan.hooks AS h (cell, id, account, endpoint, url, host, state, due_at, tries, envelope,
        input, input_blob, input_size, output, output_blob, output_size)
      SELECT p_cell, g.id, g.account, g.endpoint, g.url, g.host, 'PENDING', g.due_at, 0, g.envelope::json,
        f.inline, f.blob, f.size, g.output, g.output_blob, g.output_size
      FROM unnest(p_new_hook) g, LATERAL (SELECT t.inline, t.blob, t.size FROM capstan.inputs t WHERE t.cell = p_cell AND t.seq = g.seq OFFSET 0) f
      WHERE g.wave = w AND NOT g.at = ANY (refused)
      RETURNING h.endpoint, coalesce(octet_length(h.input), 0) + coalesce(octet_length(h.output), 0) AS bytes
    )
    SELECT usage || (SELECT array_agg(ROW (s.endpoint, s.bytes)::capstan.usage_change)
    FROM (SELECT u.endpoint, sum(u.bytes) AS bytes FROM (SELECT n.endpoint, n.bytes FROM new n) u GROUP BY u.endpoint) s WHERE s.bytes <> 0) INTO usage;
  END IF;
  END IF;
  IF mask & 128 <> 0 THEN
  WITH done AS (
    UPDATE capstan.jobs j SET state = 'IN_QUEUE', node = NULL, incarnation = NULL, attempts = g.attempts, started_at = NULL, delay_ms = NULL, past_attempts = g.past_attempts
    FROM unnest(p_requeue) g, LATERAL (SELECT t.ctid AS place FROM capstan.jobs t WHERE t.cell = p_cell AND t.seq = g.seq OFFSET 0) f
    WHERE g.wave = w AND j.ctid = f.place AND j.state = leased AND j.token = g.token
    RETURNING g.at
  )
  SELECT coalesce(array_agg(at), '{}') INTO applied FROM done;
  IF cardinality(p_waves) = 1 THEN
    expected := cardinality(p_requeue);
  ELSE
    SELECT count(*) INTO expected FROM unnest(p_requeue) g WHERE g.wave = w;
  END IF;
  refused := '{}';
  IF cardinality(applied) <> expected THEN
    SELECT array_agg(g.at) INTO refused FROM unnest(p_requeue) g WHERE g.wave = w AND NOT g.at = ANY (applied);
    RETURN QUERY SELECT g.at,
      CASE WHEN coalesce((SELECT true FROM capstan.jobs t WHERE t.cell = p_cell AND t.seq = g.seq), false) THEN 'stale' ELSE 'gone' END, NULL::text, NULL::text[]
      FROM unnest(p_requeue) g WHERE g.at = ANY (refused);
  END IF;
  END IF;
  IF mask & 256 <> 0 THEN
  WITH ended AS MATERIALIZED (
    SELECT g.at, f.* FROM unnest(p_retry) g, LATERAL (SELECT t.seq, t.state, t.endpoint, t.output_blob, t.chunks, octet_length(t.output) AS bytes FROM capstan.jobs t WHERE t.cell = p_cell AND t.seq = g.seq OFFSET 0) f
    WHERE g.wave = w AND f.state IN ('FAILED', 'TIMED_OUT')
  ), dropped_chunks AS (
    DELETE FROM capstan.chunks c USING ended e, LATERAL (SELECT t.ctid AS place FROM capstan.chunks t WHERE t.cell = p_cell AND t.seq = e.seq OFFSET 0) f WHERE e.chunks > 0 AND c.ctid = f.place
    RETURNING e.at, e.endpoint, c.idx, c.blob, octet_length(c.inline) AS bytes
  ), named AS (
    SELECT e.at, -1 AS idx, e.output_blob AS blob FROM ended e WHERE e.output_blob IS NOT NULL
    UNION ALL SELECT d.at, d.idx, d.blob FROM dropped_chunks d WHERE d.blob IS NOT NULL
  )
  SELECT coalesce((SELECT array_agg(e.at) FROM ended e), '{}'),
    (SELECT array_agg(ROW (n.at, n.blob)::capstan.dropped_blob ORDER BY n.at, n.idx) FROM named n),
    usage || (SELECT array_agg(ROW (s.endpoint, s.bytes)::capstan.usage_change)
    FROM (SELECT u.endpoint, sum(u.bytes) AS bytes FROM (SELECT e.endpoint, -e.bytes AS bytes FROM ended e UNION ALL SELECT d.endpoint, -d.bytes FROM dropped_chunks d) u GROUP BY u.endpoint) s WHERE s.bytes <> 0)
    INTO applied, dropped_blobs, usage;
  UPDATE capstan.jobs j SET state = 'IN_QUEUE', queue_position = g.queue_position, submitted_at = g.submitted_at, delete_at = g.delete_at,
      token = j.token + 1, attempts = 0, worker = NULL, started_at = NULL, ended_at = NULL, delay_ms = NULL, execution_ms = NULL,
      error = NULL, output = NULL, output_blob = NULL, output_size = NULL, chunks = 0, past_attempts = g.past_attempts
    FROM unnest(p_retry) g, LATERAL (SELECT t.ctid AS place FROM capstan.jobs t WHERE t.cell = p_cell AND t.seq = g.seq OFFSET 0) f
    WHERE g.wave = w AND g.at = ANY (applied) AND j.ctid = f.place;
  IF cardinality(p_waves) = 1 THEN
    expected := cardinality(p_retry);
  ELSE
    SELECT count(*) INTO expected FROM unnest(p_retry) g WHERE g.wave = w;
  END IF;
  refused := '{}';
  IF cardinality(applied) <> expected THEN
    SELECT array_agg(g.at) INTO refused FROM unnest(p_retry) g WHERE g.wave = w AND NOT g.at = ANY (applied);
    RETURN QUERY SELECT g.at,
      CASE WHEN coalesce((SELECT true FROM capstan.jobs t WHERE t.cell = p_cell AND t.seq = g.seq), false) THEN 'stale' ELSE 'gone' END, NULL::text, NULL::text[]
      FROM unnest(p_retry) g WHERE g.at = ANY (refused);
  END IF;
  IF dropped_blobs IS NOT NULL THEN
    RETURN QUERY SELECT d.at, 'ok', NULL::text, array_agg(d.blob) FROM unnest(dropped_blobs) d GROUP BY d.at;
  END IF;
  END IF;
  IF mask & 512 <> 0 THEN
  WITH removed AS (
    DELETE FROM capstan.jobs j USING unnest(p_delete) g, LATERAL (SELECT t.ctid AS place FROM capstan.jobs t WHERE t.cell = p_cell AND t.seq = g.seq OFFSET 0) f
      WHERE g.wave = w AND j.ctid = f.place AND (g.due_by IS NULL OR j.delete_at <= g.due_by)
    RETURNING g.at, j.seq, j.endpoint, j.output_blob, j.chunks, octet_length(j.output) AS bytes
  ), dropped_inputs AS (
    DELETE FROM capstan.inputs i USING removed r, LATERAL (SELECT t.ctid AS place FROM capstan.inputs t WHERE t.cell = p_cell AND t.seq = r.seq OFFSET 0) f WHERE i.ctid = f.place
    RETURNING r.at, r.endpoint, i.blob, octet_length(i.inline) AS bytes
  ), dropped_chunks AS (
    DELETE FROM capstan.chunks c USING removed r, LATERAL (SELECT t.ctid AS place FROM capstan.chunks t WHERE t.cell = p_cell AND t.seq = r.seq OFFSET 0) f WHERE r.chunks > 0 AND c.ctid = f.place
    RETURNING r.at, r.endpoint, c.idx, c.blob, octet_length(c.inline) AS bytes
  ), named AS (
    SELECT i.at, -2 AS idx, i.blob FROM dropped_inputs i WHERE i.blob IS NOT NULL
    UNION ALL SELECT r.at, -1, r.output_blob FROM removed r WHERE r.output_blob IS NOT NULL
    UNION ALL SELECT c.at, c.idx, c.blob FROM dropped_chunks c WHERE c.blob IS NOT NULL
  )
  SELECT coalesce((SELECT array_agg(r.at) FROM removed r), '{}'),
    (SELECT array_agg(ROW (n.at, n.blob)::capstan.dropped_blob ORDER BY n.at, n.idx) FROM named n),
    usage || (SELECT array_agg(ROW (s.endpoint, s.bytes)::capstan.usage_change)
    FROM (SELECT u.endpoint, sum(u.bytes) AS bytes FROM (SELECT r.endpoint, -r.bytes AS bytes FROM removed r UNION ALL SELECT i.endpoint, -i.bytes FROM dropped_inputs i
      UNION ALL SELECT c.endpoint, -c.bytes FROM dropped_chunks c) u GROUP BY u.endpoint) s WHERE s.bytes <> 0)
    INTO applied, dropped_blobs, usage;
  IF cardinality(p_waves) = 1 THEN
    expected := cardinality(p_delete);
  ELSE
    SELECT count(*) INTO expected FROM unnest(p_delete) g WHERE g.wave = w;
  END IF;
  refused := '{}';
  IF cardinality(applied) <> expected THEN
    SELECT array_agg(g.at) INTO refused FROM unnest(p_delete) g WHERE g.wave = w AND NOT g.at = ANY (applied);
    RETURN QUERY SELECT g.at,
      CASE WHEN coalesce((SELECT true FROM capstan.jobs t WHERE t.cell = p_cell AND t.seq = g.seq), false) THEN 'stale' ELSE 'gone' END, NULL::text, NULL::text[]
      FROM unnest(p_delete) g WHERE g.at = ANY (refused);
  END IF;
  IF dropped_blobs IS NOT NULL THEN
    RETURN QUERY SELECT d.at, 'ok', NULL::text, array_agg(d.blob) FROM unnest(dropped_blobs) d GROUP BY d.at;
  END IF;
  END IF;
  IF mask & 1024 <> 0 THEN
  RETURN QUERY SELECT g.at, CASE WHEN f.seq IS NULL THEN 'gone' ELSE 'stale' END, NULL::text, NULL::text[]
    FROM unnest(p_drain) g LEFT JOIN LATERAL (SELECT t.seq, t.ended_at FROM capstan.jobs t WHERE t.cell = p_cell AND t.seq = g.seq OFFSET 0) f ON true
    WHERE g.wave = w AND f.ended_at IS NULL;
  WITH ended AS MATERIALIZED (
    SELECT g.at, g.seq, g.below, f.endpoint FROM unnest(p_drain) g, LATERAL (SELECT t.ended_at, t.endpoint FROM capstan.jobs t WHERE t.cell = p_cell AND t.seq = g.seq OFFSET 0) f
    WHERE g.wave = w AND f.ended_at IS NOT NULL
  ), dropped_chunks AS (
    DELETE FROM capstan.chunks c USING ended e, LATERAL (SELECT t.ctid AS place FROM capstan.chunks t WHERE t.cell = p_cell AND t.seq = e.seq AND t.idx < e.below OFFSET 0) f WHERE c.ctid = f.place
    RETURNING e.at, e.endpoint, c.seq, c.idx, c.blob, octet_length(c.inline) AS bytes
  ), counted AS (
    UPDATE capstan.jobs j SET chunks = j.chunks - d.dropped
      FROM (SELECT seq, count(*)::int AS dropped FROM dropped_chunks GROUP BY seq) d, LATERAL (SELECT t.ctid AS place FROM capstan.jobs t WHERE t.cell = p_cell AND t.seq = d.seq OFFSET 0) f WHERE j.ctid = f.place
  )
  SELECT array_agg(ROW (d.at, d.blob)::capstan.dropped_blob ORDER BY d.at, d.idx) FILTER (WHERE d.blob IS NOT NULL),
      usage || (SELECT array_agg(ROW (s.endpoint, s.bytes)::capstan.usage_change)
    FROM (SELECT u.endpoint, sum(u.bytes) AS bytes FROM (SELECT e.endpoint, -e.bytes AS bytes FROM dropped_chunks e) u GROUP BY u.endpoint) s WHERE s.bytes <> 0)
    INTO dropped_blobs, usage FROM dropped_chunks d;
  IF dropped_blobs IS NOT NULL THEN
    RETURN QUERY SELECT d.at, 'ok', NULL::text, array_agg(d.blob) FROM unnest(dropped_blobs) d GROUP BY d.at;
  END IF;
  END IF;
  IF mask & 2048 <> 0 THEN
  WITH done AS (
    UPDATE capstan.inputs i SET s3 = g.renewed FROM unnest(p_reencrypt) g, LATERAL (SELECT t.ctid AS place FROM capstan.inputs t WHERE t.cell = p_cell AND t.seq = g.seq OFFSET 0) f
      WHERE g.wave = w AND i.ctid = f.place AND i.s3 = g.former
    RETURNING g.at
  )
  SELECT array_agg(g.at) INTO refused FROM unnest(p_reencrypt) g WHERE g.wave = w AND g.at NOT IN (SELECT at FROM done);
  IF refused IS NOT NULL THEN
    RETURN QUERY SELECT g.at,
      CASE WHEN coalesce((SELECT true FROM capstan.inputs t WHERE t.cell = p_cell AND t.seq = g.seq), false) THEN 'stale' ELSE 'gone' END, NULL::text, NULL::text[]
      FROM unnest(p_reencrypt) g WHERE g.at = ANY (refused);
  END IF;
  END IF;
  IF mask & 4096 <> 0 THEN
  WITH changed AS (
    UPDATE capstan.hooks h SET state = g.state::capstan.hook_state, due_at = g.due_at, tries = g.tries, error = g.error
      FROM unnest(p_hook) g, LATERAL (SELECT t.ctid AS place FROM capstan.hooks t WHERE t.cell = p_cell AND t.id = g.id OFFSET 0) f
      WHERE g.wave = w AND g.state IS NOT NULL AND h.ctid = f.place AND h.tries = coalesce(g.after, h.tries)
    RETURNING g.at, h.host
  ), removed AS (
    DELETE FROM capstan.hooks h USING unnest(p_hook) g, LATERAL (SELECT t.ctid AS place FROM capstan.hooks t WHERE t.cell = p_cell AND t.id = g.id OFFSET 0) f
      WHERE g.wave = w AND g.state IS NULL AND h.ctid = f.place AND h.tries = coalesce(g.after, h.tries)
    RETURNING g.at, h.host, h.endpoint, h.input_blob, h.output_blob, coalesce(octet_length(h.input), 0) + coalesce(octet_length(h.output), 0) AS bytes
  ), done AS (
    SELECT c.at, c.host FROM changed c UNION ALL SELECT r.at, r.host FROM removed r
  ), named AS (
    SELECT r.at, 0 AS idx, r.input_blob AS blob FROM removed r WHERE r.input_blob IS NOT NULL
    UNION ALL SELECT r.at, 1, r.output_blob FROM removed r WHERE r.output_blob IS NOT NULL
  )
  SELECT (SELECT array_agg(g.at) FROM unnest(p_hook) g WHERE g.wave = w AND g.at NOT IN (SELECT d.at FROM done d)),
    (SELECT array_agg(ROW (n.at, n.blob)::capstan.dropped_blob ORDER BY n.at, n.idx) FROM named n),
    usage || (SELECT array_agg(ROW (s.endpoint, s.bytes)::capstan.usage_change)
    FROM (SELECT u.endpoint, sum(u.bytes) AS bytes FROM (SELECT r.endpoint, -r.bytes AS bytes FROM removed r) u GROUP BY u.endpoint) s WHERE s.bytes <> 0)
    INTO refused, dropped_blobs, usage;
  IF refused IS NOT NULL THEN
    RETURN QUERY SELECT g.at,
      CASE WHEN coalesce((SELECT true FROM capstan.hooks t WHERE t.cell = p_cell AND t.id = g.id), false) THEN 'stale' ELSE 'gone' END, NULL::text, NULL::text[]
      FROM unnest(p_hook) g WHERE g.at = ANY (refused);
  END IF;
  IF dropped_blobs IS NOT NULL THEN
    RETURN QUERY SELECT d.at, 'ok', NULL::text, array_agg(d.blob) FROM unnest(dropped_blobs) d GROUP BY d.at;
  END IF;
  END IF;
  END LOOP;
  IF p_sweep > 0 THEN
    DELETE FROM capstan.idempotency i WHERE i.ctid = ANY (ARRAY (
      SELECT e.ctid FROM capstan.idempotency e WHERE e.cell = p_cell AND e.expires_at >= 0 AND e.expires_at <= p_now ORDER BY e.expires_at LIMIT p_sweep));
    GET DIAGNOSTICS swept = ROW_COUNT;
    RETURN QUERY SELECT -1, swept::text, NULL::text, NULL::text[];
    WITH expired AS (
      DELETE FROM capstan.hooks h WHERE h.ctid = ANY (ARRAY (
        SELECT e.ctid FROM capstan.hooks e WHERE e.cell = p_cell AND e.state = 'FAILED' AND e.due_at <= p_now ORDER BY e.due_at LIMIT p_sweep))
      RETURNING h.endpoint, coalesce(octet_length(h.input), 0) + coalesce(octet_length(h.output), 0) AS bytes
    )
    SELECT count(*), usage || (SELECT array_agg(ROW (s.endpoint, s.bytes)::capstan.usage_change)
    FROM (SELECT u.endpoint, sum(u.bytes) AS bytes FROM (SELECT x.endpoint, -x.bytes AS bytes FROM expired x) u GROUP BY u.endpoint) s WHERE s.bytes <> 0) INTO swept, usage FROM expired;
    RETURN QUERY SELECT -1, swept::text, NULL::text, NULL::text[];
    -- The counts of endpoints that are gone with all of their rows.
    DELETE FROM capstan.inline_usage u WHERE u.cell = p_cell AND u.bytes = 0
      AND NOT EXISTS (SELECT FROM capstan.control k WHERE k.cell = p_cell AND k.kind = 'endpoint' AND k.key = u.endpoint);
  END IF;
  IF usage <> '{}' THEN
    PERFORM capstan.add_usage_v1(p_cell, usage);
  END IF;
END
$function$;
`;
