/**
 * The one database function that applies a batch: {@link COMMIT_FUNCTION}. One call is one transaction and one round trip;
 * a connection that breaks midway leaves nothing behind. It raises {@link STALE_TERM} unless the caller's term is the
 * cell's and the batch is the one after the last: a delayed copy, or a batch whose predecessor failed, is refused whole.
 *
 * The layout of a batch and its meaning never change once they were released: another layout gets another version of the
 * function, so that schedulers of two versions can work on one database.
 */
import { drain } from './drain.ts';
import { remove } from './delete.ts';
import { chunk, finish, DELIVERY_BYTES, newDelivery } from './finish.ts';
import { delivery } from './delivery.ts';
import { lease } from './lease.ts';
import { put } from './put.ts';
import { reencrypt } from './reencrypt.ts';
import { requeue } from './requeue.ts';
import { retry } from './retry.ts';
import { started } from './started.ts';
import { submit } from './submit.ts';
import { usageOf, type Operation } from './operation.ts';

/** SQLSTATE of a batch under a term that is not the cell's, or out of turn. */
export const STALE_TERM = 'CT001';

/** In the order of their parameters, and of their application within a wave: jobs are of endpoints that the same batch may make. */
export const OPERATIONS = {
  put,
  submit,
  lease,
  started,
  finish,
  chunk,
  new_hook: newDelivery,
  requeue,
  retry,
  delete: remove,
  drain,
  reencrypt,
  hook: delivery,
} as const satisfies Record<string, Operation>;

export type OperationType = keyof typeof OPERATIONS;

export const OPERATION_TYPES = Object.keys(OPERATIONS) as OperationType[];

/** A wave's mask has this bit set when it holds rows of the type. */
export const bitOf = (type: OperationType): number => 1 << OPERATION_TYPES.indexOf(type);

/** Name of the composite type of the function's parameter. */
export function typeName(type: OperationType): string {
  const { type: name, version = 1 }: Operation = OPERATIONS[type];
  return `${name}_v${version}`;
}

/** What a batch updates in the row of its cell. */
const POSITION = `batch = p_batch, wall = greatest(c.wall, p_now), highest_seq = greatest(c.highest_seq, p_seq),
      highest_queue_position = greatest(c.highest_queue_position, p_queue_position),
      counted_batch = CASE WHEN c.counted_batch = p_batch - 1 THEN p_batch ELSE c.counted_batch END`;
const UNDER_TERM = 'c.cell = p_cell AND c.term = p_term AND c.batch = p_batch - 1';

/** Its version grows with each other layout or meaning. */
export const COMMIT_FUNCTION = 'commit_v6';

/**
 * The text of the function. Its frozen copy is in migrations/functions; a migration is what gives databases another one. Another
 * text with the same layout and the same meaning, such as a better plan, may replace the one of this version.
 */
export function commitFunction(): string {
  const parameters = OPERATION_TYPES.map((type) => `p_${type} capstan.${typeName(type)}[]`).join(', ');
  const section = (type: OperationType): string => {
    const { apply } = OPERATIONS[type];
    return apply === '' ? '' : `IF mask & ${bitOf(type)} <> 0 THEN${apply}\n  END IF;`;
  };
  return `
CREATE OR REPLACE FUNCTION capstan.${COMMIT_FUNCTION}(
  p_cell int, p_term bigint, p_batch bigint, p_now bigint, p_seq bigint, p_queue_position bigint,
  -- For each wave, which types it holds; whether any submission has an idempotency key; how many expired rows to remove.
  p_waves int[], p_keyed boolean, p_sweep int, ${parameters}
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
  UPDATE capstan.cells c SET ${POSITION} WHERE c.ctid = nullif(current_setting(row_setting, true), '')::tid AND ${UNDER_TERM}
    RETURNING c.ctid INTO row_place;
  IF NOT FOUND THEN
    UPDATE capstan.cells c SET ${POSITION} WHERE ${UNDER_TERM} RETURNING c.ctid INTO row_place;
  END IF;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'cell % is no longer owned under term %, or batch % is out of turn', p_cell, p_term, p_batch USING ERRCODE = '${STALE_TERM}';
  END IF;
  PERFORM set_config(row_setting, row_place::text, false);
  FOR w IN 1 .. cardinality(p_waves) LOOP
  mask := p_waves[w];
  ${OPERATION_TYPES.map(section)
    .filter((text) => text !== '')
    .join('\n  ')}
  END LOOP;
  IF p_sweep > 0 THEN
    DELETE FROM capstan.idempotency i WHERE i.ctid = ANY (ARRAY (
      SELECT e.ctid FROM capstan.idempotency e WHERE e.cell = p_cell AND e.expires_at >= 0 AND e.expires_at <= p_now ORDER BY e.expires_at LIMIT p_sweep));
    GET DIAGNOSTICS swept = ROW_COUNT;
    RETURN QUERY SELECT -1, swept::text, NULL::text, NULL::text[];
    WITH expired AS (
      DELETE FROM capstan.hooks h WHERE h.ctid = ANY (ARRAY (
        SELECT e.ctid FROM capstan.hooks e WHERE e.cell = p_cell AND e.state = 'FAILED' AND e.due_at <= p_now ORDER BY e.due_at LIMIT p_sweep))
      RETURNING h.endpoint, ${DELIVERY_BYTES} AS bytes
    )
    SELECT count(*), usage || ${usageOf('SELECT x.endpoint, -x.bytes AS bytes FROM expired x')} INTO swept, usage FROM expired;
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
}

/** The call, with its parameters in order. */
export const COMMIT = `SELECT at, outcome, job_id, dropped FROM capstan.${COMMIT_FUNCTION}($1, $2, $3, $4, $5, $6, $7, $8, $9, ${OPERATION_TYPES.map(
  (_, i) => `$${i + 10}`,
).join(', ')})`;
