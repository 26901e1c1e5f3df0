import type { Database } from 'better-sqlite3';

import { MAX_REASONS, REASONS_KEPT_MS, type QueueReasonRow } from '../../queue-reasons.ts';

const SAVE = `INSERT INTO queue_reasons (endpoint, at, reason, detail)
SELECT ?, ?, ?, ? WHERE EXISTS (SELECT 1 FROM control WHERE kind = 'endpoint' AND key = ?)
ON CONFLICT DO UPDATE SET reason = excluded.reason, detail = excluded.detail`;
const EXPIRE = `DELETE FROM queue_reasons WHERE endpoint = ? AND at <= max(?,
  coalesce((SELECT at FROM queue_reasons WHERE endpoint = ? ORDER BY at DESC LIMIT 1 OFFSET ${MAX_REASONS}), 0))`;
const READ = `SELECT at, reason, detail FROM queue_reasons WHERE endpoint = ? AND at < ?
AND at >= coalesce((SELECT max(at) FROM queue_reasons WHERE endpoint = ? AND at <= ?), 0) ORDER BY at`;
/** Looked up for each endpoint. */
const STANDING = `SELECT endpoint, reason FROM (
  SELECT key AS endpoint, (SELECT reason FROM queue_reasons WHERE endpoint = key ORDER BY at DESC LIMIT 1) AS reason
  FROM control WHERE kind = 'endpoint'
) WHERE reason <> ''`;

type Range = { readonly endpoint: string; readonly from: number; readonly until: number };

/** Why the queues of endpoints waited. */
export function queueReasonStatements(db: Database) {
  const saveRow = db.prepare<[string, number, string, string, string]>(SAVE);
  const expire = db.prepare<[string, number, string]>(EXPIRE);
  const read = db.prepare<[string, number, string, number], Omit<QueueReasonRow, 'endpoint'>>(READ);
  const standing = db.prepare<[], Pick<QueueReasonRow, 'endpoint' | 'reason'>>(STANDING);
  return {
    save(rows: readonly QueueReasonRow[]): void {
      for (const { endpoint, at, reason, detail } of rows) {
        saveRow.run(endpoint, at, reason, detail, endpoint);
        expire.run(endpoint, at - REASONS_KEPT_MS - 1, endpoint);
      }
    },
    read: ({ endpoint, from, until }: Range): Omit<QueueReasonRow, 'endpoint'>[] => read.all(endpoint, until, endpoint, from),
    standing: (): Pick<QueueReasonRow, 'endpoint' | 'reason'>[] => standing.all(),
  };
}
