import type { Database } from 'better-sqlite3';

import type { DeviceHistoryRange, DeviceHistoryRow } from '../../device-history.ts';

const SAVE = `INSERT INTO device_history (node, device, at, value) VALUES (?, ?, ?, ?)
ON CONFLICT DO UPDATE SET value = excluded.value`;
const READ = 'SELECT at, value FROM device_history WHERE node = ? AND device = ? AND at >= ? AND at < ? ORDER BY at';
const EXPIRE = 'DELETE FROM device_history WHERE at < ?';

/** Gauges of devices, for plots. */
export function deviceHistoryStatements(db: Database) {
  const saveRow = db.prepare<[string, string, number, string]>(SAVE);
  const read = db.prepare<[string, string, number, number], Pick<DeviceHistoryRow, 'at' | 'value'>>(READ);
  const expire = db.prepare<[number]>(EXPIRE);
  return {
    save(rows: readonly DeviceHistoryRow[]): void {
      for (const { node, device, at, value } of rows) saveRow.run(node, device, at, value);
    },
    read: ({ node, device, from, until }: DeviceHistoryRange): Pick<DeviceHistoryRow, 'at' | 'value'>[] =>
      read.all(node, device, from, until),
    expire(before: number): void {
      expire.run(before);
    },
  };
}
