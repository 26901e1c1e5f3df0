import type { Migration } from './migration.ts';

/**
 * The audit log. An entry comes as a control row, so that every version of the commit function writes it with the changes of its batch, and
 * is moved. Entries older than 90 days go with each new one, a few at a time. An account keeps its entries in whichever cell it is.
 */
export const audit: Migration = {
  number: 15,
  name: 'audit',
  sql: `
CREATE TABLE capstan.audit (
  at bigint NOT NULL,
  cell int NOT NULL,
  id text COLLATE "C" NOT NULL PRIMARY KEY,
  value text NOT NULL
);
CREATE INDEX audit_at ON capstan.audit (at);
CREATE FUNCTION capstan.audit_moves() RETURNS trigger LANGUAGE plpgsql AS $trigger$ BEGIN
  INSERT INTO capstan.audit (at, cell, id, value) VALUES ((NEW.value->>'at')::bigint, NEW.cell, NEW.key, NEW.value::text);
  DELETE FROM capstan.control WHERE cell = NEW.cell AND kind = 'audit' AND key = NEW.key;
  DELETE FROM capstan.audit WHERE id IN (
    SELECT a.id FROM capstan.audit a WHERE a.at < (NEW.value->>'at')::bigint - 7776000000 ORDER BY a.at LIMIT 10 FOR UPDATE SKIP LOCKED);
  RETURN NULL;
END $trigger$;
CREATE TRIGGER audit_moves AFTER INSERT ON capstan.control FOR EACH ROW WHEN (NEW.kind = 'audit') EXECUTE FUNCTION capstan.audit_moves();
CREATE FUNCTION capstan.audit_stands() RETURNS trigger LANGUAGE plpgsql AS $trigger$ BEGIN
  RAISE EXCEPTION 'entries of the audit log never change';
END $trigger$;
CREATE TRIGGER audit_stands BEFORE UPDATE ON capstan.audit FOR EACH ROW EXECUTE FUNCTION capstan.audit_stands();`,
};
