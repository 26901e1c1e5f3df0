import type { Migration } from './migration.ts';

/**
 * A job keeps the trace context of its submission: its attempts and webhooks, and those of its retries, continue the trace. And it keeps
 * the words by which its submitter finds it.
 */
export const tracesAndTags: Migration = {
  number: 8,
  name: 'traces_and_tags',
  sql: `
ALTER TABLE capstan.jobs ADD COLUMN trace text, ADD COLUMN tags text;
CREATE TYPE capstan.submit_v2 AS ("at" int, "wave" int, "seq" bigint, "queue_position" bigint, "id" text, "endpoint" text, "kind" text, "state" text, "priority" int, "token" bigint, "attempts" int, "node" text, "incarnation" text, "worker" text, "submitted_at" bigint, "delete_at" bigint, "execution_timeout_ms" bigint, "ttl_ms" bigint, "retention_ms" bigint, "webhook" text, "inline" bytea, "blob" text, "size" bigint, "s3" bytea, "key" text, "body_hash" bytea, "expires_at" bigint, "trace" text, "tags" text);
`,
};
