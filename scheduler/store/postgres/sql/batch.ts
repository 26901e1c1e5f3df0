/**
 * The one database function that applies a batch: `capstan.commit_v4`. One call is one transaction and one round trip;
 * a connection that breaks midway leaves nothing behind. It raises {@link STALE_TERM} unless the caller's term is the
 * cell's and the batch is the one after the last: a delayed copy, or a batch whose predecessor failed, is refused whole.
 *
 * The layout of a batch and its meaning never change once they were released: another layout gets another version of the
 * function, so that schedulers of two versions can work on one database.
 */
import { drain } from './drain.ts';
import { remove } from './delete.ts';
import { chunk, finish, finishV1, newHook } from './finish.ts';
import { hook, hookV1 } from './hook.ts';
import { lease } from './lease.ts';
import { put } from './put.ts';
import { reencrypt } from './reencrypt.ts';
import { requeue, requeueV1 } from './requeue.ts';
import { retry, retryV1 } from './retry.ts';
import { started } from './started.ts';
import { submit, submitV1 } from './submit.ts';
import { lookUp, type Operation } from './operation.ts';

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
  new_hook: newHook,
  requeue,
  retry,
  delete: remove,
  drain,
  reencrypt,
  hook,
} as const satisfies Record<string, Operation>;

/**
 * The operations of `capstan.commit_v3`, for schedulers that read the table `hook_hosts`: the hosts with pending deliveries, and the
 * earliest due time of each. Later versions do not write that table.
 */
const OPERATIONS_V3 = { ...OPERATIONS, finish: finishV1, hook: hookV1 };

/** The operations of `capstan.commit_v2`, for schedulers that do not keep attempts that ended. */
const OPERATIONS_V2 = { ...OPERATIONS_V3, requeue: requeueV1, retry: retryV1 };

/** The operations of `capstan.commit_v1`, which the schedulers of 0.2.0 call. */
const OPERATIONS_V1 = { ...OPERATIONS_V2, submit: submitV1 };

export type OperationType = keyof typeof OPERATIONS;

export const OPERATION_TYPES = Object.keys(OPERATIONS) as OperationType[];

/** A wave's mask has this bit set when it holds rows of the type. */
export const bitOf = (type: OperationType): number => 1 << OPERATION_TYPES.indexOf(type);

const nameOf = ({ type, version = 1 }: Operation): string => `${type}_v${version}`;

/** Name of the composite type of the function's parameter. */
export const typeName = (type: OperationType): string => nameOf(OPERATIONS[type]);

const SQL_TYPES = { int4: 'int', int8: 'bigint', text: 'text', bytea: 'bytea' } as const;

function compositeType(operation: Operation): string {
  const columns = operation.columns.map(([name, of]) => `"${name}" ${SQL_TYPES[of]}`);
  return `CREATE TYPE capstan.${nameOf(operation)} AS (${columns.join(', ')});`;
}

/** The composite types of the operations of version 1; made once, by a migration. */
export const batchTypes = `
CREATE TYPE capstan.dropped_blob AS (at int, blob text);
${OPERATION_TYPES.map((type) => compositeType(OPERATIONS_V1[type])).join('\n')}`;

/** What version 2 has of its own: a submission with its trace context and tags. */
export const batchTypesV2 = compositeType(submit);

/** What version 3 has of its own: the attempts that ended, with a job's return to the queue. */
export const batchTypesV3 = [requeue, retry].map(compositeType).join('\n');

/** What a batch updates in the row of its cell. */
const POSITION = `batch = p_batch, wall = greatest(c.wall, p_now), highest_seq = greatest(c.highest_seq, p_seq),
      highest_queue_position = greatest(c.highest_queue_position, p_queue_position)`;
const UNDER_TERM = 'c.cell = p_cell AND c.term = p_term AND c.batch = p_batch - 1';

/** Updates the earliest due time of each touched host. */
const SETTLE_HOSTS = `
  IF touched_hosts <> '{}' THEN
    WITH first AS MATERIALIZED (
      SELECT t.host, (SELECT h.due_at FROM capstan.hooks h WHERE h.cell = p_cell AND h.host = t.host AND h.state = 'PENDING'
        ORDER BY h.due_at LIMIT 1) AS due_at
      FROM (SELECT DISTINCT u.host FROM unnest(touched_hosts) u (host)) t
    ), idle AS (
      DELETE FROM capstan.hook_hosts o USING first i, ${lookUp('hook_hosts', 't.host = i.host')} WHERE i.due_at IS NULL AND o.ctid = f.place
    )
    INSERT INTO capstan.hook_hosts (cell, host, next_at) SELECT p_cell, f.host, f.due_at FROM first f WHERE f.due_at IS NOT NULL
      ON CONFLICT (cell, host) DO UPDATE SET next_at = excluded.next_at;
  END IF;`;

/** The function. Another text with the same layout and the same meaning, such as a better plan, may take its place: a migration runs it again. */
export const batchFunction = functionOf(1, OPERATIONS_V1);
export const batchFunctionV2 = functionOf(2, OPERATIONS_V2);
export const batchFunctionV3 = functionOf(3, OPERATIONS_V3);
export const batchFunctionV4 = functionOf(4, OPERATIONS);

function functionOf(version: 1 | 2 | 3 | 4, operations: Readonly<Record<OperationType, Operation>>): string {
  const keepsHosts = version < 4;
  const parameters = OPERATION_TYPES.map((type) => `p_${type} capstan.${nameOf(operations[type])}[]`).join(', ');
  const section = (type: OperationType): string => {
    const { apply } = operations[type];
    return apply === '' ? '' : `IF mask & ${bitOf(type)} <> 0 THEN${apply}\n  END IF;`;
  };
  return `
CREATE OR REPLACE FUNCTION capstan.commit_v${version}(
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
  dropped_blobs capstan.dropped_blob[];${keepsHosts ? "\n  touched_hosts text[] := '{}';" : ''}
  swept int;
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
  END LOOP;${keepsHosts ? SETTLE_HOSTS : ''}
  IF p_sweep > 0 THEN
    DELETE FROM capstan.idempotency i WHERE i.ctid = ANY (ARRAY (
      SELECT e.ctid FROM capstan.idempotency e WHERE e.cell = p_cell AND e.expires_at >= 0 AND e.expires_at <= p_now ORDER BY e.expires_at LIMIT p_sweep));
    GET DIAGNOSTICS swept = ROW_COUNT;
    RETURN QUERY SELECT -1, swept::text, NULL::text, NULL::text[];
    DELETE FROM capstan.hooks h WHERE h.ctid = ANY (ARRAY (
      SELECT e.ctid FROM capstan.hooks e WHERE e.cell = p_cell AND e.state = 'FAILED' AND e.due_at <= p_now ORDER BY e.due_at LIMIT p_sweep));
    GET DIAGNOSTICS swept = ROW_COUNT;
    RETURN QUERY SELECT -1, swept::text, NULL::text, NULL::text[];
  END IF;
END
$function$;
`;
}

/** The call, with its parameters in order. */
export const COMMIT = `SELECT at, outcome, job_id, dropped FROM capstan.commit_v4($1, $2, $3, $4, $5, $6, $7, $8, $9, ${OPERATION_TYPES.map(
  (_, i) => `$${i + 10}`,
).join(', ')})`;
