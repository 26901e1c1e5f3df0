import type { Migration } from './migration.ts';

/** A job keeps the trace context of its submission: its attempts and webhooks, and those of its retries, continue the trace. */
export const traces: Migration = {
  number: 8,
  name: 'traces',
  sql: 'ALTER TABLE jobs ADD COLUMN trace TEXT',
};
