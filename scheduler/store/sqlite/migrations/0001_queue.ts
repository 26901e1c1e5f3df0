import type { Migration } from './migration.ts';

/**
 * The queue and everything beside it.
 *
 * - `jobs` is narrow because each transition rewrites its row; inputs, which never change, live apart.
 *   The output is in the row: it is written once, with the row's last transition.
 * - Numbers and ids grow with time (UUIDv7), so every index is appended to or shortened at its ends
 *   and the depth of the queue costs nothing.
 * - The CHECKs refuse what no transition can lead to; they cost nothing on rows that are not written.
 * - No foreign keys: a body is written and removed in the transaction of its job.
 */
export const queue: Migration = {
  number: 1,
  name: 'queue',
  sql: `
CREATE TABLE jobs (
  no INTEGER PRIMARY KEY CHECK (no > 0),
  id TEXT NOT NULL UNIQUE CHECK (id <> ''),
  endpoint TEXT NOT NULL CHECK (endpoint <> ''),
  kind TEXT NOT NULL CHECK (kind IN ('RUN', 'RUNSYNC')),
  state TEXT NOT NULL CHECK (state IN ('IN_QUEUE', 'LEASED', 'COMPLETED', 'FAILED', 'CANCELLED', 'TIMED_OUT')),
  priority INTEGER NOT NULL CHECK (priority IN (0, 1)),
  position INTEGER NOT NULL CHECK (position >= 0),
  token INTEGER NOT NULL CHECK (token >= 0),
  attempts INTEGER NOT NULL,
  node TEXT,
  incarnation TEXT,
  worker TEXT,
  submitted_at INTEGER NOT NULL,
  started_at INTEGER,
  ended_at INTEGER,
  delete_at INTEGER NOT NULL,
  execution_timeout_ms INTEGER NOT NULL CHECK (execution_timeout_ms >= 0),
  ttl_ms INTEGER NOT NULL CHECK (ttl_ms >= 0),
  retention_ms INTEGER NOT NULL CHECK (retention_ms >= 0),
  webhook TEXT,
  delay_ms INTEGER CHECK (delay_ms >= 0),
  execution_ms INTEGER CHECK (execution_ms >= 0),
  error TEXT,
  has_s3 INTEGER NOT NULL CHECK (has_s3 IN (0, 1)),
  chunks INTEGER NOT NULL DEFAULT 0 CHECK (chunks >= 0),
  output BLOB,
  output_blob TEXT,
  output_size INTEGER CHECK (output_size >= 0),

  -- Each lease makes one token, and an attempt has a lease.
  CONSTRAINT attempts_within_tokens CHECK (attempts BETWEEN 0 AND token),
  -- A lease is whole or not there, and only a leased job has one.
  CONSTRAINT leased_has_lease CHECK (
    (state = 'LEASED') = (node IS NOT NULL) AND (node IS NULL) = (incarnation IS NULL)
    AND (state <> 'LEASED' OR (worker IS NOT NULL AND token > 0))
  ),
  CONSTRAINT ended_has_end CHECK ((state IN ('IN_QUEUE', 'LEASED')) = (ended_at IS NULL)),
  -- A waiting job has no present attempt, so no start.
  CONSTRAINT queued_has_no_start CHECK (state <> 'IN_QUEUE' OR (started_at IS NULL AND delay_ms IS NULL)),
  CONSTRAINT start_has_lease CHECK (started_at IS NULL OR token > 0),
  CONSTRAINT completed_was_leased CHECK (state <> 'COMPLETED' OR token > 0),
  CONSTRAINT failed_has_error CHECK (state <> 'FAILED' OR error IS NOT NULL),
  CONSTRAINT error_is_of_failures CHECK (error IS NULL OR state IN ('FAILED', 'CANCELLED', 'TIMED_OUT')),
  CONSTRAINT results_are_of_ended CHECK (
    ended_at IS NOT NULL OR (execution_ms IS NULL AND output IS NULL AND output_blob IS NULL AND chunks = 0)
  ),
  CONSTRAINT output_is_one_body CHECK ((output IS NULL OR output_blob IS NULL) AND (output_blob IS NULL) = (output_size IS NULL))
) STRICT;

-- Unique: two jobs at one place would hide one of them from a reader that goes on after it.
CREATE UNIQUE INDEX jobs_queued ON jobs (endpoint, priority, position) WHERE state = 'IN_QUEUE';
CREATE INDEX jobs_leased ON jobs (no) WHERE state = 'LEASED';
CREATE INDEX jobs_ended ON jobs (endpoint, state, position, priority) WHERE ended_at IS NOT NULL;
CREATE INDEX jobs_due ON jobs (delete_at);
CREATE INDEX jobs_output_blob ON jobs (output_blob) WHERE output_blob IS NOT NULL;

CREATE TABLE inputs (
  no INTEGER PRIMARY KEY,
  inline BLOB,
  blob TEXT,
  size INTEGER CHECK (size >= 0),
  s3 BLOB,
  CONSTRAINT input_is_one_body CHECK ((inline IS NULL) <> (blob IS NULL) AND (blob IS NULL) = (size IS NULL))
) STRICT;
CREATE INDEX inputs_blob ON inputs (blob) WHERE blob IS NOT NULL;

CREATE TABLE chunks (
  no INTEGER NOT NULL,
  idx INTEGER NOT NULL CHECK (idx >= 0),
  inline BLOB,
  blob TEXT,
  size INTEGER CHECK (size >= 0),
  CONSTRAINT chunk_is_one_body CHECK ((inline IS NULL) <> (blob IS NULL) AND (blob IS NULL) = (size IS NULL)),
  PRIMARY KEY (no, idx)
) STRICT;
CREATE INDEX chunks_blob ON chunks (blob) WHERE blob IS NOT NULL;

-- A delivery keeps its payload for as long as it needs it: it has no tie to the job's row.
CREATE TABLE hooks (
  id TEXT PRIMARY KEY CHECK (id <> ''),
  account TEXT NOT NULL,
  endpoint TEXT NOT NULL CHECK (endpoint <> ''),
  url TEXT NOT NULL CHECK (url <> ''),
  host TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('PENDING', 'FAILED')),
  due_at INTEGER NOT NULL,
  tries INTEGER NOT NULL CHECK (tries >= 0),
  error TEXT,
  envelope TEXT NOT NULL CHECK (json_valid(envelope)),
  input BLOB,
  input_blob TEXT,
  input_size INTEGER CHECK (input_size >= 0),
  output BLOB,
  output_blob TEXT,
  output_size INTEGER CHECK (output_size >= 0),
  CONSTRAINT failed_was_tried CHECK (state <> 'FAILED' OR (tries > 0 AND error IS NOT NULL)),
  CONSTRAINT hook_input_is_one_body CHECK ((input IS NULL) <> (input_blob IS NULL) AND (input_blob IS NULL) = (input_size IS NULL)),
  CONSTRAINT hook_output_is_one_body CHECK ((output IS NULL OR output_blob IS NULL) AND (output_blob IS NULL) = (output_size IS NULL))
) STRICT;
CREATE INDEX hooks_pending ON hooks (host, due_at) WHERE state = 'PENDING';
CREATE INDEX hooks_due ON hooks (due_at) WHERE state = 'PENDING';
CREATE INDEX hooks_failed ON hooks (due_at) WHERE state = 'FAILED';
CREATE INDEX hooks_input_blob ON hooks (input_blob) WHERE input_blob IS NOT NULL;
CREATE INDEX hooks_output_blob ON hooks (output_blob) WHERE output_blob IS NOT NULL;

-- Hosts with pending deliveries and when the first of them is due: what is due elsewhere is found
-- without going through the queue of a host that does not answer.
CREATE TABLE hook_hosts (
  host TEXT PRIMARY KEY,
  next_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX hook_hosts_next ON hook_hosts (next_at);

-- Outlives its job: a key stays taken until it expires.
CREATE TABLE idempotency (
  key TEXT PRIMARY KEY,
  job_id TEXT NOT NULL CHECK (job_id <> ''),
  body_hash BLOB NOT NULL,
  expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX idempotency_expired ON idempotency (expires_at);

CREATE TABLE control (
  kind TEXT NOT NULL CHECK (
    kind IN ('account', 'key', 'environment', 'endpoint', 'release', 'build', 'node', 'join-token', 'desired', 'setting')
  ),
  key TEXT NOT NULL,
  version INTEGER NOT NULL CHECK (version > 0),
  value TEXT NOT NULL CHECK (json_valid(value)),
  PRIMARY KEY (kind, key)
) STRICT;

CREATE TABLE shards (
  shard INTEGER PRIMARY KEY CHECK (shard >= 0),
  owner TEXT NOT NULL CHECK (owner <> ''),
  term INTEGER NOT NULL CHECK (term > 0),
  until INTEGER NOT NULL
) STRICT;

-- Highest number and position among removed jobs, so that neither is given out twice.
CREATE TABLE marks (
  name TEXT PRIMARY KEY CHECK (name IN ('no', 'position')),
  value INTEGER NOT NULL CHECK (value >= 0)
) STRICT, WITHOUT ROWID;
INSERT INTO marks (name, value) VALUES ('no', 0), ('position', 0);
`,
};
