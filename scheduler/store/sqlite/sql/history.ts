import type { Database } from 'better-sqlite3';

import { keptMs, type HistoryRange, type HistoryRow } from '../../history.ts';

const SAVE = `INSERT INTO history (endpoint, step, at, value)
SELECT ?, ?, ?, ? WHERE EXISTS (SELECT 1 FROM control WHERE kind = 'endpoint' AND key = ?)
ON CONFLICT DO UPDATE SET value = excluded.value`;
const EXPIRE = 'DELETE FROM history WHERE endpoint = ? AND step = ? AND at < ?';
const READ = 'SELECT at, value FROM history WHERE endpoint = ? AND step = ? AND at >= ? AND at < ? ORDER BY at';

/** What happened at endpoints, for plots. */
export function historyStatements(db: Database) {
  const saveRow = db.prepare<[string, number, number, string, string]>(SAVE);
  const expire = db.prepare<[string, number, number]>(EXPIRE);
  const read = db.prepare<[string, number, number, number], { at: number; value: string }>(READ);
  return {
    save(rows: readonly HistoryRow[]): void {
      for (const { endpoint, step, at, value } of rows) {
        saveRow.run(endpoint, step, at, value, endpoint);
        expire.run(endpoint, step, at - keptMs(step));
      }
    },
    read: ({ endpoint, step, from, until }: HistoryRange): Pick<HistoryRow, 'at' | 'value'>[] => read.all(endpoint, step, from, until),
  };
}
