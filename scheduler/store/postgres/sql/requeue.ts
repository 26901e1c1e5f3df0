import { PLACE, lookUp, returnRefused, type Operation } from './operation.ts';

/** LEASED → IN_QUEUE at the old position. */
function requeueOf(version: 1 | 2): Operation {
  const more = version === 1 ? '' : ', past_attempts = g.past_attempts';
  return {
    type: 'requeue',
    version,
    columns: [
      ...PLACE,
      ['seq', 'int8'],
      ['token', 'int8'],
      ['attempts', 'int4'],
      ...(version === 1 ? [] : ([['past_attempts', 'text']] as const)),
    ],
    apply: `
  WITH done AS (
    UPDATE capstan.jobs j SET state = 'IN_QUEUE', node = NULL, incarnation = NULL, attempts = g.attempts, started_at = NULL, delay_ms = NULL${more}
    FROM unnest(p_requeue) g, ${lookUp('jobs', 't.seq = g.seq')}
    WHERE g.wave = w AND j.ctid = f.place AND j.state = leased AND j.token = g.token
    RETURNING g.at
  )
  SELECT coalesce(array_agg(at), '{}') INTO applied FROM done;${returnRefused('requeue')}`,
  };
}

export const requeue = requeueOf(2);
/** Without the attempts that ended. */
export const requeueV1 = requeueOf(1);
