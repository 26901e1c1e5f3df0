import type { Migration } from './migration.ts';

/**
 * The audit log. An entry comes as a control row, so that it is written with the changes of its batch, and is moved. Entries older than
 * 90 days go with each new one, a few at a time.
 */
export const audit: Migration = {
  number: 15,
  name: 'audit',
  sql: `
CREATE TABLE audit (
  id TEXT PRIMARY KEY,
  at INTEGER NOT NULL,
  value TEXT NOT NULL CHECK (json_valid(value))
) STRICT, WITHOUT ROWID;
CREATE INDEX audit_at ON audit (at);
CREATE TRIGGER audit_moves AFTER INSERT ON control WHEN NEW.kind = 'audit' BEGIN
  INSERT INTO audit (id, at, value) VALUES (NEW.key, NEW.value ->> 'at', NEW.value);
  DELETE FROM control WHERE kind = 'audit' AND key = NEW.key;
  DELETE FROM audit WHERE id IN (SELECT id FROM audit WHERE at < (NEW.value ->> 'at') - 7776000000 ORDER BY at LIMIT 10);
END;
CREATE TRIGGER audit_stands BEFORE UPDATE ON audit BEGIN
  SELECT RAISE(ABORT, 'entries of the audit log never change');
END;
`,
};
