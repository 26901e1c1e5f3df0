import type { Migration } from './migration.ts';

/** Control rows may be of the kind `deployment`. SQLite changes a CHECK only with its table. */
export const deployments: Migration = {
  number: 2,
  name: 'deployments',
  sql: `
CREATE TABLE control_next (
  kind TEXT NOT NULL CHECK (
    kind IN (
      'account', 'key', 'environment', 'deployment', 'endpoint', 'release', 'build', 'node', 'join-token', 'desired', 'setting'
    )
  ),
  key TEXT NOT NULL,
  version INTEGER NOT NULL CHECK (version > 0),
  value TEXT NOT NULL CHECK (json_valid(value)),
  PRIMARY KEY (kind, key)
) STRICT;
INSERT INTO control_next SELECT kind, key, version, value FROM control;
DROP TABLE control;
ALTER TABLE control_next RENAME TO control;
`,
};
