import { COMMIT_V6 } from './functions/commit_v6.ts';
import type { Migration } from './migration.ts';

/** A job keeps the id of the API key that submitted it. `commit_v6` is `commit_v5` whose submissions carry it. */
export const submitters: Migration = {
  number: 16,
  name: 'submitters',
  sql: `
ALTER TABLE capstan.jobs ADD COLUMN submitted_by text;
CREATE TYPE capstan.submit_v3 AS ("at" int, "wave" int, "seq" bigint, "id" text, "endpoint" text, "kind" text, "state" text, "priority" int, "queue_position" bigint, "token" bigint, "attempts" int, "node" text, "incarnation" text, "worker" text, "submitted_at" bigint, "delete_at" bigint, "execution_timeout_ms" bigint, "ttl_ms" bigint, "retention_ms" bigint, "webhook" text, "trace" text, "tags" text, "submitted_by" text, "inline" bytea, "blob" text, "size" bigint, "s3" bytea, "key" text, "body_hash" bytea, "expires_at" bigint);
${COMMIT_V6}`,
};
