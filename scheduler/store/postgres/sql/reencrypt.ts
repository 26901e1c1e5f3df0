import { PLACE, inWave, type Operation } from './operation.ts';

/** Puts a job's credentials, encrypted with another key, in the place of the former ones. */
export const reencrypt: Operation = {
  type: 'reencrypt',
  columns: [...PLACE, ['seq', 'int8'], ['former', 'bytea'], ['renewed', 'bytea']],
  apply: `
  WITH done AS (
    UPDATE capstan.inputs i SET s3 = g.renewed FROM ${inWave('reencrypt', 'g')} AND i.cell = p_cell AND i.seq = g.seq AND i.s3 = g.former
    RETURNING g.at
  )
  SELECT array_agg(g.at) INTO refused FROM ${inWave('reencrypt', 'g')} AND g.at NOT IN (SELECT at FROM done);
  IF refused IS NOT NULL THEN
    RETURN QUERY SELECT g.at,
      CASE WHEN EXISTS (SELECT FROM capstan.inputs i WHERE i.cell = p_cell AND i.seq = g.seq) THEN 'stale' ELSE 'gone' END, NULL::text, NULL::text[]
      FROM unnest(p_reencrypt) g WHERE g.at = ANY (refused);
  END IF;`,
};
