import type { HookHead, Reads } from '../../store.ts';
import { bound, toHook, toHookHead, type HookTuple, type WholeHookTuple } from '../../rows.ts';
import { HOOK_COLUMNS, HOOK_PAYLOAD_COLUMNS } from '../columns.ts';
import type { LeftEdges } from './left-edges.ts';
import type { AsyncReads, Query } from './query.ts';

/** Hosts in order of their oldest due delivery, and of each host its first ones. */
const DUE = `SELECT ${HOOK_COLUMNS} FROM (
    SELECT host, next_at FROM capstan.hook_hosts WHERE cell = $1 AND next_at >= 0 AND next_at BETWEEN $8 AND $2 AND host <> ALL ($3::text[]) ORDER BY next_at LIMIT $4
  ) o CROSS JOIN LATERAL (
    SELECT * FROM capstan.hooks q WHERE q.cell = $1 AND q.state = 'PENDING' AND q.host = o.host AND q.due_at BETWEEN o.next_at AND $2 AND q.id <> ALL ($5::text[])
    ORDER BY q.due_at, q.number LIMIT $6
  ) h ORDER BY o.next_at, o.host, h.due_at, h.number LIMIT $7`;
/** When the next delivery that is not due yet is, and the time of the first host. */
const NEXT_DUE = `SELECT (SELECT due_at FROM capstan.hooks WHERE cell = $1 AND state = 'PENDING' AND due_at >= 0 AND due_at > $2 ORDER BY due_at LIMIT 1),
  (SELECT next_at FROM capstan.hook_hosts WHERE cell = $1 AND next_at >= 0 AND next_at >= $3 ORDER BY next_at LIMIT 1)`;
const ONE = `SELECT ${HOOK_COLUMNS}, ${HOOK_PAYLOAD_COLUMNS} FROM capstan.hooks h WHERE h.cell = $1 AND h.id = $2`;
const PAGE = `SELECT ${HOOK_COLUMNS} FROM capstan.hooks h WHERE h.cell = $1 AND h.account = $2 AND h.tries >= 0 AND h.id > $3 ORDER BY h.id LIMIT $4`;
const NEWEST = `SELECT ${HOOK_COLUMNS} FROM capstan.hooks h WHERE h.cell = $1 AND h.account = $2 AND h.tries >= 0 AND h.id < $3 ORDER BY h.id DESC LIMIT $4`;
const LAST = `SELECT ${HOOK_COLUMNS} FROM capstan.hooks h WHERE h.cell = $1 AND h.account = $2 AND h.tries >= 0 ORDER BY h.id DESC LIMIT $3`;

type HookReads = Pick<AsyncReads<Reads>, 'hooks' | 'hook' | 'hookPage' | 'newestHooks'>;

export function hookReads(query: Query, cell: number, edges: LeftEdges): HookReads {
  return {
    async hooks({ wall, skipHosts, skipIds, perHost, limit }) {
      const until = Math.trunc(wall);
      // A host all of whose due deliveries are skipped gives none, so as many hosts more are looked at.
      const hosts = bound(limit) + skipIds.length;
      return edges.hooks.look(async (from) => {
        const rows = await query<HookTuple>('hooks', DUE, [cell, until, skipHosts, hosts, skipIds, bound(perHost), limit, from]);
        const [next] = await query<[number | null, number | null]>('next-hook', NEXT_DUE, [cell, until, from]);
        return [{ hooks: rows.map(toHookHead), nextAt: next?.[0] ?? null }, next?.[1] ?? Number.MAX_SAFE_INTEGER];
      });
    },
    async hook(id) {
      const [row] = await query<WholeHookTuple>('hook', ONE, [cell, id]);
      return row === undefined ? null : toHook(row);
    },
    async hookPage(account, afterId, limit): Promise<HookHead[]> {
      return (await query<HookTuple>('hook-page', PAGE, [cell, account, afterId, bound(limit)])).map(toHookHead);
    },
    async newestHooks(account, beforeId, limit): Promise<HookHead[]> {
      const rows =
        beforeId === ''
          ? await query<HookTuple>('last-hooks', LAST, [cell, account, bound(limit)])
          : await query<HookTuple>('newest-hooks', NEWEST, [cell, account, beforeId, bound(limit)]);
      return rows.map(toHookHead);
    },
  };
}
