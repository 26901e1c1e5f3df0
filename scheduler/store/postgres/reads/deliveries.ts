import type { PayloadCodec } from '../../payload-codec.ts';
import type { DeliveryHead, Reads } from '../../../core/ports/store.ts';
import { bound, toDelivery, toDeliveryHead, type DeliveryTuple, type WholeDeliveryTuple } from '../../rows.ts';
import { DELIVERY_COLUMNS, DELIVERY_PAYLOAD_COLUMNS } from '../sql/columns.ts';
import type { HostFrom, Recorder } from './delivery-hosts.ts';
import { NONE } from './left-edge.ts';
import type { LeftEdges } from './left-edges.ts';
import type { AsyncReads, Query } from './query.ts';

/** Deliveries that one query for hosts scans, plus those with the same due time as the last one. */
const SCAN_ROWS = 10_000;

/**
 * Hosts with deliveries that are due from $2 to $3, or to the end of the scan. The condition on the URL, which no row has empty, forces a read
 * of the table: otherwise the planner may prefer an index-only scan of all of `hooks_pending` and a sort to the range of `hooks_due`.
 */
const HOSTS = `WITH last AS MATERIALIZED (
    SELECT due_at FROM capstan.hooks WHERE cell = $1 AND state = 'PENDING' AND due_at >= 0 AND due_at BETWEEN $2 AND $3 ORDER BY due_at OFFSET $4 LIMIT 1
  )
SELECT host, min(due_at), (SELECT due_at FROM last) FROM (
    SELECT host, due_at FROM capstan.hooks
    WHERE cell = $1 AND state = 'PENDING' AND due_at >= 0 AND due_at BETWEEN $2 AND coalesce((SELECT due_at FROM last), $3) AND url <> ''
    ORDER BY due_at OFFSET 0
  ) h GROUP BY host`;
/** The earliest due time of each host, at or after its lower bound. */
const FIRSTS = `SELECT o.host, (
    SELECT q.due_at FROM capstan.hooks q WHERE q.cell = $1 AND q.state = 'PENDING' AND q.host = o.host AND q.due_at >= o.since ORDER BY q.due_at LIMIT 1
  ) FROM unnest($2::text[], $3::bigint[]) o (host, since)`;
/** The earliest due deliveries of each host. */
const DUE = `SELECT ${DELIVERY_COLUMNS} FROM unnest($2::text[], $3::bigint[]) o (host, first) CROSS JOIN LATERAL (
    SELECT * FROM capstan.hooks q WHERE q.cell = $1 AND q.state = 'PENDING' AND q.host = o.host AND q.due_at BETWEEN o.first AND $4 AND q.id <> ALL ($5::text[])
    ORDER BY q.due_at, q.number LIMIT $6
  ) h ORDER BY o.first, o.host, h.due_at, h.number LIMIT $7`;
const NEXT_DUE =
  "SELECT due_at FROM capstan.hooks WHERE cell = $1 AND state = 'PENDING' AND due_at >= 0 AND due_at > $2 ORDER BY due_at LIMIT 1";
const ONE = `SELECT ${DELIVERY_COLUMNS}, ${DELIVERY_PAYLOAD_COLUMNS} FROM capstan.hooks h WHERE h.cell = $1 AND h.id = $2`;
const PAGE = `SELECT ${DELIVERY_COLUMNS} FROM capstan.hooks h WHERE h.cell = $1 AND h.account = $2 AND h.tries >= 0 AND h.id > $3 ORDER BY h.id LIMIT $4`;
const NEWEST = `SELECT ${DELIVERY_COLUMNS} FROM capstan.hooks h WHERE h.cell = $1 AND h.account = $2 AND h.tries >= 0 AND h.id < $3 ORDER BY h.id DESC LIMIT $4`;
const LAST = `SELECT ${DELIVERY_COLUMNS} FROM capstan.hooks h WHERE h.cell = $1 AND h.account = $2 AND h.tries >= 0 ORDER BY h.id DESC LIMIT $3`;

type DeliveryReads = Pick<AsyncReads<Reads>, 'deliveries' | 'delivery' | 'deliveryPage' | 'newestDeliveries'>;

export function deliveryReads(query: Query, cell: number, edges: LeftEdges, codec: PayloadCodec): DeliveryReads {
  /** Returns up to `most` hosts with due deliveries, each with its earliest due time, in order of that time. */
  async function dueHosts(recorder: Recorder, until: number, skip: readonly string[], most: number): Promise<HostFrom[]> {
    const { deliveries: hosts } = edges;
    const due = new Map<string, number>();
    const withoutDue = new Set<string>();
    let isMoving = true;
    for (;;) {
      const room = most - due.size;
      const some = hosts.due(until, [...skip, ...due.keys(), ...withoutDue], room);
      if (some.length < room && isMoving && hosts.cursor <= until && !hosts.isFull) {
        const found = await query<[string, number, number | null]>('delivery-hosts', HOSTS, [cell, hosts.cursor, until, SCAN_ROWS]);
        isMoving = recorder.scanned(
          found.map(([host, first]): HostFrom => [host, first]),
          found[0]?.[2] ?? until,
        );
        // A host without due deliveries before the cursor may have some after it.
        for (const [host] of found) withoutDue.delete(host);
      } else if (some.length > 0) {
        const rows = await query<[string, number | null]>('first-deliveries', FIRSTS, [cell, ...unzip(some)]);
        const firsts = new Map(rows.flatMap(([host, first]): HostFrom[] => (first === null ? [] : [[host, first]])));
        recorder.firstDue(some, firsts);
        for (const [host] of some) {
          const first = firsts.get(host) ?? NONE;
          if (first <= until) due.set(host, first);
          else withoutDue.add(host);
        }
      } else {
        return [...due].toSorted((a, b) => a[1] - b[1]);
      }
    }
  }

  return {
    deliveries({ wall, skipHosts, skipIds, perHost, limit }) {
      const until = Math.min(Math.trunc(wall), NONE - 1);
      // A host whose due deliveries are all skipped contributes none, so `skipIds.length` more hosts are read.
      const most = bound(limit) + skipIds.length;
      return edges.deliveries.look(async (recorder) => {
        const due = await dueHosts(recorder, until, skipHosts, most);
        const [rows, [next]] = await Promise.all([
          due.length === 0 ? [] : query<DeliveryTuple>('deliveries', DUE, [cell, ...unzip(due), until, skipIds, bound(perHost), limit]),
          query<[number]>('next-delivery', NEXT_DUE, [cell, until]),
        ]);
        return { deliveries: rows.map(toDeliveryHead), nextAt: next?.[0] ?? null };
      });
    },
    async delivery(id) {
      const [row] = await query<WholeDeliveryTuple>('delivery', ONE, [cell, id]);
      return row === undefined ? null : toDelivery(row, codec);
    },
    async deliveryPage(account, afterId, limit): Promise<DeliveryHead[]> {
      return (await query<DeliveryTuple>('delivery-page', PAGE, [cell, account, afterId, bound(limit)])).map(toDeliveryHead);
    },
    async newestDeliveries(account, beforeId, limit): Promise<DeliveryHead[]> {
      const rows =
        beforeId === ''
          ? await query<DeliveryTuple>('last-deliveries', LAST, [cell, account, bound(limit)])
          : await query<DeliveryTuple>('newest-deliveries', NEWEST, [cell, account, beforeId, bound(limit)]);
      return rows.map(toDeliveryHead);
    },
  };
}

const unzip = (hosts: readonly HostFrom[]): [hosts: string[], from: number[]] => [
  hosts.map(([host]) => host),
  hosts.map(([, from]) => from),
];
