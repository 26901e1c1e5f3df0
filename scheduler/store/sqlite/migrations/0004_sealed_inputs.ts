import type { Migration } from './migration.ts';

/** A rotation of the master key finds the jobs with storage credentials, which few have, without going through all. */
export const encryptedInputs: Migration = {
  number: 4,
  name: 'sealed inputs',
  sql: 'CREATE INDEX inputs_s3 ON inputs (no) WHERE s3 IS NOT NULL;',
};
