import type { Migration } from './migration.ts';

/**
 * Terms are at least the milliseconds since 1970, not the seconds. A database that was restored, or failed over to a replica
 * that was behind, within a second after a cell was taken would give the same term out again, and clients compare terms alone.
 * Otherwise the function is that of migration 2, for schedulers of the version before, too.
 */
export const finerTerms: Migration = {
  number: 6,
  name: 'finer_terms',
  sql: `
CREATE OR REPLACE FUNCTION capstan.take_v1(
  p_cell int, p_owner text, p_address text,
  -- Null, or what the row must still be.
  p_seen_term bigint, p_seen_batch bigint,
  -- The highest that the caller knows to be acknowledged; 0 for nothing.
  p_known_term bigint, p_known_batch bigint, p_lock_ms int
) RETURNS TABLE (outcome text, former text, term bigint, batch bigint, wall bigint) LANGUAGE plpgsql AS $function$
#variable_conflict use_column
DECLARE
  held capstan.cells;
  clock_ms CONSTANT bigint := floor(extract(epoch FROM clock_timestamp()) * 1000);
BEGIN
  PERFORM set_config('lock_timeout', p_lock_ms::text, true);
  SELECT * INTO held FROM capstan.cells c WHERE c.cell = p_cell FOR UPDATE;
  IF NOT FOUND THEN
    RETURN QUERY SELECT CASE WHEN p_known_term > 0 THEN 'behind' ELSE 'missing' END, NULL::text, 0::bigint, 0::bigint, clock_ms;
    RETURN;
  END IF;
  IF (held.term, held.batch) < (p_known_term, p_known_batch) THEN
    RETURN QUERY SELECT 'behind', held.owner, held.term, held.batch, held.wall;
  ELSIF p_seen_term IS NOT NULL AND (held.term, held.batch) <> (p_seen_term, p_seen_batch) THEN
    RETURN QUERY SELECT 'changed', held.owner, held.term, held.batch, held.wall;
  ELSE
    RETURN QUERY UPDATE capstan.cells c SET owner = p_owner, address = p_address, term = greatest(held.term + 1, clock_ms),
        wall = greatest(held.wall, clock_ms)
      WHERE c.cell = p_cell RETURNING 'taken', held.owner, c.term, c.batch, c.wall;
  END IF;
END
$function$;`,
};
