import type { Migration } from './migration.ts';

/**
 * Plans that do not depend on statistics. A table that was never analyzed, or is empty when a plan is made, has indexes of one
 * page each: to look a row up by its key, any index that begins with the cell seems as good as the primary key, and the
 * plan holds while the table fills. Batches then went through all jobs of the cell for each of their rows.
 *
 * So an index that begins with the cell, beside the primary key, has a condition that every row meets and only its own readers
 * state; and a batch joins tables by values of its rows.
 */
export const plans: Migration = {
  number: 5,
  name: 'plans',
  sql: `
ALTER TABLE capstan.jobs DROP CONSTRAINT jobs_id;
CREATE UNIQUE INDEX jobs_id ON capstan.jobs (cell, id) WHERE seq > 0;
DROP INDEX capstan.jobs_due;
CREATE INDEX jobs_due ON capstan.jobs (cell, delete_at, seq) WHERE delete_at >= 0;
DROP INDEX capstan.hooks_due;
CREATE INDEX hooks_due ON capstan.hooks (cell, due_at) WHERE state = 'PENDING' AND due_at >= 0;
DROP INDEX capstan.hooks_account;
CREATE INDEX hooks_account ON capstan.hooks (cell, account, id) WHERE tries >= 0;
DROP INDEX capstan.hook_hosts_next;
CREATE INDEX hook_hosts_next ON capstan.hook_hosts (cell, next_at) WHERE next_at >= 0;
DROP INDEX capstan.idempotency_expired;
CREATE INDEX idempotency_expired ON capstan.idempotency (cell, expires_at) WHERE expires_at >= 0;
`,
};
