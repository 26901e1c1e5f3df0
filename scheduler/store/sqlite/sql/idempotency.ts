import type { Database } from 'better-sqlite3';

import { ms } from '../../rows.ts';

const FIND = 'SELECT job_id, body_hash FROM idempotency WHERE key = ? AND expires_at > ?';

/** An expired key that was not swept yet is free. */
const TAKE = `
INSERT INTO idempotency (key, job_id, body_hash, expires_at) VALUES (?, ?, ?, ?)
ON CONFLICT (key) DO UPDATE SET job_id = excluded.job_id, body_hash = excluded.body_hash, expires_at = excluded.expires_at`;

const SWEEP = `
DELETE FROM idempotency WHERE key IN (
  SELECT key FROM idempotency INDEXED BY idempotency_expired WHERE expires_at <= ? ORDER BY expires_at LIMIT ?
)`;

/** Idempotency keys; they outlive their jobs. */
export function idempotencyStatements(db: Database) {
  const findRow = db.prepare<[string, number], [string, Uint8Array]>(FIND).raw();
  const takeRow = db.prepare(TAKE);
  const sweepRows = db.prepare<[number, number]>(SWEEP);
  return {
    find(key: string, now: number): { jobId: string; bodyHash: Uint8Array } | null {
      const row = findRow.get(key, now);
      return row === undefined ? null : { jobId: row[0], bodyHash: row[1] };
    },
    take(key: string, jobId: string, bodyHash: Uint8Array, expiresAt: number): void {
      takeRow.run(key, jobId, bodyHash, ms(expiresAt));
    },
    /** Deletes expired keys, at most `limit`. Returns their number. */
    sweep(now: number, limit: number): number {
      return sweepRows.run(now, limit).changes;
    },
  };
}
