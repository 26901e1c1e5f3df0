import type { Database } from 'better-sqlite3';

import type { Payload } from '../../../../lib/payload.ts';
import type { PayloadCodec } from '../../payload-codec.ts';
import type { DeliveryHead, DeliveryRow, NewDelivery, Op, DeliveryWindow } from '../../../core/ports/store.ts';
import { bound, ms, payloadColumns, toDelivery, toDeliveryHead, type DeliveryTuple, type WholeDeliveryTuple } from '../../rows.ts';
import { DELIVERY_COLUMNS, DELIVERY_PAYLOAD_COLUMNS } from './columns.ts';
import type { InlineUsage } from './inline-usage.ts';

/** Bytes of the payloads that the row holds itself. */
const INLINE_BYTES = 'ifnull(length(input), 0) + ifnull(length(output), 0)';

/** The input is copied from the job's, which never changes. */
const insert = `
INSERT INTO hooks (${DELIVERY_COLUMNS}, ${DELIVERY_PAYLOAD_COLUMNS})
SELECT ?, ?, ?, ?, ?, 'PENDING', ?, 0, NULL, ?, inline, blob, size, ?, ?, ? FROM inputs WHERE seq = ?
ON CONFLICT (id) DO NOTHING RETURNING ${INLINE_BYTES}`;
const CHANGE = 'UPDATE hooks SET state = ?, due_at = ?, tries = ?, error = ? WHERE id = ? AND tries = ifnull(?, tries) RETURNING host';
const remove = `
DELETE FROM hooks WHERE id = ? AND tries = ifnull(?, tries) RETURNING host, input_blob, output_blob, endpoint, ${INLINE_BYTES}`;
const STANDING = 'SELECT 1 FROM hooks WHERE id = ?';

const HOST_DUE = `
INSERT INTO hook_hosts (host, next_at) VALUES (?, ?)
ON CONFLICT (host) DO UPDATE SET next_at = excluded.next_at WHERE excluded.next_at < next_at`;
const FIRST_OF_HOST = "SELECT due_at FROM hooks INDEXED BY hooks_pending WHERE state = 'PENDING' AND host = ? ORDER BY due_at LIMIT 1";
const MOVE_HOST = 'INSERT INTO hook_hosts (host, next_at) VALUES (?, ?) ON CONFLICT (host) DO UPDATE SET next_at = excluded.next_at';
const DROP_HOST = 'DELETE FROM hook_hosts WHERE host = ?';

const HOSTS_DUE = `
SELECT host FROM hook_hosts INDEXED BY hook_hosts_next
WHERE next_at <= ? AND host NOT IN (SELECT value FROM json_each(?)) ORDER BY next_at LIMIT ?`;
const dueOfHost = `
SELECT ${DELIVERY_COLUMNS} FROM hooks INDEXED BY hooks_pending
WHERE state = 'PENDING' AND host = ? AND due_at <= ? AND id NOT IN (SELECT value FROM json_each(?)) ORDER BY due_at, rowid LIMIT ?`;
const NEXT_DUE = "SELECT due_at FROM hooks INDEXED BY hooks_due WHERE state = 'PENDING' AND due_at > ? ORDER BY due_at LIMIT 1";

const one = `SELECT ${DELIVERY_COLUMNS}, ${DELIVERY_PAYLOAD_COLUMNS} FROM hooks WHERE id = ?`;
const page = `SELECT ${DELIVERY_COLUMNS} FROM hooks INDEXED BY hooks_account WHERE account = ? AND id > ? ORDER BY id LIMIT ?`;
const newest = `SELECT ${DELIVERY_COLUMNS} FROM hooks INDEXED BY hooks_account WHERE account = ? AND id < ? ORDER BY id DESC LIMIT ?`;
const last = `SELECT ${DELIVERY_COLUMNS} FROM hooks INDEXED BY hooks_account WHERE account = ? ORDER BY id DESC LIMIT ?`;
const sweep = `
DELETE FROM hooks WHERE id IN (
  SELECT id FROM hooks INDEXED BY hooks_failed WHERE state = 'FAILED' AND due_at <= ? ORDER BY due_at LIMIT ?
) RETURNING endpoint, ${INLINE_BYTES}`;

type RemovedDelivery = [host: string, input: string | null, output: string | null, endpoint: string, inline: number];

/** Undelivered webhooks. */
export function deliveryStatements(db: Database, codec: PayloadCodec, usage: InlineUsage) {
  const insertRow = db.prepare<unknown[], number>(insert).pluck();
  const changeRow = db.prepare<unknown[], string>(CHANGE).pluck();
  const removeRow = db.prepare<unknown[], RemovedDelivery>(remove).raw();
  const standingRow = db.prepare<[string], 1>(STANDING).pluck();
  const hostDueRow = db.prepare<[string, number]>(HOST_DUE);
  const firstRow = db.prepare<[string], number>(FIRST_OF_HOST).pluck();
  const moveHostRow = db.prepare<[string, number]>(MOVE_HOST);
  const dropHostRow = db.prepare<[string]>(DROP_HOST);
  const hostRows = db.prepare<[number, string, number], string>(HOSTS_DUE).pluck();
  const dueRows = db.prepare<[string, number, string, number], DeliveryTuple>(dueOfHost).raw();
  const nextRow = db.prepare<[number], number>(NEXT_DUE).pluck();
  const oneRow = db.prepare<[string], WholeDeliveryTuple>(one).raw();
  const pageRows = db.prepare<[string, string, number], DeliveryTuple>(page).raw();
  const newestRows = db.prepare<[string, string, number], DeliveryTuple>(newest).raw();
  const lastRows = db.prepare<[string, number], DeliveryTuple>(last).raw();
  const sweepRows = db.prepare<[number, number], [endpoint: string, inline: number]>(sweep).raw();

  /** Updates a host's time after a change of one of its deliveries. */
  const settleHost = (host: string): void => {
    const first = firstRow.get(host);
    if (first === undefined) dropHostRow.run(host);
    else moveHostRow.run(host, first);
  };

  const removeOne = (id: string, after: number | null): RemovedDelivery | undefined => {
    const removed = removeRow.get(id, after);
    if (removed !== undefined) usage.add(removed[3], -removed[4]);
    return removed;
  };

  return {
    /** Adds the delivery of a job that ends with this output. */
    add(delivery: NewDelivery, seq: number, output: Payload | null): void {
      const dueAt = ms(delivery.dueAt);
      const { id, account, endpoint, url, host, envelope } = delivery;
      const values = [id, account, endpoint, url, host, dueAt, codec.encodeText(envelope), ...payloadColumns(output, codec), seq];
      let inline = insertRow.get(...values);
      if (inline === undefined) {
        // A reused id: its earlier job was deleted and then submitted again. The newer end replaces the older.
        const former = removeOne(id, null);
        if (former !== undefined) settleHost(former[0]);
        inline = insertRow.get(...values);
        if (inline === undefined) throw new Error(`job ${seq} has no input`);
      }
      usage.add(endpoint, inline);
      hostDueRow.run(host, dueAt);
    },
    /** Changes a delivery, or deletes it; returns the blobs that a deleted one named. */
    change(id: string, after: number | null, to: Extract<Op, { kind: 'delivery' }>['to']): (string | null)[] | 'stale' | 'gone' {
      const removed = to === null ? removeOne(id, after) : undefined;
      const host = to === null ? removed?.[0] : changeRow.get(to.state, ms(to.dueAt), to.tries, to.error, id, after);
      if (host === undefined) return standingRow.get(id) === undefined ? 'gone' : 'stale';
      settleHost(host);
      return removed === undefined ? [] : [removed[1], removed[2]];
    },
    due({ wall, skipHosts, skipIds, perHost, limit }: DeliveryWindow): { deliveries: DeliveryHead[]; nextAt: number | null } {
      const deliveries: DeliveryHead[] = [];
      const skipped = JSON.stringify(skipIds);
      // A host whose due deliveries are all skipped contributes none, so `skipIds.length` more hosts are read.
      const hosts = hostRows.all(wall, JSON.stringify(skipHosts), bound(limit) + skipIds.length);
      for (const host of hosts) {
        const left = limit - deliveries.length;
        if (left <= 0) break;
        for (const row of dueRows.all(host, wall, skipped, Math.min(bound(perHost), left))) deliveries.push(toDeliveryHead(row));
      }
      return { deliveries, nextAt: nextRow.get(wall) ?? null };
    },
    one(id: string): DeliveryRow | null {
      const row = oneRow.get(id);
      return row === undefined ? null : toDelivery(row, codec);
    },
    page(account: string, afterId: string, limit: number): DeliveryHead[] {
      return pageRows.all(account, afterId, bound(limit)).map(toDeliveryHead);
    },
    newest(account: string, beforeId: string, limit: number): DeliveryHead[] {
      const rows = beforeId === '' ? lastRows.all(account, bound(limit)) : newestRows.all(account, beforeId, bound(limit));
      return rows.map(toDeliveryHead);
    },
    /** Deletes failed deliveries whose time is over, at most `limit`. Returns their number. */
    sweep(now: number, limit: number): number {
      const removed = sweepRows.all(now, limit);
      for (const [endpoint, inline] of removed) usage.add(endpoint, -inline);
      return removed.length;
    },
  };
}
