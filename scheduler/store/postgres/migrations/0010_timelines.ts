import type { Migration } from './migration.ts';

/** What a job's timeline shows of the past: the attempts that ended, and the reasons for which the queue of its endpoint waited. */
export const timelines: Migration = {
  number: 10,
  name: 'timelines',
  sql: `
ALTER TABLE capstan.jobs ADD COLUMN past_attempts text;
CREATE TYPE capstan.requeue_v2 AS ("at" int, "wave" int, "seq" bigint, "token" bigint, "attempts" int, "past_attempts" text);
CREATE TYPE capstan.retry_v2 AS ("at" int, "wave" int, "seq" bigint, "queue_position" bigint, "submitted_at" bigint, "delete_at" bigint, "past_attempts" text);


CREATE TABLE capstan.queue_reasons (
  endpoint text COLLATE "C" NOT NULL,
  at bigint NOT NULL,
  reason text NOT NULL,
  detail text NOT NULL,
  PRIMARY KEY (endpoint, at)
);
CREATE FUNCTION capstan.end_queue_reasons() RETURNS trigger LANGUAGE plpgsql AS $trigger$ BEGIN
  DELETE FROM capstan.queue_reasons WHERE endpoint = OLD.key;
  RETURN NULL;
END $trigger$;
CREATE TRIGGER end_queue_reasons AFTER DELETE ON capstan.control FOR EACH ROW WHEN (OLD.kind = 'endpoint')
  EXECUTE FUNCTION capstan.end_queue_reasons();
`,
};
