/** Column lists of PostgreSQL's tables, in the order of the tuples of ../rows.ts. */

/** `JobTuple` of ../rows.ts, of the alias `j`. */
export const JOB_COLUMNS = `j.seq, j.id, j.endpoint, j.kind, j.state, j.priority, j.queue_position, j.token, j.attempts, j.node, j.incarnation,
  j.worker, j.submitted_at, j.started_at, j.ended_at, j.delete_at, j.execution_timeout_ms, j.ttl_ms, j.retention_ms, j.webhook,
  j.delay_ms, j.execution_ms, j.error, j.has_s3, j.trace, j.tags, j.past_attempts`;

/** `HookTuple` of ../rows.ts, of the alias `h`. */
export const HOOK_COLUMNS = 'h.id, h.account, h.endpoint, h.url, h.host, h.state, h.due_at, h.tries, h.error';

/** What `WholeHookTuple` has besides. */
export const HOOK_PAYLOAD_COLUMNS = 'h.envelope::text, h.input, h.input_blob, h.input_size, h.output, h.output_blob, h.output_size';
