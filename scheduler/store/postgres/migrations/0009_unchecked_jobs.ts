import type { Migration } from './migration.ts';

/**
 * Jobs have no CHECKs any more. PostgreSQL parses the text of every CHECK of a table for each statement that writes to it, which was a
 * tenth to a seventh of the time of a batch. What no operation may lead to is refused by the operations' guards; the conformance suite
 * runs with the CHECKs (test/conformance/store/postgres-checks.ts), and SQLite keeps its own.
 */
export const uncheckedJobs: Migration = {
  number: 9,
  name: 'unchecked_jobs',
  sql: `
ALTER TABLE capstan.jobs
  DROP CONSTRAINT jobs_seq_check,
  DROP CONSTRAINT jobs_queue_position_check,
  DROP CONSTRAINT jobs_execution_timeout_ms_check,
  DROP CONSTRAINT jobs_ttl_ms_check,
  DROP CONSTRAINT jobs_retention_ms_check,
  DROP CONSTRAINT jobs_delay_ms_check,
  DROP CONSTRAINT jobs_execution_ms_check,
  DROP CONSTRAINT jobs_output_size_check,
  DROP CONSTRAINT jobs_chunks_check,
  DROP CONSTRAINT jobs_priority_check,
  DROP CONSTRAINT jobs_id_check,
  DROP CONSTRAINT jobs_endpoint_check,
  DROP CONSTRAINT attempts_within_tokens,
  DROP CONSTRAINT leased_has_lease,
  DROP CONSTRAINT ended_has_end,
  DROP CONSTRAINT queued_has_no_start,
  DROP CONSTRAINT start_has_lease,
  DROP CONSTRAINT completed_was_leased,
  DROP CONSTRAINT failed_has_error,
  DROP CONSTRAINT error_is_of_failures,
  DROP CONSTRAINT results_are_of_ended,
  DROP CONSTRAINT output_is_one_body;
`,
};
