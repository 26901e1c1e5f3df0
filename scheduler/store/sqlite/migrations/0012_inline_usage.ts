import type { Migration } from './migration.ts';

/**
 * Bytes of the payloads that rows hold themselves, by endpoint: a row names its endpoint, also when the endpoint is gone. The account is
 * kept with them for the same reason. The engine keeps them in line, with one write for each endpoint of a batch.
 */
export const inlineUsage: Migration = {
  number: 12,
  name: 'inline usage',
  sql: `
CREATE TABLE inline_usage (
  endpoint TEXT PRIMARY KEY,
  account TEXT NOT NULL,
  bytes INTEGER NOT NULL CHECK (bytes >= 0)
) STRICT, WITHOUT ROWID;

INSERT INTO inline_usage (endpoint, account, bytes)
SELECT endpoint, coalesce((SELECT value ->> 'account' FROM control WHERE kind = 'endpoint' AND key = endpoint), max(account), ''), sum(bytes)
FROM (
  SELECT endpoint, NULL AS account, length(output) AS bytes FROM jobs WHERE output IS NOT NULL
  UNION ALL SELECT jobs.endpoint, NULL, length(inline) FROM inputs JOIN jobs ON jobs.no = inputs.no WHERE inline IS NOT NULL
  UNION ALL SELECT jobs.endpoint, NULL, length(inline) FROM chunks JOIN jobs ON jobs.no = chunks.no WHERE inline IS NOT NULL
  UNION ALL SELECT endpoint, account, ifnull(length(input), 0) + ifnull(length(output), 0) FROM hooks
) GROUP BY endpoint;
`,
};
