import type { Migration } from './migration.ts';

/** What happened at endpoints, for plots: it goes with its endpoint. An endpoint's id is of one cell, so a row names none. */
export const history: Migration = {
  number: 7,
  name: 'history',
  sql: `
CREATE TABLE capstan.history (
  endpoint text COLLATE "C" NOT NULL,
  step int NOT NULL CHECK (step > 0),
  at bigint NOT NULL,
  value text NOT NULL,
  PRIMARY KEY (endpoint, step, at)
);
CREATE FUNCTION capstan.end_history() RETURNS trigger LANGUAGE plpgsql AS $trigger$ BEGIN
  DELETE FROM capstan.history WHERE endpoint = OLD.key;
  RETURN NULL;
END $trigger$;
CREATE TRIGGER end_history AFTER DELETE ON capstan.control FOR EACH ROW WHEN (OLD.kind = 'endpoint') EXECUTE FUNCTION capstan.end_history();`,
};
