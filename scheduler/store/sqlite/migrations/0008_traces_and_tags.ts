import type { Migration } from './migration.ts';

/**
 * A job keeps the trace context of its submission: its attempts and webhooks, and those of its retries, continue the trace. And it keeps
 * the words by which its submitter finds it.
 */
export const tracesAndTags: Migration = {
  number: 8,
  name: 'traces and tags',
  sql: 'ALTER TABLE jobs ADD COLUMN trace TEXT; ALTER TABLE jobs ADD COLUMN tags TEXT;',
};
