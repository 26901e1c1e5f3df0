/** Gauges of devices, in PostgreSQL: written on the connections that read, so that no batch waits for it. */
import type { DeviceHistoryStore } from '../device-history.ts';
import type { Query } from './reads/query.ts';

/** $1 cell, $2 to $5 the rows' columns. No row is twice in one call. */
const SAVE = `INSERT INTO capstan.device_history (cell, node, device, at, value)
SELECT $1, g.node, g.device, g.at, g.value FROM unnest($2::text[], $3::text[], $4::bigint[], $5::text[]) g (node, device, at, value)
ON CONFLICT (cell, node, device, at) DO UPDATE SET value = excluded.value`;
const READ = `SELECT at, value FROM capstan.device_history
WHERE cell = $1 AND node = $2 AND device = $3 AND at >= $4 AND at < $5 ORDER BY at`;
const EXPIRE = 'DELETE FROM capstan.device_history WHERE cell = $1 AND at < $2';

export function deviceHistoryOf(query: Query, cell: number): DeviceHistoryStore {
  return {
    async save(rows) {
      const columns = [
        rows.map(({ node }) => node),
        rows.map(({ device }) => device),
        rows.map(({ at }) => at),
        rows.map(({ value }) => value),
      ];
      await query('save-device-history', SAVE, [cell, ...columns]);
    },
    async read({ node, device, from, until }) {
      const rows = await query<[number, string]>('device-history', READ, [cell, node, device, from, until]);
      return rows.map(([at, value]) => ({ at, value }));
    },
    async expire(before) {
      await query('expire-device-history', EXPIRE, [cell, before]);
    },
  };
}
