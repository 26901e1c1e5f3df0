import { PLACE, inWave, lookUp, returnRefused, type Operation } from './operation.ts';

const FORMER = `
    DELETE FROM capstan.hooks h USING unnest(p_new_hook) g, ${lookUp('hooks', 't.id = g.id')}
      WHERE g.wave = w AND NOT g.at = ANY (refused) AND h.ctid = f.place;`;
const FORMER_OF_HOST = `
    WITH former AS (
      DELETE FROM capstan.hooks h USING unnest(p_new_hook) g, ${lookUp('hooks', 't.id = g.id')}
        WHERE g.wave = w AND NOT g.at = ANY (refused) AND h.ctid = f.place RETURNING h.host
    )
    SELECT touched_hosts || coalesce(array_agg(host), '{}') INTO touched_hosts FROM former;`;
const HOST_OF_NEW = `
    INSERT INTO capstan.hook_hosts (cell, host, next_at)
      SELECT p_cell, g.host, min(g.due_at) FROM ${inWave('new_hook', 'g')} AND NOT g.at = ANY (refused) GROUP BY g.host
      ON CONFLICT (cell, host) DO UPDATE SET next_at = excluded.next_at WHERE excluded.next_at < hook_hosts.next_at;`;

/**
 * LEASED or IN_QUEUE → a terminal state, with the output, the chunks that are kept and the webhook's delivery.
 *
 * The expected state is a value of the row, not a constant: with a constant, PostgreSQL may choose the index of leased
 * jobs and go through all of them for each row.
 */
function finishOf({ keepsHosts }: { readonly keepsHosts: boolean }): Operation {
  const former = keepsHosts ? FORMER_OF_HOST : FORMER;
  return {
    type: 'finish',
    columns: [
      ...PLACE,
      ['seq', 'int8'],
      ['token', 'int8'],
      ['expected', 'text'],
      ['state', 'text'],
      ['ended_at', 'int8'],
      ['delete_at', 'int8'],
      ['attempts', 'int4'],
      ['delay_ms', 'int8'],
      ['execution_ms', 'int8'],
      ['error', 'text'],
      ['output', 'bytea'],
      ['output_blob', 'text'],
      ['output_size', 'int8'],
      ['chunks', 'int4'],
    ],
    apply: `
  WITH done AS (
    UPDATE capstan.jobs j SET state = g.state::capstan.job_state, node = NULL, incarnation = NULL, ended_at = g.ended_at,
      delete_at = g.delete_at, attempts = g.attempts, delay_ms = g.delay_ms, execution_ms = g.execution_ms, error = g.error,
      output = g.output, output_blob = g.output_blob, output_size = g.output_size, chunks = g.chunks
    FROM unnest(p_finish) g, ${lookUp('jobs', 't.seq = g.seq')}
    WHERE g.wave = w AND j.ctid = f.place AND j.state = g.expected::capstan.job_state AND j.token = g.token
    RETURNING g.at
  )
  SELECT coalesce(array_agg(at), '{}') INTO applied FROM done;${returnRefused('finish')}
  IF p_chunk IS NOT NULL THEN
    INSERT INTO capstan.chunks (cell, seq, idx, inline, blob, size)
      SELECT p_cell, c.seq, c.idx, c.inline, c.blob, c.size FROM ${inWave('chunk', 'c')} AND NOT c.at = ANY (refused);
  END IF;
  IF p_new_hook IS NOT NULL THEN
    -- Another life of the id, whose job was deleted and then sent again: the newer end stands.${former}
    INSERT INTO capstan.hooks (cell, id, account, endpoint, url, host, state, due_at, tries, envelope,
        input, input_blob, input_size, output, output_blob, output_size)
      SELECT p_cell, g.id, g.account, g.endpoint, g.url, g.host, 'PENDING', g.due_at, 0, g.envelope::json,
        f.inline, f.blob, f.size, g.output, g.output_blob, g.output_size
      FROM unnest(p_new_hook) g, ${lookUp('inputs', 't.seq = g.seq', 't.inline, t.blob, t.size')}
      WHERE g.wave = w AND NOT g.at = ANY (refused);${keepsHosts ? HOST_OF_NEW : ''}
  END IF;`,
  };
}

export const finish = finishOf({ keepsHosts: false });
/** Writes the table `hook_hosts`, too. */
export const finishV1 = finishOf({ keepsHosts: true });

/** Chunks of a job that ends; they are inserted with its end. */
export const chunk: Operation = {
  type: 'chunk',
  columns: [...PLACE, ['seq', 'int8'], ['idx', 'int4'], ['inline', 'bytea'], ['blob', 'text'], ['size', 'int8']],
  apply: '',
};

/** Delivery of a job that ends; its input is copied from the job's, which never changes. */
export const newHook: Operation = {
  type: 'new_hook',
  columns: [
    ...PLACE,
    ['seq', 'int8'],
    ['id', 'text'],
    ['account', 'text'],
    ['endpoint', 'text'],
    ['url', 'text'],
    ['host', 'text'],
    ['envelope', 'text'],
    ['due_at', 'int8'],
    ['output', 'bytea'],
    ['output_blob', 'text'],
    ['output_size', 'int8'],
  ],
  apply: '',
};
