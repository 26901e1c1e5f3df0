import { PLACE, inWave, lookUp, rowExists, type Operation } from './operation.ts';

/** Writes or removes (`value` null) a control row whose version is one lower. */
export const put: Operation = {
  type: 'put',
  columns: [...PLACE, ['kind', 'text'], ['key', 'text'], ['version', 'int8'], ['account', 'text'], ['value', 'text']],
  apply: `
  -- An endpoint that goes may say whose the bodies of earlier operations are.
  IF usage <> '{}' THEN
    PERFORM capstan.add_usage_v1(p_cell, usage);
    usage := '{}';
  END IF;
  WITH inserted AS (
    INSERT INTO capstan.control (cell, kind, key, version, account, value)
      SELECT p_cell, g.kind, g.key, 1, g.account, g.value::json FROM ${inWave('put', 'g')} AND g.value IS NOT NULL AND g.version = 1
      ON CONFLICT DO NOTHING RETURNING kind, key
  ), updated AS (
    UPDATE capstan.control c SET version = g.version, account = g.account, value = g.value::json
      FROM unnest(p_put) g, ${lookUp('control', 't.kind = g.kind AND t.key = g.key')}
      WHERE g.wave = w AND g.value IS NOT NULL AND g.version > 1 AND c.ctid = f.place AND c.version = g.version - 1
    RETURNING c.kind, c.key
  ), removed AS (
    DELETE FROM capstan.control c USING unnest(p_put) g, ${lookUp('control', 't.kind = g.kind AND t.key = g.key')}
      WHERE g.wave = w AND g.value IS NULL AND c.ctid = f.place AND c.version = g.version - 1
    RETURNING c.kind, c.key
  ), done AS (
    SELECT i.kind, i.key FROM inserted i UNION ALL SELECT u.kind, u.key FROM updated u UNION ALL SELECT r.kind, r.key FROM removed r
  )
  SELECT array_agg(g.at) INTO refused FROM ${inWave('put', 'g')} AND (g.kind, g.key) NOT IN (SELECT d.kind, d.key FROM done d);
  IF refused IS NOT NULL THEN
    RETURN QUERY SELECT g.at,
      CASE WHEN g.value IS NULL AND NOT ${rowExists('control', 't.kind = g.kind AND t.key = g.key')}
        THEN 'gone' ELSE 'conflict' END, NULL::text, NULL::text[]
      FROM unnest(p_put) g WHERE g.at = ANY (refused);
  END IF;`,
};
