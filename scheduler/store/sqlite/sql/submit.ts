import type { Database } from 'better-sqlite3';

import type { Payload } from '../../../../lib/payload.ts';
import type { PayloadCodec } from '../../payload-codec.ts';
import type { JobRow } from '../../store.ts';
import { ms, payloadColumns } from '../../rows.ts';
import { inlineLength, type InlineUsage } from './inline-usage.ts';

const INSERT_JOB = `
INSERT INTO jobs (
  seq, id, endpoint, kind, state, priority, queue_position, token, attempts, node, incarnation, worker,
  submitted_at, delete_at, execution_timeout_ms, ttl_ms, retention_ms, webhook, has_s3, trace, tags
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (id) DO NOTHING`;

const INSERT_INPUT = 'INSERT INTO inputs (seq, inline, blob, size, s3) VALUES (?, ?, ?, ?, ?)';

/** Inserts a job, queued or leased, with its input. */
export function submitStatements(db: Database, codec: PayloadCodec, usage: InlineUsage) {
  const job = db.prepare(INSERT_JOB);
  const input = db.prepare(INSERT_INPUT);
  return {
    /** Returns false if the id is taken. */
    insert(row: JobRow, payload: Payload, s3: Uint8Array | null): boolean {
      const lease = row.lease;
      const { changes } = job.run(
        row.seq,
        row.id,
        row.endpoint,
        row.kind,
        row.state,
        row.priority,
        row.queuePosition,
        row.token,
        row.attempts,
        lease === null ? null : lease.node,
        lease === null ? null : lease.incarnation,
        lease === null ? row.worker : lease.worker,
        ms(row.submittedAt),
        ms(row.deleteAt),
        ms(row.executionTimeoutMs),
        ms(row.ttlMs),
        ms(row.retentionMs),
        row.webhook,
        s3 === null ? 0 : 1,
        row.trace,
        row.tags,
      );
      if (changes === 0) return false;
      const columns = payloadColumns(payload, codec);
      input.run(row.seq, ...columns, s3);
      usage.add(row.endpoint, inlineLength(columns));
      return true;
    },
  };
}
