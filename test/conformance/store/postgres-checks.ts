/** What no operation may lead to, as CHECKs of the table of jobs: a store that is used in production goes without them, see migration 9. */
export const JOB_CHECKS = `
ALTER TABLE capstan.jobs
  ADD CHECK (seq > 0 AND queue_position >= 0 AND priority IN (0, 1) AND id <> '' AND endpoint <> ''),
  ADD CHECK (execution_timeout_ms >= 0 AND ttl_ms >= 0 AND retention_ms >= 0),
  ADD CHECK (delay_ms >= 0),
  ADD CHECK (execution_ms >= 0),
  ADD CHECK (output_size >= 0),
  ADD CHECK (chunks >= 0),
  ADD CONSTRAINT attempts_within_tokens CHECK (attempts BETWEEN 0 AND token),
  ADD CONSTRAINT leased_has_lease CHECK (
    (state = 'LEASED') = (node IS NOT NULL) AND (node IS NULL) = (incarnation IS NULL)
    AND (state <> 'LEASED' OR (worker IS NOT NULL AND token > 0))
  ),
  ADD CONSTRAINT ended_has_end CHECK ((state IN ('IN_QUEUE', 'LEASED')) = (ended_at IS NULL)),
  ADD CONSTRAINT queued_has_no_start CHECK (state <> 'IN_QUEUE' OR (started_at IS NULL AND delay_ms IS NULL)),
  ADD CONSTRAINT start_has_lease CHECK (started_at IS NULL OR token > 0),
  ADD CONSTRAINT completed_was_leased CHECK (state <> 'COMPLETED' OR token > 0),
  ADD CONSTRAINT failed_has_error CHECK (state <> 'FAILED' OR error IS NOT NULL),
  ADD CONSTRAINT error_is_of_failures CHECK (error IS NULL OR state IN ('FAILED', 'CANCELLED', 'TIMED_OUT')),
  ADD CONSTRAINT results_are_of_ended CHECK (
    ended_at IS NOT NULL OR (execution_ms IS NULL AND output IS NULL AND output_blob IS NULL AND chunks = 0)
  ),
  ADD CONSTRAINT output_is_one_body CHECK ((output IS NULL OR output_blob IS NULL) AND (output_blob IS NULL) = (output_size IS NULL))`;
