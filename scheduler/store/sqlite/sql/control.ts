import type { Database } from 'better-sqlite3';

import type { AuditPosition, AuditRow, ControlKind, ControlRow } from '../../../core/ports/store.ts';
import { bound } from '../../rows.ts';

const INSERT = 'INSERT INTO control (kind, key, version, value) VALUES (?, ?, 1, ?) ON CONFLICT DO NOTHING';
const UPDATE = 'UPDATE control SET version = ?, value = ? WHERE kind = ? AND key = ? AND version = ?';
const REMOVE = 'DELETE FROM control WHERE kind = ? AND key = ? AND version = ?';
const STANDING = 'SELECT 1 FROM control WHERE kind = ? AND key = ?';
// Keys begin with the account and a slash; '0' is the next character.
const AUDIT = 'SELECT id, value FROM audit WHERE id >= ? AND id < ? ORDER BY id DESC LIMIT ?';
const AUDIT_AFTER = 'SELECT id, value FROM audit WHERE (at, id) > (?, ?) AND at < ? ORDER BY at, id LIMIT ?';
const LIST = 'SELECT kind, key, version, value FROM control WHERE kind = ? AND key > ? ORDER BY key LIMIT ?';

/** Control rows: small versioned JSON documents. */
export function controlStatements(db: Database) {
  const insertRow = db.prepare<[string, string, string]>(INSERT);
  const updateRow = db.prepare<[number, string, string, string, number]>(UPDATE);
  const removeRow = db.prepare<[string, string, number]>(REMOVE);
  const standingRow = db.prepare<[string, string], 1>(STANDING).pluck();
  const listRows = db.prepare<[string, string, number], [ControlKind, string, number, string]>(LIST).raw();
  const auditRows = db.prepare<[string, string, number], AuditRow>(AUDIT);
  const laterAuditRows = db.prepare<[number, string, number, number], AuditRow>(AUDIT_AFTER);
  return {
    /** `conflict` if the present version is not `version - 1`; `gone` if there is no row to remove. */
    put(kind: ControlKind | 'audit', key: string, version: number, value: string | null): 'ok' | 'conflict' | 'gone' {
      if (value === null) {
        if (removeRow.run(kind, key, version - 1).changes === 1) return 'ok';
        return standingRow.get(kind, key) === undefined ? 'gone' : 'conflict';
      }
      const { changes } = version === 1 ? insertRow.run(kind, key, value) : updateRow.run(version, value, kind, key, version - 1);
      return changes === 1 ? 'ok' : 'conflict';
    },
    audit(account: string, beforeId: string, limit: number): AuditRow[] {
      return auditRows.all(`${account}/`, beforeId === '' ? `${account}0` : beforeId, bound(limit));
    },
    auditAfter({ at, id }: AuditPosition, until: number, limit: number): AuditRow[] {
      return laterAuditRows.all(at, id, until, bound(limit));
    },
    list(kind: ControlKind, after: string, limit: number): ControlRow[] {
      return listRows.all(kind, after, bound(limit)).map(([rowKind, key, version, value]) => ({ kind: rowKind, key, version, value }));
    },
  };
}
