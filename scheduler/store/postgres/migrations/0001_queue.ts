import type { Migration } from './migration.ts';

/**
 * The queue and everything beside it, by cell: what SQLite's tables hold, and the term of each cell.
 *
 * - Ids, keys and hosts compare byte by byte (COLLATE "C"), as in SQLite.
 * - `cells.highest_*` are the highest numbers given out, removed jobs included.
 * - Few CHECKs and indexes: each costs every job. What no transition can lead to is refused by the operations' guards, and
 *   the constraints that cost a comparison of columns at hand stay as a second line.
 * - Bodies that rows name are counted by triggers, each blob once, as in SQLite; rows without blobs cost a comparison.
 */
export const queue: Migration = {
  number: 1,
  name: 'queue',
  sql: `
CREATE TYPE capstan.job_state AS ENUM ('IN_QUEUE', 'LEASED', 'COMPLETED', 'FAILED', 'CANCELLED', 'TIMED_OUT');
CREATE TYPE capstan.job_kind AS ENUM ('RUN', 'RUNSYNC');
CREATE TYPE capstan.hook_state AS ENUM ('PENDING', 'FAILED');

CREATE TABLE capstan.cells (
  cell int PRIMARY KEY CHECK (cell >= 0),
  name text NOT NULL UNIQUE,
  owner text NOT NULL CHECK (owner <> ''),
  address text NOT NULL,
  term bigint NOT NULL CHECK (term > 0),
  batch bigint NOT NULL CHECK (batch >= 0),
  wall bigint NOT NULL CHECK (wall >= 0),
  highest_seq bigint NOT NULL CHECK (highest_seq >= 0),
  highest_queue_position bigint NOT NULL CHECK (highest_queue_position >= 0)
) WITH (fillfactor = 20);

CREATE TABLE capstan.jobs (
  seq bigint NOT NULL CHECK (seq > 0),
  queue_position bigint NOT NULL CHECK (queue_position >= 0),
  token bigint NOT NULL,
  submitted_at bigint NOT NULL,
  started_at bigint,
  ended_at bigint,
  delete_at bigint NOT NULL,
  execution_timeout_ms bigint NOT NULL CHECK (execution_timeout_ms >= 0),
  ttl_ms bigint NOT NULL CHECK (ttl_ms >= 0),
  retention_ms bigint NOT NULL CHECK (retention_ms >= 0),
  delay_ms bigint CHECK (delay_ms >= 0),
  execution_ms bigint CHECK (execution_ms >= 0),
  output_size bigint CHECK (output_size >= 0),
  cell int NOT NULL,
  attempts int NOT NULL,
  chunks int NOT NULL DEFAULT 0 CHECK (chunks >= 0),
  state capstan.job_state NOT NULL,
  kind capstan.job_kind NOT NULL,
  priority smallint NOT NULL CHECK (priority IN (0, 1)),
  has_s3 boolean NOT NULL,
  id text COLLATE "C" NOT NULL CHECK (id <> ''),
  endpoint text COLLATE "C" NOT NULL CHECK (endpoint <> ''),
  node text,
  incarnation text,
  worker text,
  webhook text,
  error text,
  output bytea,
  output_blob text COLLATE "C",

  PRIMARY KEY (cell, seq),
  CONSTRAINT jobs_id UNIQUE (cell, id),
  CONSTRAINT attempts_within_tokens CHECK (attempts BETWEEN 0 AND token),
  CONSTRAINT leased_has_lease CHECK (
    (state = 'LEASED') = (node IS NOT NULL) AND (node IS NULL) = (incarnation IS NULL)
    AND (state <> 'LEASED' OR (worker IS NOT NULL AND token > 0))
  ),
  CONSTRAINT ended_has_end CHECK ((state IN ('IN_QUEUE', 'LEASED')) = (ended_at IS NULL)),
  CONSTRAINT queued_has_no_start CHECK (state <> 'IN_QUEUE' OR (started_at IS NULL AND delay_ms IS NULL)),
  CONSTRAINT start_has_lease CHECK (started_at IS NULL OR token > 0),
  CONSTRAINT completed_was_leased CHECK (state <> 'COMPLETED' OR token > 0),
  CONSTRAINT failed_has_error CHECK (state <> 'FAILED' OR error IS NOT NULL),
  CONSTRAINT error_is_of_failures CHECK (error IS NULL OR state IN ('FAILED', 'CANCELLED', 'TIMED_OUT')),
  CONSTRAINT results_are_of_ended CHECK (
    ended_at IS NOT NULL OR (execution_ms IS NULL AND output IS NULL AND output_blob IS NULL AND chunks = 0)
  ),
  CONSTRAINT output_is_one_body CHECK ((output IS NULL OR output_blob IS NULL) AND (output_blob IS NULL) = (output_size IS NULL))
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0.05);
-- Unique: two jobs at one place would hide one of them from a reader that goes on after it.
CREATE UNIQUE INDEX jobs_queued ON capstan.jobs (cell, endpoint, priority, queue_position) WHERE state = 'IN_QUEUE';
CREATE INDEX jobs_leased ON capstan.jobs (cell, seq) WHERE state = 'LEASED';
CREATE INDEX jobs_ended ON capstan.jobs (cell, endpoint, state, queue_position) WHERE ended_at IS NOT NULL;
CREATE INDEX jobs_due ON capstan.jobs (cell, delete_at, seq);
CREATE INDEX jobs_output_blob ON capstan.jobs (output_blob) WHERE output_blob IS NOT NULL;

CREATE TABLE capstan.inputs (
  seq bigint NOT NULL,
  size bigint CHECK (size >= 0),
  cell int NOT NULL,
  inline bytea,
  blob text COLLATE "C",
  s3 bytea,
  PRIMARY KEY (cell, seq),
  CONSTRAINT input_is_one_body CHECK ((inline IS NULL) <> (blob IS NULL) AND (blob IS NULL) = (size IS NULL))
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0.05);
CREATE INDEX inputs_blob ON capstan.inputs (blob) WHERE blob IS NOT NULL;
CREATE INDEX inputs_s3 ON capstan.inputs (cell, seq) WHERE s3 IS NOT NULL;

CREATE TABLE capstan.chunks (
  seq bigint NOT NULL,
  size bigint CHECK (size >= 0),
  cell int NOT NULL,
  idx int NOT NULL CHECK (idx >= 0),
  inline bytea,
  blob text COLLATE "C",
  PRIMARY KEY (cell, seq, idx),
  CONSTRAINT chunk_is_one_body CHECK ((inline IS NULL) <> (blob IS NULL) AND (blob IS NULL) = (size IS NULL))
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0.05);
CREATE INDEX chunks_blob ON capstan.chunks (blob) WHERE blob IS NOT NULL;

CREATE TABLE capstan.hooks (
  -- Deliveries that are due at the same moment go in the order of their making.
  number bigint GENERATED ALWAYS AS IDENTITY,
  due_at bigint NOT NULL,
  input_size bigint CHECK (input_size >= 0),
  output_size bigint CHECK (output_size >= 0),
  cell int NOT NULL,
  tries int NOT NULL CHECK (tries >= 0),
  state capstan.hook_state NOT NULL,
  id text COLLATE "C" NOT NULL CHECK (id <> ''),
  account text COLLATE "C" NOT NULL,
  endpoint text COLLATE "C" NOT NULL CHECK (endpoint <> ''),
  url text NOT NULL CHECK (url <> ''),
  host text COLLATE "C" NOT NULL,
  error text,
  envelope json NOT NULL,
  input bytea,
  input_blob text COLLATE "C",
  output bytea,
  output_blob text COLLATE "C",
  PRIMARY KEY (cell, id),
  CONSTRAINT failed_was_tried CHECK (state <> 'FAILED' OR (tries > 0 AND error IS NOT NULL)),
  CONSTRAINT hook_input_is_one_body CHECK ((input IS NULL) <> (input_blob IS NULL) AND (input_blob IS NULL) = (input_size IS NULL)),
  CONSTRAINT hook_output_is_one_body CHECK ((output IS NULL OR output_blob IS NULL) AND (output_blob IS NULL) = (output_size IS NULL))
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0.05);
CREATE INDEX hooks_pending ON capstan.hooks (cell, host, due_at, number) WHERE state = 'PENDING';
CREATE INDEX hooks_due ON capstan.hooks (cell, due_at) WHERE state = 'PENDING';
CREATE INDEX hooks_failed ON capstan.hooks (cell, due_at) WHERE state = 'FAILED';
CREATE INDEX hooks_account ON capstan.hooks (cell, account, id);
CREATE INDEX hooks_input_blob ON capstan.hooks (input_blob) WHERE input_blob IS NOT NULL;
CREATE INDEX hooks_output_blob ON capstan.hooks (output_blob) WHERE output_blob IS NOT NULL;

-- Hosts with pending deliveries and when the first of them is due: what is due elsewhere is found without going through the
-- queue of a host that does not answer.
CREATE TABLE capstan.hook_hosts (
  next_at bigint NOT NULL,
  cell int NOT NULL,
  host text COLLATE "C" NOT NULL,
  PRIMARY KEY (cell, host)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0.05);
CREATE INDEX hook_hosts_next ON capstan.hook_hosts (cell, next_at);

-- Outlives its job: a key stays taken until it expires.
CREATE TABLE capstan.idempotency (
  expires_at bigint NOT NULL,
  cell int NOT NULL,
  key text COLLATE "C" NOT NULL,
  job_id text NOT NULL CHECK (job_id <> ''),
  body_hash bytea NOT NULL,
  PRIMARY KEY (cell, key)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0.05);
CREATE INDEX idempotency_expired ON capstan.idempotency (cell, expires_at);

CREATE TABLE capstan.control (
  version bigint NOT NULL CHECK (version > 0),
  cell int NOT NULL,
  kind text COLLATE "C" NOT NULL CHECK (kind <> ''),
  key text COLLATE "C" NOT NULL,
  -- An endpoint's, for the bytes of its jobs' bodies; null for other kinds.
  account text COLLATE "C",
  value json NOT NULL,
  PRIMARY KEY (cell, kind, key)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0.05);

CREATE TABLE capstan.bodies (
  size bigint NOT NULL CHECK (size >= 0),
  refs bigint NOT NULL CHECK (refs >= 0),
  cell int NOT NULL,
  id text COLLATE "C" NOT NULL CHECK (id <> ''),
  account text COLLATE "C" NOT NULL,
  PRIMARY KEY (cell, id)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0.05);

CREATE TABLE capstan.body_usage (
  bytes bigint NOT NULL CHECK (bytes >= 0),
  cell int NOT NULL,
  account text COLLATE "C" NOT NULL,
  PRIMARY KEY (cell, account)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0.05);

CREATE FUNCTION capstan.inputs_name() RETURNS trigger LANGUAGE plpgsql AS $trigger$ BEGIN INSERT INTO capstan.bodies (cell, id, account, size, refs) VALUES (NEW.cell, NEW.blob, coalesce((SELECT account FROM capstan.control WHERE cell = NEW.cell AND kind = 'endpoint' AND key = (SELECT endpoint FROM capstan.jobs WHERE cell = NEW.cell AND seq = NEW.seq)), ''), NEW.size, 1)
    ON CONFLICT (cell, id) DO UPDATE SET refs = capstan.bodies.refs + 1; RETURN NULL; END $trigger$;
CREATE TRIGGER inputs_name AFTER INSERT ON capstan.inputs FOR EACH ROW WHEN (NEW.blob IS NOT NULL) EXECUTE FUNCTION capstan.inputs_name();
CREATE FUNCTION capstan.inputs_unname() RETURNS trigger LANGUAGE plpgsql AS $trigger$ BEGIN UPDATE capstan.bodies SET refs = refs - 1 WHERE cell = OLD.cell AND id = OLD.blob; RETURN NULL; END $trigger$;
CREATE TRIGGER inputs_unname AFTER DELETE ON capstan.inputs FOR EACH ROW WHEN (OLD.blob IS NOT NULL) EXECUTE FUNCTION capstan.inputs_unname();
CREATE FUNCTION capstan.chunks_name() RETURNS trigger LANGUAGE plpgsql AS $trigger$ BEGIN INSERT INTO capstan.bodies (cell, id, account, size, refs) VALUES (NEW.cell, NEW.blob, coalesce((SELECT account FROM capstan.control WHERE cell = NEW.cell AND kind = 'endpoint' AND key = (SELECT endpoint FROM capstan.jobs WHERE cell = NEW.cell AND seq = NEW.seq)), ''), NEW.size, 1)
    ON CONFLICT (cell, id) DO UPDATE SET refs = capstan.bodies.refs + 1; RETURN NULL; END $trigger$;
CREATE TRIGGER chunks_name AFTER INSERT ON capstan.chunks FOR EACH ROW WHEN (NEW.blob IS NOT NULL) EXECUTE FUNCTION capstan.chunks_name();
CREATE FUNCTION capstan.chunks_unname() RETURNS trigger LANGUAGE plpgsql AS $trigger$ BEGIN UPDATE capstan.bodies SET refs = refs - 1 WHERE cell = OLD.cell AND id = OLD.blob; RETURN NULL; END $trigger$;
CREATE TRIGGER chunks_unname AFTER DELETE ON capstan.chunks FOR EACH ROW WHEN (OLD.blob IS NOT NULL) EXECUTE FUNCTION capstan.chunks_unname();
CREATE FUNCTION capstan.jobs_name() RETURNS trigger LANGUAGE plpgsql AS $trigger$ BEGIN INSERT INTO capstan.bodies (cell, id, account, size, refs) VALUES (NEW.cell, NEW.output_blob, coalesce((SELECT account FROM capstan.control WHERE cell = NEW.cell AND kind = 'endpoint' AND key = NEW.endpoint), ''), NEW.output_size, 1)
    ON CONFLICT (cell, id) DO UPDATE SET refs = capstan.bodies.refs + 1; RETURN NULL; END $trigger$;
CREATE TRIGGER jobs_name AFTER UPDATE OF output_blob ON capstan.jobs FOR EACH ROW WHEN (NEW.output_blob IS NOT NULL AND NEW.output_blob IS DISTINCT FROM OLD.output_blob) EXECUTE FUNCTION capstan.jobs_name();
CREATE FUNCTION capstan.jobs_rename() RETURNS trigger LANGUAGE plpgsql AS $trigger$ BEGIN UPDATE capstan.bodies SET refs = refs - 1 WHERE cell = OLD.cell AND id = OLD.output_blob; RETURN NULL; END $trigger$;
CREATE TRIGGER jobs_rename AFTER UPDATE OF output_blob ON capstan.jobs FOR EACH ROW WHEN (OLD.output_blob IS NOT NULL AND NEW.output_blob IS DISTINCT FROM OLD.output_blob) EXECUTE FUNCTION capstan.jobs_rename();
CREATE FUNCTION capstan.jobs_unname() RETURNS trigger LANGUAGE plpgsql AS $trigger$ BEGIN UPDATE capstan.bodies SET refs = refs - 1 WHERE cell = OLD.cell AND id = OLD.output_blob; RETURN NULL; END $trigger$;
CREATE TRIGGER jobs_unname AFTER DELETE ON capstan.jobs FOR EACH ROW WHEN (OLD.output_blob IS NOT NULL) EXECUTE FUNCTION capstan.jobs_unname();
CREATE FUNCTION capstan.hooks_name_input() RETURNS trigger LANGUAGE plpgsql AS $trigger$ BEGIN INSERT INTO capstan.bodies (cell, id, account, size, refs) VALUES (NEW.cell, NEW.input_blob, NEW.account, NEW.input_size, 1)
    ON CONFLICT (cell, id) DO UPDATE SET refs = capstan.bodies.refs + 1; RETURN NULL; END $trigger$;
CREATE TRIGGER hooks_name_input AFTER INSERT ON capstan.hooks FOR EACH ROW WHEN (NEW.input_blob IS NOT NULL) EXECUTE FUNCTION capstan.hooks_name_input();
CREATE FUNCTION capstan.hooks_unname_input() RETURNS trigger LANGUAGE plpgsql AS $trigger$ BEGIN UPDATE capstan.bodies SET refs = refs - 1 WHERE cell = OLD.cell AND id = OLD.input_blob; RETURN NULL; END $trigger$;
CREATE TRIGGER hooks_unname_input AFTER DELETE ON capstan.hooks FOR EACH ROW WHEN (OLD.input_blob IS NOT NULL) EXECUTE FUNCTION capstan.hooks_unname_input();
CREATE FUNCTION capstan.hooks_name_output() RETURNS trigger LANGUAGE plpgsql AS $trigger$ BEGIN INSERT INTO capstan.bodies (cell, id, account, size, refs) VALUES (NEW.cell, NEW.output_blob, NEW.account, NEW.output_size, 1)
    ON CONFLICT (cell, id) DO UPDATE SET refs = capstan.bodies.refs + 1; RETURN NULL; END $trigger$;
CREATE TRIGGER hooks_name_output AFTER INSERT ON capstan.hooks FOR EACH ROW WHEN (NEW.output_blob IS NOT NULL) EXECUTE FUNCTION capstan.hooks_name_output();
CREATE FUNCTION capstan.hooks_unname_output() RETURNS trigger LANGUAGE plpgsql AS $trigger$ BEGIN UPDATE capstan.bodies SET refs = refs - 1 WHERE cell = OLD.cell AND id = OLD.output_blob; RETURN NULL; END $trigger$;
CREATE TRIGGER hooks_unname_output AFTER DELETE ON capstan.hooks FOR EACH ROW WHEN (OLD.output_blob IS NOT NULL) EXECUTE FUNCTION capstan.hooks_unname_output();
CREATE FUNCTION capstan.bodies_counted() RETURNS trigger LANGUAGE plpgsql AS $trigger$ BEGIN INSERT INTO capstan.body_usage (cell, account, bytes) VALUES (NEW.cell, NEW.account, NEW.size)
    ON CONFLICT (cell, account) DO UPDATE SET bytes = capstan.body_usage.bytes + excluded.bytes; RETURN NULL; END $trigger$;
CREATE TRIGGER bodies_counted AFTER INSERT ON capstan.bodies FOR EACH ROW WHEN (true) EXECUTE FUNCTION capstan.bodies_counted();
CREATE FUNCTION capstan.bodies_unnamed() RETURNS trigger LANGUAGE plpgsql AS $trigger$ BEGIN DELETE FROM capstan.bodies WHERE cell = NEW.cell AND id = NEW.id;
    UPDATE capstan.body_usage SET bytes = bytes - NEW.size WHERE cell = NEW.cell AND account = NEW.account;
    DELETE FROM capstan.body_usage WHERE cell = NEW.cell AND account = NEW.account AND bytes = 0; RETURN NULL; END $trigger$;
CREATE TRIGGER bodies_unnamed AFTER UPDATE OF refs ON capstan.bodies FOR EACH ROW WHEN (NEW.refs = 0) EXECUTE FUNCTION capstan.bodies_unnamed();

CREATE TYPE capstan.dropped_blob AS (at int, blob text);
CREATE TYPE capstan.put_v1 AS ("at" int, "wave" int, "kind" text, "key" text, "version" bigint, "account" text, "value" text);
CREATE TYPE capstan.submit_v1 AS ("at" int, "wave" int, "seq" bigint, "queue_position" bigint, "id" text, "endpoint" text, "kind" text, "state" text, "priority" int, "token" bigint, "attempts" int, "node" text, "incarnation" text, "worker" text, "submitted_at" bigint, "delete_at" bigint, "execution_timeout_ms" bigint, "ttl_ms" bigint, "retention_ms" bigint, "webhook" text, "inline" bytea, "blob" text, "size" bigint, "s3" bytea, "key" text, "body_hash" bytea, "expires_at" bigint);
CREATE TYPE capstan.lease_v1 AS ("at" int, "wave" int, "seq" bigint, "token" bigint, "node" text, "incarnation" text, "worker" text);
CREATE TYPE capstan.started_v1 AS ("at" int, "wave" int, "seq" bigint, "token" bigint, "started_at" bigint, "attempts" int, "delay_ms" bigint);
CREATE TYPE capstan.finish_v1 AS ("at" int, "wave" int, "seq" bigint, "token" bigint, "expected" text, "state" text, "ended_at" bigint, "delete_at" bigint, "attempts" int, "delay_ms" bigint, "execution_ms" bigint, "error" text, "output" bytea, "output_blob" text, "output_size" bigint, "chunks" int);
CREATE TYPE capstan.chunk_v1 AS ("at" int, "wave" int, "seq" bigint, "idx" int, "inline" bytea, "blob" text, "size" bigint);
CREATE TYPE capstan.new_hook_v1 AS ("at" int, "wave" int, "seq" bigint, "id" text, "account" text, "endpoint" text, "url" text, "host" text, "envelope" text, "due_at" bigint, "output" bytea, "output_blob" text, "output_size" bigint);
CREATE TYPE capstan.requeue_v1 AS ("at" int, "wave" int, "seq" bigint, "token" bigint, "attempts" int);
CREATE TYPE capstan.retry_v1 AS ("at" int, "wave" int, "seq" bigint, "queue_position" bigint, "submitted_at" bigint, "delete_at" bigint);
CREATE TYPE capstan.delete_v1 AS ("at" int, "wave" int, "seq" bigint, "due_by" bigint);
CREATE TYPE capstan.drain_v1 AS ("at" int, "wave" int, "seq" bigint, "below" int);
CREATE TYPE capstan.reencrypt_v1 AS ("at" int, "wave" int, "seq" bigint, "former" bytea, "renewed" bytea);
CREATE TYPE capstan.hook_v1 AS ("at" int, "wave" int, "id" text, "after" int, "state" text, "due_at" bigint, "tries" int, "error" text);
`,
};
