import type { Migration } from './migration.ts';

/**
 * Keys with the scope ALL of the account `default` operated the service before the scope OPERATOR existed, and continue to.
 * A migration runs once, so a key that is created with the scope ALL afterwards does not become an operator's at the next start.
 */
export const operatorKeys: Migration = {
  number: 6,
  name: 'operator keys',
  sql: `
UPDATE control SET value = json_set(value, '$.scope', 'KEY_SCOPE_OPERATOR')
WHERE kind = 'key' AND value ->> 'account' = 'default' AND value ->> 'scope' = 'KEY_SCOPE_ALL';
`,
};
