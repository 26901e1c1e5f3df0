import type { Migration } from './migration.ts';

/**
 * Several cells in one database.
 *
 * - A cell exists before its first owner: \`owner\` is null until then. \`default\` is made here.
 * - \`accounts\` says in which cell an account lives. Its ids are unique over all cells, so that no account of one cell is
 *   taken for that of another. The trigger adds accounts that were not claimed first, for example copied ones.
 * - The sweep of orphans asks which builds any cell has; a cell asks for the operator's keys of cell 0.
 */
export const cells: Migration = {
  number: 4,
  name: 'cells',
  sql: `
ALTER TABLE capstan.cells ALTER owner DROP NOT NULL;
INSERT INTO capstan.cells (cell, name, address, term, batch, wall, highest_seq, highest_queue_position)
  VALUES (0, 'default', '', 1, 0, 0, 0, 0) ON CONFLICT DO NOTHING;

CREATE TABLE capstan.accounts (
  id text COLLATE "C" PRIMARY KEY,
  cell int NOT NULL REFERENCES capstan.cells
);
CREATE INDEX accounts_cell ON capstan.accounts (cell);
INSERT INTO capstan.accounts (id, cell)
  SELECT 'default', 0 UNION SELECT key, cell FROM capstan.control WHERE kind = 'account'
  UNION SELECT value->>'account', cell FROM capstan.control WHERE kind = 'key'
  ON CONFLICT DO NOTHING;
CREATE FUNCTION capstan.note_account() RETURNS trigger LANGUAGE plpgsql AS $trigger$ BEGIN
  INSERT INTO capstan.accounts (id, cell) VALUES (NEW.key, NEW.cell) ON CONFLICT DO NOTHING;
  RETURN NULL;
END $trigger$;
CREATE TRIGGER note_account AFTER INSERT ON capstan.control FOR EACH ROW WHEN (NEW.kind = 'account') EXECUTE FUNCTION capstan.note_account();

CREATE INDEX control_builds ON capstan.control (key) WHERE kind = 'build';
CREATE INDEX control_operator_keys ON capstan.control (key) WHERE cell = 0 AND kind = 'key' AND value->>'scope' = 'KEY_SCOPE_OPERATOR';`,
};
