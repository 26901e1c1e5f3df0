import type { Database } from 'better-sqlite3';

import type { PayloadTuple } from '../../rows.ts';

const CHANGE = 'UPDATE inline_usage SET bytes = max(0, bytes + ?) WHERE endpoint = ?';
const FIRST = `
INSERT INTO inline_usage (endpoint, account, bytes)
VALUES (@endpoint, ifnull((SELECT value ->> 'account' FROM control WHERE kind = 'endpoint' AND key = @endpoint), ''), max(0, @bytes))`;
const DROP_EMPTY = "DELETE FROM inline_usage WHERE bytes = 0 AND endpoint NOT IN (SELECT key FROM control WHERE kind = 'endpoint')";

/** Bytes of the payloads in a batch's rows, by endpoint: gathered by the statements, written at the batch's end. */
export interface InlineUsage {
  /** Counts bytes that a row of the endpoint holds from now on, or, below 0, no longer holds. */
  add(endpoint: string, bytes: number): void;
  /** Begins a batch: what a batch before it added and did not write was rolled back. */
  begin(): void;
  /** Writes what was added since {@link begin}, or since the last write. */
  write(): void;
  /** Removes the counts of endpoints that are gone with all of their rows. */
  sweep(): void;
}

export function inlineUsageStatements(db: Database): InlineUsage {
  const changeRow = db.prepare<[number, string]>(CHANGE);
  const firstRow = db.prepare<[{ endpoint: string; bytes: number }]>(FIRST);
  const dropEmpty = db.prepare(DROP_EMPTY);
  const added = new Map<string, number>();
  return {
    add(endpoint, bytes) {
      if (bytes !== 0) added.set(endpoint, (added.get(endpoint) ?? 0) + bytes);
    },
    begin() {
      added.clear();
    },
    write() {
      for (const [endpoint, bytes] of added)
        if (bytes !== 0 && changeRow.run(bytes, endpoint).changes === 0) firstRow.run({ endpoint, bytes });
      added.clear();
    },
    sweep() {
      dropEmpty.run();
    },
  };
}

/** Bytes that a row holds of a payload itself, as they are kept. */
export function inlineLength([inline]: PayloadTuple): number {
  return inline?.length ?? 0;
}
