import type { Migration } from './migration.ts';

/**
 * The schedulers, each of which writes its own row, and what a cell remembers of its take-overs.
 *
 * A trigger notes take-overs, so that a scheduler of any version that takes a cell over is counted. It runs where a
 * statement sets the term, which batches do not. A new owner is another process; a new term of the same owner follows a doubt.
 */
export const schedulers: Migration = {
  number: 3,
  name: 'schedulers',
  sql: `
CREATE TABLE capstan.schedulers (
  started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  seen_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  clock_offset_ms bigint NOT NULL,
  schema_version int NOT NULL CHECK (schema_version > 0),
  id text COLLATE "C" PRIMARY KEY CHECK (id <> ''),
  -- Name of the cell: a standby may wait for one that nobody has made yet.
  cell text COLLATE "C" NOT NULL CHECK (cell <> ''),
  address text COLLATE "C" NOT NULL,
  host_name text NOT NULL,
  version text NOT NULL,
  master_keys text[] NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_threshold = 1000);

ALTER TABLE capstan.cells
  ADD COLUMN taken_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  ADD COLUMN take_overs bigint NOT NULL DEFAULT 0,
  ADD COLUMN previous_address text NOT NULL DEFAULT '';
UPDATE capstan.cells SET taken_at = least(taken_at, to_timestamp(term));
CREATE FUNCTION capstan.cells_taken() RETURNS trigger LANGUAGE plpgsql AS $trigger$ BEGIN
  NEW.taken_at = clock_timestamp();
  IF NEW.owner <> OLD.owner THEN
    NEW.take_overs = OLD.take_overs + 1;
    NEW.previous_address = OLD.address;
  END IF;
  RETURN NEW;
END $trigger$;
CREATE TRIGGER cells_taken BEFORE UPDATE OF term ON capstan.cells FOR EACH ROW WHEN (NEW.term <> OLD.term) EXECUTE FUNCTION capstan.cells_taken();
`,
};
