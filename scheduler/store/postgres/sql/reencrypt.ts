import { PLACE, inWave, lookUp, rowExists, type Operation } from './operation.ts';

/** Puts a job's credentials, encrypted with another key, in the place of the former ones. */
export const reencrypt: Operation = {
  type: 'reencrypt',
  columns: [...PLACE, ['seq', 'int8'], ['former', 'bytea'], ['renewed', 'bytea']],
  apply: `
  WITH done AS (
    UPDATE capstan.inputs i SET s3 = g.renewed FROM unnest(p_reencrypt) g, ${lookUp('inputs', 't.seq = g.seq')}
      WHERE g.wave = w AND i.ctid = f.place AND i.s3 = g.former
    RETURNING g.at
  )
  SELECT array_agg(g.at) INTO refused FROM ${inWave('reencrypt', 'g')} AND g.at NOT IN (SELECT at FROM done);
  IF refused IS NOT NULL THEN
    RETURN QUERY SELECT g.at,
      CASE WHEN ${rowExists('inputs', 't.seq = g.seq')} THEN 'stale' ELSE 'gone' END, NULL::text, NULL::text[]
      FROM unnest(p_reencrypt) g WHERE g.at = ANY (refused);
  END IF;`,
};
