/** Rows of jobs for tests and measurements, which say what they need; a column that is added and may be null is null. */
import { newJob } from '../../scheduler/store/rows.ts';
import type { JobRow } from '../../scheduler/core/ports/store.ts';

type Required = { [F in keyof JobRow as null extends JobRow[F] ? never : F]: JobRow[F] };

export function jobRowOf(fields: Required & Partial<JobRow>): JobRow {
  return { ...newJob(), ...fields } as unknown as JobRow;
}

/** A job that waits, the first of its queue; all times are 0 but that of its deletion. */
export function waitingJob(fields: Partial<JobRow> = {}): JobRow {
  const { seq = 1 } = fields;
  return jobRowOf({
    seq,
    id: `job-${seq}`,
    endpoint: 'e',
    kind: 'RUN',
    state: 'IN_QUEUE',
    priority: 0,
    queuePosition: seq,
    token: 0,
    attempts: 0,
    submittedAt: 0,
    deleteAt: 1,
    executionTimeoutMs: 0,
    ttlMs: 1,
    retentionMs: 1,
    hasS3: false,
    ...fields,
  });
}
