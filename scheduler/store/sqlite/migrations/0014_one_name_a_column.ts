import type { Migration } from './migration.ts';

/** The columns have the names that they have in PostgreSQL and in the code. No row is rewritten but the two marks. */
export const oneNameAColumn: Migration = {
  number: 14,
  name: 'one name a column',
  sql: `
ALTER TABLE jobs RENAME COLUMN no TO seq;
ALTER TABLE jobs RENAME COLUMN position TO queue_position;
ALTER TABLE inputs RENAME COLUMN no TO seq;
ALTER TABLE chunks RENAME COLUMN no TO seq;

CREATE TABLE former_marks AS SELECT name, value FROM marks;
DROP TABLE marks;
CREATE TABLE marks (
  name TEXT PRIMARY KEY CHECK (name IN ('seq', 'queue_position')),
  value INTEGER NOT NULL CHECK (value >= 0)
) STRICT, WITHOUT ROWID;
INSERT INTO marks (name, value) SELECT CASE name WHEN 'no' THEN 'seq' ELSE 'queue_position' END, value FROM former_marks;
DROP TABLE former_marks;
`,
};
