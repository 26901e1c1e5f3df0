import { PLACE, lookUp, returnRefused, type Operation } from './operation.ts';

/** LEASED → IN_QUEUE at the old position. */
export const requeue: Operation = {
  type: 'requeue',
  version: 2,
  columns: [...PLACE, ['seq', 'int8'], ['token', 'int8'], ['attempts', 'int4'], ['past_attempts', 'text']],
  apply: `
  WITH done AS (
    UPDATE capstan.jobs j SET state = 'IN_QUEUE', node = NULL, incarnation = NULL, attempts = g.attempts, started_at = NULL, delay_ms = NULL, past_attempts = g.past_attempts
    FROM unnest(p_requeue) g, ${lookUp('jobs', 't.seq = g.seq')}
    WHERE g.wave = w AND j.ctid = f.place AND j.state = leased AND j.token = g.token
    RETURNING g.at
  )
  SELECT coalesce(array_agg(at), '{}') INTO applied FROM done;${returnRefused('requeue')}`,
};
