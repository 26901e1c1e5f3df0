import type { Migration } from './migration.ts';

/** What a job's timeline shows of the past: the attempts that ended, and the reasons for which the queue of its endpoint waited. */
export const timelines: Migration = {
  number: 9,
  name: 'timelines',
  sql: `
ALTER TABLE jobs ADD COLUMN past_attempts TEXT;

CREATE TABLE queue_reasons (
  endpoint TEXT NOT NULL,
  at INTEGER NOT NULL,
  reason TEXT NOT NULL,
  detail TEXT NOT NULL,
  PRIMARY KEY (endpoint, at)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER queue_reasons_end AFTER DELETE ON control WHEN OLD.kind = 'endpoint' BEGIN
  DELETE FROM queue_reasons WHERE endpoint = OLD.key;
END;`,
};
