import { submittedColumns, type FieldColumn } from '../../../core/ports/columns.ts';
import type { ColumnType } from './binary.ts';
import { PLACE, countWave, inWave, lookUp, rowExists, usageOf, type Operation } from './operation.ts';

/** Operations carry an enumeration as its label. */
const CASTS: Readonly<Record<string, string>> = { state: '::capstan.job_state', kind: '::capstan.job_kind' };

const typeOf = ({ kind, isSmall }: FieldColumn): ColumnType => (kind !== 'integer' ? 'text' : isSmall ? 'int4' : 'int8');
const names = submittedColumns.map(({ name }) => name);

/**
 * Inserts a job, queued or leased, with its input. The id is looked at before the idempotency key: a submission sent again
 * is `exists`, whatever its key says. An expired key that was not swept yet is free.
 */
export const submit: Operation = {
  type: 'submit',
  version: 3,
  columns: [
    ...PLACE,
    ...submittedColumns.map((column) => [column.name, typeOf(column)] as const),
    ['inline', 'bytea'],
    ['blob', 'text'],
    ['size', 'int8'],
    ['s3', 'bytea'],
    ['key', 'text'],
    ['body_hash', 'bytea'],
    ['expires_at', 'int8'],
  ],
  apply: `
  refused := '{}';
  IF p_keyed THEN
    SELECT coalesce(array_agg(g.at), '{}') INTO refused FROM unnest(p_submit) g, ${lookUp('idempotency', 't.key = g.key', 't.expires_at')}
      WHERE g.wave = w AND g.key IS NOT NULL AND f.expires_at > p_now;
  END IF;
  IF refused <> '{}' THEN
    RETURN QUERY SELECT g.at,
      CASE WHEN ${rowExists('jobs', 't.id = g.id AND t.seq > 0')} THEN 'exists'
        WHEN f.body_hash = g.body_hash THEN 'idempotent-same' ELSE 'idempotent-other-body' END, f.job_id, NULL::text[]
      FROM unnest(p_submit) g, ${lookUp('idempotency', 't.key = g.key', 't.job_id, t.body_hash')}
      WHERE g.at = ANY (refused);
  END IF;
  WITH new AS (
    INSERT INTO capstan.jobs (cell, has_s3, ${names.join(', ')})
    SELECT p_cell, g.s3 IS NOT NULL, ${names.map((name) => `g.${name}${CASTS[name] ?? ''}`).join(', ')}
    FROM ${inWave('submit', 'g')} AND NOT g.at = ANY (refused)
    ON CONFLICT (cell, id) WHERE seq > 0 DO NOTHING RETURNING seq
  )
  SELECT coalesce(array_agg(seq), '{}') INTO inserted FROM new;${countWave('submit')}
  IF cardinality(inserted) + cardinality(refused) <> expected THEN
    SELECT array_agg(g.at) INTO existing FROM ${inWave('submit', 'g')} AND NOT g.at = ANY (refused) AND NOT g.seq = ANY (inserted);
    RETURN QUERY SELECT u.at, 'exists', NULL::text, NULL::text[] FROM unnest(existing) u (at);
    refused := refused || existing;
  END IF;
  INSERT INTO capstan.inputs (cell, seq, inline, blob, size, s3)
    SELECT p_cell, g.seq, g.inline, g.blob, g.size, g.s3 FROM ${inWave('submit', 'g')} AND NOT g.at = ANY (refused);
  usage := usage || ${usageOf(`SELECT g.endpoint, octet_length(g.inline) AS bytes FROM ${inWave('submit', 'g')} AND NOT g.at = ANY (refused)`)};
  IF p_keyed THEN
    INSERT INTO capstan.idempotency (cell, key, job_id, body_hash, expires_at)
      SELECT p_cell, g.key, g.id, g.body_hash, g.expires_at FROM ${inWave('submit', 'g')} AND g.key IS NOT NULL AND NOT g.at = ANY (refused)
      ON CONFLICT (cell, key) DO UPDATE SET job_id = excluded.job_id, body_hash = excluded.body_hash, expires_at = excluded.expires_at;
  END IF;`,
};
