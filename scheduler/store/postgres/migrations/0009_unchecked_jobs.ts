import { batchFunction, batchFunctionV2 } from '../sql/batch.ts';
import type { Migration } from './migration.ts';

const OF_COLUMNS = [
  ...['seq', 'queue_position', 'execution_timeout_ms', 'ttl_ms', 'retention_ms', 'delay_ms', 'execution_ms', 'output_size'],
  ...['chunks', 'priority', 'id', 'endpoint'],
].map((column) => `jobs_${column}_check`);

const COMPARISONS = [
  'attempts_within_tokens',
  'leased_has_lease',
  'ended_has_end',
  'queued_has_no_start',
  'start_has_lease',
  'completed_was_leased',
  'failed_has_error',
  'error_is_of_failures',
  'results_are_of_ended',
  'output_is_one_body',
];

/**
 * Jobs have no CHECKs any more. PostgreSQL parses the text of every CHECK of a table for each statement that writes to it, which was a
 * tenth to a seventh of the time of a batch. What no operation may lead to is refused by the operations' guards; the conformance suite
 * runs with the CHECKs (test/conformance/store/postgres-checks.ts), and SQLite keeps its own.
 *
 * The functions are run again: they count what a statement applied, and look for what it did not apply only when there is any.
 */
export const uncheckedJobs: Migration = {
  number: 9,
  name: 'unchecked_jobs',
  sql: `
ALTER TABLE capstan.jobs ${[...OF_COLUMNS, ...COMPARISONS].map((name) => `DROP CONSTRAINT ${name}`).join(', ')};
${batchFunction}
${batchFunctionV2}`,
};
