import { COMMIT_V5 } from './functions/commit_v5.ts';
import type { Migration } from './migration.ts';

/**
 * Bytes of the payloads that rows hold themselves, by endpoint: a row names its endpoint, also when the endpoint is gone. The account is
 * kept with them for the same reason.
 *
 * `commit_v5` is `commit_v4` that keeps them, and notes with each batch that it did. An owner of the version before does neither: whoever
 * takes its cell counts the rows anew, as for a database of before. The count holds the lock of the schema, by which standbys know that
 * the owner is alive although it commits nothing.
 */
export const inlineUsage: Migration = {
  number: 14,
  name: 'inline_usage',
  sql: `
CREATE TABLE capstan.inline_usage (
  bytes bigint NOT NULL CHECK (bytes >= 0),
  cell int NOT NULL,
  endpoint text COLLATE "C" NOT NULL,
  account text COLLATE "C" NOT NULL,
  PRIMARY KEY (cell, endpoint)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0.05);
CREATE TYPE capstan.usage_change AS (endpoint text, bytes bigint);
-- The last batch of the cell that is counted.
ALTER TABLE capstan.cells ADD COLUMN counted_batch bigint NOT NULL DEFAULT -1;
CREATE FUNCTION capstan.count_usage_v1(p_cell int, p_term bigint) RETURNS boolean LANGUAGE plpgsql
  SET enable_seqscan = on SET enable_hashjoin = on SET enable_mergejoin = on AS $function$
BEGIN
  PERFORM FROM capstan.cells c WHERE c.cell = p_cell AND c.term = p_term AND c.counted_batch <> c.batch;
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  PERFORM pg_advisory_xact_lock(1128353875, -1);
  UPDATE capstan.inline_usage SET bytes = 0 WHERE cell = p_cell;
  INSERT INTO capstan.inline_usage AS u (cell, endpoint, account, bytes)
    SELECT p_cell, r.endpoint, coalesce((SELECT k.account FROM capstan.control k WHERE k.cell = p_cell AND k.kind = 'endpoint'
      AND k.key = r.endpoint), max(r.account), ''), sum(r.bytes)
    FROM (
      SELECT j.endpoint, NULL AS account, octet_length(j.output) AS bytes FROM capstan.jobs j WHERE j.cell = p_cell AND j.output IS NOT NULL
      UNION ALL SELECT j.endpoint, NULL, octet_length(i.inline) FROM capstan.inputs i JOIN capstan.jobs j ON j.cell = i.cell AND j.seq = i.seq
        WHERE i.cell = p_cell AND i.inline IS NOT NULL
      UNION ALL SELECT j.endpoint, NULL, octet_length(c.inline) FROM capstan.chunks c JOIN capstan.jobs j ON j.cell = c.cell AND j.seq = c.seq
        WHERE c.cell = p_cell AND c.inline IS NOT NULL
      UNION ALL SELECT h.endpoint, h.account, coalesce(octet_length(h.input), 0) + coalesce(octet_length(h.output), 0)
        FROM capstan.hooks h WHERE h.cell = p_cell AND h.tries >= 0
    ) r GROUP BY r.endpoint HAVING sum(r.bytes) > 0
    ON CONFLICT (cell, endpoint) DO UPDATE SET bytes = excluded.bytes;
  UPDATE capstan.cells c SET counted_batch = c.batch WHERE c.cell = p_cell AND c.term = p_term;
  RETURN true;
END
$function$;
CREATE FUNCTION capstan.add_usage_v1(p_cell int, p_usage capstan.usage_change[]) RETURNS void LANGUAGE plpgsql AS $function$
DECLARE
  change capstan.usage_change;
  setting text;
  place tid;
BEGIN
  FOR change IN SELECT u.endpoint, sum(u.bytes)::bigint FROM unnest(p_usage) u GROUP BY u.endpoint HAVING sum(u.bytes) <> 0 LOOP
    -- By its place, as the row of the cell: by key, an update goes through all versions that a reader's snapshot holds.
    setting := 'capstan.usage_' || p_cell || '_' || md5(change.endpoint);
    UPDATE capstan.inline_usage u SET bytes = greatest(0, u.bytes + change.bytes)
      WHERE u.ctid = nullif(current_setting(setting, true), '')::tid AND u.cell = p_cell AND u.endpoint = change.endpoint
      RETURNING u.ctid INTO place;
    IF NOT FOUND THEN
      INSERT INTO capstan.inline_usage AS u (cell, endpoint, account, bytes)
        VALUES (p_cell, change.endpoint, coalesce((SELECT k.account FROM capstan.control k
          WHERE k.cell = p_cell AND k.kind = 'endpoint' AND k.key = change.endpoint), ''), greatest(0, change.bytes))
        ON CONFLICT (cell, endpoint) DO UPDATE SET bytes = greatest(0, u.bytes + change.bytes) RETURNING u.ctid INTO place;
    END IF;
    PERFORM set_config(setting, place::text, false);
  END LOOP;
END
$function$;
${COMMIT_V5}`,
};
