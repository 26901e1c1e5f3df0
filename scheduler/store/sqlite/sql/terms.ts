import type { Database } from 'better-sqlite3';

import { ms } from '../../rows.ts';

/** The table of cells is named `shards` on disk. The same owner renews its term; another owner takes the next term. */
const ACQUIRE = `
INSERT INTO shards (shard, owner, term, until) VALUES (?, ?, 1, ?)
ON CONFLICT (shard) DO UPDATE SET term = term + (owner <> excluded.owner), owner = excluded.owner, until = excluded.until
RETURNING term`;
const TERM = 'SELECT term FROM shards WHERE shard = ?';
const HELD = 'SELECT term FROM shards WHERE shard = ? AND owner = ?';

/**
 * Terms of cells. The file is locked for one process (see `open.ts`), so the caller is the only live owner and need
 * not wait for an earlier term to expire.
 */
export function termStatements(db: Database) {
  const acquireRow = db.prepare<[number, string, number], number>(ACQUIRE).pluck();
  const heldRow = db.prepare<[number, string], number>(HELD).pluck();
  const termRow = db.prepare<[number], number>(TERM).pluck();
  return {
    acquire(cell: number, owner: string, until: number): bigint {
      const row = acquireRow.get(cell, owner, ms(until));
      if (row === undefined) throw new Error(`acquiring cell ${cell} failed`);
      return BigInt(row);
    },
    /** Returns the term of a cell that this owner holds, otherwise null. */
    heldTerm(cell: number, owner: string): bigint | null {
      const row = heldRow.get(cell, owner);
      return row === undefined ? null : BigInt(row);
    },
    /** Null for a cell that was never acquired. */
    term(cell: number): number | null {
      return termRow.get(cell) ?? null;
    },
  };
}
