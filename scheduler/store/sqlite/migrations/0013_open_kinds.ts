import type { Migration } from './migration.ts';

/**
 * Control rows may be of any kind: the interface says which there are (`controlKinds`), and a new kind needs no new table. The triggers on
 * the table go with it and are made again. It is not renamed: triggers of other tables read it, and SQLite checks them at each rename.
 */
export const openKinds: Migration = {
  number: 13,
  name: 'open kinds',
  sql: `
CREATE TABLE former_control AS SELECT kind, key, version, value FROM control;
DROP TABLE control;
CREATE TABLE control (
  kind TEXT NOT NULL CHECK (kind <> ''),
  key TEXT NOT NULL,
  version INTEGER NOT NULL CHECK (version > 0),
  value TEXT NOT NULL CHECK (json_valid(value)),
  PRIMARY KEY (kind, key)
) STRICT;
INSERT INTO control SELECT kind, key, version, value FROM former_control;
DROP TABLE former_control;
CREATE TRIGGER history_ends AFTER DELETE ON control WHEN OLD.kind = 'endpoint' BEGIN
  DELETE FROM history WHERE endpoint = OLD.key;
END;
CREATE TRIGGER queue_reasons_end AFTER DELETE ON control WHEN OLD.kind = 'endpoint' BEGIN
  DELETE FROM queue_reasons WHERE endpoint = OLD.key;
END;
`,
};
