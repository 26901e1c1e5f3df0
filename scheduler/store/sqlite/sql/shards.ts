import type { Database } from 'better-sqlite3';

import { ms } from '../../rows.ts';

/** The same owner renews its term; another owner takes the next term. */
const ACQUIRE = `
INSERT INTO shards (shard, owner, term, until) VALUES (?, ?, 1, ?)
ON CONFLICT (shard) DO UPDATE SET term = term + (owner <> excluded.owner), owner = excluded.owner, until = excluded.until
RETURNING term`;
const TERM = 'SELECT term FROM shards WHERE shard = ?';
const HELD = 'SELECT term FROM shards WHERE shard = ? AND owner = ?';

/**
 * Terms of shards. The file is locked for one process (see `open.ts`), so the caller is the only live owner and need
 * not wait for an earlier term to expire.
 */
export function shardStatements(db: Database) {
  const acquireRow = db.prepare<[number, string, number], number>(ACQUIRE).pluck();
  const heldRow = db.prepare<[number, string], number>(HELD).pluck();
  const termRow = db.prepare<[number], number>(TERM).pluck();
  return {
    acquire(shard: number, owner: string, until: number): bigint {
      const row = acquireRow.get(shard, owner, ms(until));
      if (row === undefined) throw new Error(`acquiring shard ${shard} failed`);
      return BigInt(row);
    },
    /** Returns the term of a shard that this owner holds, otherwise null. */
    heldTerm(shard: number, owner: string): bigint | null {
      const row = heldRow.get(shard, owner);
      return row === undefined ? null : BigInt(row);
    },
    /** Null for a shard that was never acquired. */
    term(shard: number): number | null {
      return termRow.get(shard) ?? null;
    },
  };
}
