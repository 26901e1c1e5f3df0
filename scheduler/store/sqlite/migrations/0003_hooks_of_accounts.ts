import type { Migration } from './migration.ts';

/** An account's deliveries are listed without going through the others'. */
export const hooksOfAccounts: Migration = {
  number: 3,
  name: 'hooks of accounts',
  sql: 'CREATE INDEX hooks_account ON hooks (account, id);',
};
