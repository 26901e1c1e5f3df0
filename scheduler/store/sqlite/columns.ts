/** Column lists of SQLite's tables, in the order of the tuples of ../rows.ts. */

/** `JobTuple` of ../rows.ts. */
export const JOB_COLUMNS = `no, id, endpoint, kind, state, priority, position, token, attempts, node, incarnation, worker,
  submitted_at, started_at, ended_at, delete_at, execution_timeout_ms, ttl_ms, retention_ms, webhook,
  delay_ms, execution_ms, error, has_s3, trace, tags, past_attempts`;

/** `HookTuple` of ../rows.ts. */
export const HOOK_COLUMNS = 'id, account, endpoint, url, host, state, due_at, tries, error';

/** What `WholeHookTuple` has besides. */
export const HOOK_PAYLOAD_COLUMNS = 'envelope, input, input_blob, input_size, output, output_blob, output_size';
