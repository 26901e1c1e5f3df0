import type { Migration } from './migration.ts';

/**
 * Payloads are kept with a checksum, or encrypted (payload-codec.ts), which earlier versions would return as they are:
 * the number of this migration keeps them away. Rows of before stay as they are.
 */
export const checkedPayloads: Migration = {
  number: 10,
  name: 'checked payloads',
  sql: '',
};
