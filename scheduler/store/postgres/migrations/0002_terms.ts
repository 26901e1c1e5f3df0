import type { Migration } from './migration.ts';

/**
 * Taking a cell, and waiting for its lock.
 *
 * - `take_v1` looks and writes in one call: a call that is cut midway holds nothing. It answers `behind` when the row lacks
 *   what the caller knows to be acknowledged, and `changed` when it no longer is what the caller saw. A row that stays locked
 *   ends it with lock_not_available, and the caller ends who holds it.
 * - `wait_for_lock_v1` returns whether the session got the lock. It catches the time-out itself, which would otherwise be an
 *   error in the server's log twice a second.
 */
export const terms: Migration = {
  number: 2,
  name: 'terms',
  sql: `
CREATE FUNCTION capstan.take_v1(
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
    RETURN QUERY UPDATE capstan.cells c SET owner = p_owner, address = p_address, term = greatest(held.term + 1, clock_ms / 1000),
        wall = greatest(held.wall, clock_ms)
      WHERE c.cell = p_cell RETURNING 'taken', held.owner, c.term, c.batch, c.wall;
  END IF;
END
$function$;
CREATE FUNCTION capstan.wait_for_lock_v1(p_space int, p_cell int, p_ms int) RETURNS boolean LANGUAGE plpgsql AS $function$
BEGIN
  PERFORM set_config('lock_timeout', p_ms::text, true);
  PERFORM pg_advisory_lock(p_space, p_cell);
  RETURN true;
EXCEPTION WHEN lock_not_available THEN
  RETURN false;
END
$function$;`,
};
