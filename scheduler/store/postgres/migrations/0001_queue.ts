import { batchFunction, batchTypes } from '../sql/batch.ts';
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
const ref = (blob: string, size: string, account: string): string =>
  `INSERT INTO capstan.bodies (cell, id, account, size, refs) VALUES (NEW.cell, ${blob}, ${account}, ${size}, 1)
    ON CONFLICT (cell, id) DO UPDATE SET refs = capstan.bodies.refs + 1;`;
const unref = (blob: string): string => `UPDATE capstan.bodies SET refs = refs - 1 WHERE cell = OLD.cell AND id = ${blob};`;
const accountOfEndpoint = (endpoint: string): string =>
  `coalesce((SELECT account FROM capstan.control WHERE cell = NEW.cell AND kind = 'endpoint' AND key = ${endpoint}), '')`;
const accountOfJob = accountOfEndpoint('(SELECT endpoint FROM capstan.jobs WHERE cell = NEW.cell AND seq = NEW.seq)');

interface Trigger {
  readonly name: string;
  readonly table: string;
  readonly when: string;
  readonly event: string;
  readonly body: string;
}

const triggers: readonly Trigger[] = [
  ...['inputs', 'chunks'].flatMap((table): Trigger[] => [
    { name: `${table}_name`, table, event: 'INSERT', when: 'NEW.blob IS NOT NULL', body: ref('NEW.blob', 'NEW.size', accountOfJob) },
    { name: `${table}_unname`, table, event: 'DELETE', when: 'OLD.blob IS NOT NULL', body: unref('OLD.blob') },
  ]),
  {
    name: 'jobs_name',
    table: 'jobs',
    event: 'UPDATE OF output_blob',
    when: 'NEW.output_blob IS NOT NULL AND NEW.output_blob IS DISTINCT FROM OLD.output_blob',
    body: ref('NEW.output_blob', 'NEW.output_size', accountOfEndpoint('NEW.endpoint')),
  },
  {
    name: 'jobs_rename',
    table: 'jobs',
    event: 'UPDATE OF output_blob',
    when: 'OLD.output_blob IS NOT NULL AND NEW.output_blob IS DISTINCT FROM OLD.output_blob',
    body: unref('OLD.output_blob'),
  },
  { name: 'jobs_unname', table: 'jobs', event: 'DELETE', when: 'OLD.output_blob IS NOT NULL', body: unref('OLD.output_blob') },
  ...['input', 'output'].flatMap((body): Trigger[] => [
    {
      name: `hooks_name_${body}`,
      table: 'hooks',
      event: 'INSERT',
      when: `NEW.${body}_blob IS NOT NULL`,
      body: ref(`NEW.${body}_blob`, `NEW.${body}_size`, 'NEW.account'),
    },
    {
      name: `hooks_unname_${body}`,
      table: 'hooks',
      event: 'DELETE',
      when: `OLD.${body}_blob IS NOT NULL`,
      body: unref(`OLD.${body}_blob`),
    },
  ]),
  {
    name: 'bodies_counted',
    table: 'bodies',
    event: 'INSERT',
    when: 'true',
    body: `INSERT INTO capstan.body_usage (cell, account, bytes) VALUES (NEW.cell, NEW.account, NEW.size)
    ON CONFLICT (cell, account) DO UPDATE SET bytes = capstan.body_usage.bytes + excluded.bytes;`,
  },
  {
    name: 'bodies_unnamed',
    table: 'bodies',
    event: 'UPDATE OF refs',
    when: 'NEW.refs = 0',
    body: `DELETE FROM capstan.bodies WHERE cell = NEW.cell AND id = NEW.id;
    UPDATE capstan.body_usage SET bytes = bytes - NEW.size WHERE cell = NEW.cell AND account = NEW.account;
    DELETE FROM capstan.body_usage WHERE cell = NEW.cell AND account = NEW.account AND bytes = 0;`,
  },
];

function triggerSql({ name, table, when, event, body }: Trigger): string {
  return `
CREATE FUNCTION capstan.${name}() RETURNS trigger LANGUAGE plpgsql AS $trigger$ BEGIN ${body} RETURN NULL; END $trigger$;
CREATE TRIGGER ${name} AFTER ${event} ON capstan.${table} FOR EACH ROW WHEN (${when}) EXECUTE FUNCTION capstan.${name}();`;
}

/** A table whose rows change several times and go: dead rows are cleaned up early, without pauses. */
const BUSY = 'WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0.05)';

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
) ${BUSY};
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
) ${BUSY};
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
) ${BUSY};
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
) ${BUSY};
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
) ${BUSY};
CREATE INDEX hook_hosts_next ON capstan.hook_hosts (cell, next_at);

-- Outlives its job: a key stays taken until it expires.
CREATE TABLE capstan.idempotency (
  expires_at bigint NOT NULL,
  cell int NOT NULL,
  key text COLLATE "C" NOT NULL,
  job_id text NOT NULL CHECK (job_id <> ''),
  body_hash bytea NOT NULL,
  PRIMARY KEY (cell, key)
) ${BUSY};
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
) ${BUSY};

CREATE TABLE capstan.bodies (
  size bigint NOT NULL CHECK (size >= 0),
  refs bigint NOT NULL CHECK (refs >= 0),
  cell int NOT NULL,
  id text COLLATE "C" NOT NULL CHECK (id <> ''),
  account text COLLATE "C" NOT NULL,
  PRIMARY KEY (cell, id)
) ${BUSY};

CREATE TABLE capstan.body_usage (
  bytes bigint NOT NULL CHECK (bytes >= 0),
  cell int NOT NULL,
  account text COLLATE "C" NOT NULL,
  PRIMARY KEY (cell, account)
) ${BUSY};
${triggers.map(triggerSql).join('')}
${batchTypes}
${batchFunction}`,
};
