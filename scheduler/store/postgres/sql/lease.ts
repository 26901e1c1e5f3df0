import { PLACE, lookUp, returnRefused, type Operation } from './operation.ts';

/** IN_QUEUE → LEASED. A lease is the start of a new attempt: what the last one recorded is dropped. */
export const lease: Operation = {
  type: 'lease',
  columns: [...PLACE, ['seq', 'int8'], ['token', 'int8'], ['node', 'text'], ['incarnation', 'text'], ['worker', 'text']],
  apply: `
  WITH done AS (
    UPDATE capstan.jobs j SET state = 'LEASED', token = g.token, node = g.node, incarnation = g.incarnation, worker = g.worker,
      started_at = NULL, delay_ms = NULL
    FROM unnest(p_lease) g, ${lookUp('jobs', 't.seq = g.seq')}
    WHERE g.wave = w AND j.ctid = f.place AND j.state = queued AND j.token = g.token - 1
    RETURNING g.at
  )
  SELECT coalesce(array_agg(at), '{}') INTO applied FROM done;${returnRefused('lease')}`,
};
