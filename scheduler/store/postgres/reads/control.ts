import type { ControlKind, Reads } from '../../../core/ports/store.ts';
import { bound } from '../../rows.ts';
import type { AsyncReads, Query } from './query.ts';

const LIST = 'SELECT kind, key, version, value::text FROM capstan.control WHERE cell = $1 AND kind = $2 AND key > $3 ORDER BY key LIMIT $4';
// Keys begin with the account and a slash; '0' is the next character.
const AUDIT = 'SELECT id, value FROM capstan.audit WHERE id >= $1 AND id < $2 ORDER BY id DESC LIMIT $3';
const AUDIT_AFTER =
  'SELECT id, value FROM capstan.audit WHERE cell = $1 AND at >= $2 AND (at, id) > ($2, $3) AND at < $4 ORDER BY at, id LIMIT $5';
const IDEMPOTENCY = 'SELECT job_id, body_hash FROM capstan.idempotency WHERE cell = $1 AND key = $2 AND expires_at > $3';

type ControlReads = Pick<AsyncReads<Reads>, 'control' | 'audit' | 'auditAfter' | 'idempotency'>;

/** @param now wall clock, ms since 1970. */
export function controlReads(query: Query, cell: number, now: () => number): ControlReads {
  return {
    async control(kind, afterKey, limit) {
      const rows = await query<[ControlKind, string, number, string]>('control', LIST, [cell, kind, afterKey, bound(limit)]);
      return rows.map(([rowKind, key, version, value]) => ({ kind: rowKind, key, version, value }));
    },
    async audit(account, beforeId, limit) {
      const rows = await query<[string, string]>('audit', AUDIT, [`${account}/`, beforeId === '' ? `${account}0` : beforeId, bound(limit)]);
      return rows.map(([id, value]) => ({ id, value }));
    },
    async auditAfter({ at, id }, until, limit) {
      const rows = await query<[string, string]>('audit-after', AUDIT_AFTER, [cell, at, id, until, bound(limit)]);
      return rows.map(([rowId, value]) => ({ id: rowId, value }));
    },
    async idempotency(key) {
      const [row] = await query<[string, Uint8Array]>('idempotency', IDEMPOTENCY, [cell, key, Math.trunc(now())]);
      return row === undefined ? null : { jobId: row[0], bodyHash: row[1] };
    },
  };
}
