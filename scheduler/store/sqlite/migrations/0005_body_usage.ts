import type { Migration } from './migration.ts';

/**
 * What rows name in the blob store, each blob once, and how many bytes that is for each account. Triggers keep both in line with every row
 * that begins or ceases to name a blob, whichever statement does it, so nothing is ever counted again. Rows without
 * blobs cost a comparison.
 *
 * The account of a job is that of its endpoint's control row, which stays while the endpoint has jobs that are not ended.
 */
const counted = ['inputs', 'chunks'] as const;

const ref = (blob: string, size: string, account: string): string =>
  `INSERT INTO bodies (id, account, size, refs) VALUES (${blob}, ${account}, ${size}, 1) ON CONFLICT (id) DO UPDATE SET refs = refs + 1;`;
const unref = (blob: string): string => `UPDATE bodies SET refs = refs - 1 WHERE id = ${blob};`;
const accountOfEndpoint = (endpoint: string): string =>
  `ifnull((SELECT value ->> 'account' FROM control WHERE kind = 'endpoint' AND key = ${endpoint}), '')`;
const accountOfJob = (no: string): string => accountOfEndpoint(`(SELECT endpoint FROM jobs WHERE no = ${no})`);

export const bodyUsage: Migration = {
  number: 5,
  name: 'body usage',
  sql: `
CREATE TABLE bodies (
  id TEXT PRIMARY KEY CHECK (id <> ''),
  account TEXT NOT NULL,
  size INTEGER NOT NULL CHECK (size >= 0),
  refs INTEGER NOT NULL CHECK (refs >= 0)
) STRICT, WITHOUT ROWID;

CREATE TABLE body_usage (
  account TEXT PRIMARY KEY,
  bytes INTEGER NOT NULL CHECK (bytes >= 0)
) STRICT, WITHOUT ROWID;

INSERT INTO bodies (id, account, size, refs)
SELECT id, max(account), max(size), count(*) FROM (
  SELECT blob AS id, ${accountOfJob('inputs.no')} AS account, size FROM inputs WHERE blob IS NOT NULL
  UNION ALL SELECT blob, ${accountOfJob('chunks.no')}, size FROM chunks WHERE blob IS NOT NULL
  UNION ALL SELECT output_blob, ${accountOfEndpoint('jobs.endpoint')}, output_size FROM jobs WHERE output_blob IS NOT NULL
  UNION ALL SELECT input_blob, account, input_size FROM hooks WHERE input_blob IS NOT NULL
  UNION ALL SELECT output_blob, account, output_size FROM hooks WHERE output_blob IS NOT NULL
) GROUP BY id;
INSERT INTO body_usage (account, bytes) SELECT account, sum(size) FROM bodies GROUP BY account;

CREATE TRIGGER bodies_counted AFTER INSERT ON bodies BEGIN
  INSERT INTO body_usage (account, bytes) VALUES (NEW.account, NEW.size)
  ON CONFLICT (account) DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER bodies_unnamed AFTER UPDATE OF refs ON bodies WHEN NEW.refs = 0 BEGIN
  DELETE FROM bodies WHERE id = NEW.id;
  UPDATE body_usage SET bytes = bytes - NEW.size WHERE account = NEW.account;
  DELETE FROM body_usage WHERE account = NEW.account AND bytes = 0;
END;
${counted
  .map(
    (table) => `
CREATE TRIGGER ${table}_name AFTER INSERT ON ${table} WHEN NEW.blob IS NOT NULL BEGIN
  ${ref('NEW.blob', 'NEW.size', accountOfJob('NEW.no'))}
END;
CREATE TRIGGER ${table}_unname AFTER DELETE ON ${table} WHEN OLD.blob IS NOT NULL BEGIN
  ${unref('OLD.blob')}
END;`,
  )
  .join('')}
CREATE TRIGGER jobs_name AFTER UPDATE OF output_blob ON jobs WHEN NEW.output_blob IS NOT NULL AND NEW.output_blob IS NOT OLD.output_blob BEGIN
  ${ref('NEW.output_blob', 'NEW.output_size', accountOfEndpoint('NEW.endpoint'))}
END;
CREATE TRIGGER jobs_rename AFTER UPDATE OF output_blob ON jobs WHEN OLD.output_blob IS NOT NULL AND NEW.output_blob IS NOT OLD.output_blob BEGIN
  ${unref('OLD.output_blob')}
END;
CREATE TRIGGER jobs_unname AFTER DELETE ON jobs WHEN OLD.output_blob IS NOT NULL BEGIN
  ${unref('OLD.output_blob')}
END;
CREATE TRIGGER hooks_name_input AFTER INSERT ON hooks WHEN NEW.input_blob IS NOT NULL BEGIN
  ${ref('NEW.input_blob', 'NEW.input_size', 'NEW.account')}
END;
CREATE TRIGGER hooks_name_output AFTER INSERT ON hooks WHEN NEW.output_blob IS NOT NULL BEGIN
  ${ref('NEW.output_blob', 'NEW.output_size', 'NEW.account')}
END;
CREATE TRIGGER hooks_unname_input AFTER DELETE ON hooks WHEN OLD.input_blob IS NOT NULL BEGIN
  ${unref('OLD.input_blob')}
END;
CREATE TRIGGER hooks_unname_output AFTER DELETE ON hooks WHEN OLD.output_blob IS NOT NULL BEGIN
  ${unref('OLD.output_blob')}
END;
`,
};
