import type { Database } from 'better-sqlite3';

import type { HookRow } from '../../store.ts';
import { blobOf, bound, inlineOf, ms, sizeOf, toHook, type HookTuple } from '../rows.ts';

/**
 * A job that was retried and ended again without a new lease has the same id for its second
 * delivery: the newer end stands.
 */
const insert = `
INSERT INTO hooks (id, job_no, url, inline, blob, size, due_at, tries) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (id) DO UPDATE SET job_no = excluded.job_no, url = excluded.url, inline = excluded.inline, blob = excluded.blob,
  size = excluded.size, due_at = excluded.due_at, tries = excluded.tries`;
const reschedule = 'UPDATE hooks SET due_at = ?, tries = ? WHERE id = ?';
const remove = 'DELETE FROM hooks WHERE id = ?';
const due = `
SELECT id, job_no, url, due_at, tries, inline, blob, size FROM hooks INDEXED BY hooks_due
WHERE due_at <= ? ORDER BY due_at, rowid LIMIT ?`;
const nextDue = 'SELECT due_at FROM hooks INDEXED BY hooks_due ORDER BY due_at, rowid LIMIT 1 OFFSET ?';

/** The outbox of webhook deliveries. */
export function hookStatements(db: Database) {
  const insertRow = db.prepare(insert);
  const rescheduleRow = db.prepare<[number, number, string]>(reschedule);
  const removeRow = db.prepare<[string]>(remove);
  const dueRows = db.prepare<[number, number], HookTuple>(due).raw();
  const nextRow = db.prepare<[number], number>(nextDue).pluck();
  return {
    add(hook: HookRow): void {
      const payload = hook.payload;
      insertRow.run(hook.id, hook.jobNo, hook.url, inlineOf(payload), blobOf(payload), sizeOf(payload), ms(hook.dueAt), hook.tries);
    },
    /** False when the row is not there. */
    tried(id: string, tries: number, dueAt: number | null): boolean {
      return (dueAt === null ? removeRow.run(id) : rescheduleRow.run(ms(dueAt), tries, id)).changes === 1;
    },
    due(wall: number, limit: number): { hooks: HookRow[]; nextAt: number | null } {
      const hooks = dueRows.all(wall, bound(limit)).map(toHook);
      return { hooks, nextAt: nextRow.get(hooks.length) ?? null };
    },
  };
}
