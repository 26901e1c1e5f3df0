import { PLACE, lookUp, returnRefused, type Operation } from './operation.ts';

/** Records the start of the leased attempt. */
export const started: Operation = {
  type: 'started',
  columns: [...PLACE, ['seq', 'int8'], ['token', 'int8'], ['started_at', 'int8'], ['attempts', 'int4'], ['delay_ms', 'int8']],
  apply: `
  WITH done AS (
    UPDATE capstan.jobs j SET started_at = g.started_at, attempts = g.attempts, delay_ms = g.delay_ms
    FROM unnest(p_started) g, ${lookUp('jobs', 't.seq = g.seq')}
    WHERE g.wave = w AND j.ctid = f.place AND j.state = leased AND j.token = g.token
    RETURNING g.at
  )
  SELECT coalesce(array_agg(at), '{}') INTO applied FROM done;${returnRefused('started')}`,
};
