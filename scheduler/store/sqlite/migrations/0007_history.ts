import type { Migration } from './migration.ts';

/** What happened at endpoints, for plots: it goes with its endpoint. */
export const history: Migration = {
  number: 7,
  name: 'history',
  sql: `
CREATE TABLE history (
  endpoint TEXT NOT NULL,
  step INTEGER NOT NULL CHECK (step > 0),
  at INTEGER NOT NULL,
  value TEXT NOT NULL,
  PRIMARY KEY (endpoint, step, at)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER history_ends AFTER DELETE ON control WHEN OLD.kind = 'endpoint' BEGIN
  DELETE FROM history WHERE endpoint = OLD.key;
END;`,
};
