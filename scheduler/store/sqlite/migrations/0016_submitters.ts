import type { Migration } from './migration.ts';

/** A job keeps the id of the API key that submitted it. */
export const submitters: Migration = {
  number: 16,
  name: 'submitters',
  sql: 'ALTER TABLE jobs ADD COLUMN submitted_by TEXT;',
};
