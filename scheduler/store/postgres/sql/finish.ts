import { PLACE, inWave, lookUp, returnRefused, usageOf, type Operation } from './operation.ts';

/** Bytes of the payloads that a delivery's row `h` holds itself. */
export const DELIVERY_BYTES = 'coalesce(octet_length(h.input), 0) + coalesce(octet_length(h.output), 0)';

/**
 * LEASED or IN_QUEUE → a terminal state, with the output, the chunks that are kept and the webhook's delivery.
 *
 * The expected state is a value of the row, not a constant: with a constant, PostgreSQL may choose the index of leased
 * jobs and go through all of them for each row.
 */
export const finish: Operation = {
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
    RETURNING g.at, j.endpoint, octet_length(g.output) AS bytes
  )
  SELECT coalesce(array_agg(d.at), '{}'), usage || ${usageOf('SELECT e.endpoint, e.bytes FROM done e')}
    INTO applied, usage FROM done d;${returnRefused('finish')}
  IF p_chunk IS NOT NULL THEN
    INSERT INTO capstan.chunks (cell, seq, idx, inline, blob, size)
      SELECT p_cell, c.seq, c.idx, c.inline, c.blob, c.size FROM ${inWave('chunk', 'c')} AND NOT c.at = ANY (refused);
    usage := usage || ${usageOf(`SELECT f.endpoint, octet_length(c.inline) AS bytes
      FROM unnest(p_chunk) c, ${lookUp('jobs', 't.seq = c.seq', 't.endpoint')} WHERE c.wave = w AND NOT c.at = ANY (refused)`)};
  END IF;
  IF p_new_hook IS NOT NULL THEN
    -- Another life of the id, whose job was deleted and then sent again: the newer end stands.
    WITH former AS (
      DELETE FROM capstan.hooks h USING unnest(p_new_hook) g, ${lookUp('hooks', 't.id = g.id')}
        WHERE g.wave = w AND NOT g.at = ANY (refused) AND h.ctid = f.place
      RETURNING h.endpoint, ${DELIVERY_BYTES} AS bytes
    )
    SELECT usage || ${usageOf('SELECT r.endpoint, -r.bytes AS bytes FROM former r')} INTO usage;
    WITH new AS (
      INSERT INTO capstan.hooks AS h (cell, id, account, endpoint, url, host, state, due_at, tries, envelope,
        input, input_blob, input_size, output, output_blob, output_size)
      SELECT p_cell, g.id, g.account, g.endpoint, g.url, g.host, 'PENDING', g.due_at, 0, g.envelope::json,
        f.inline, f.blob, f.size, g.output, g.output_blob, g.output_size
      FROM unnest(p_new_hook) g, ${lookUp('inputs', 't.seq = g.seq', 't.inline, t.blob, t.size')}
      WHERE g.wave = w AND NOT g.at = ANY (refused)
      RETURNING h.endpoint, ${DELIVERY_BYTES} AS bytes
    )
    SELECT usage || ${usageOf('SELECT n.endpoint, n.bytes FROM new n')} INTO usage;
  END IF;`,
};

/** Chunks of a job that ends; they are inserted with its end. */
export const chunk: Operation = {
  type: 'chunk',
  columns: [...PLACE, ['seq', 'int8'], ['idx', 'int4'], ['inline', 'bytea'], ['blob', 'text'], ['size', 'int8']],
  apply: '',
};

/** Delivery of a job that ends; its input is copied from the job's, which never changes. */
export const newDelivery: Operation = {
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
