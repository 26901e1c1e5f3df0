import type { Migration } from './migration.ts';

/** Gauges of devices, for plots. With a rowid: its rows are too long for the pages of a table without one. */
export const deviceHistory: Migration = {
  number: 11,
  name: 'device history',
  sql: `
CREATE TABLE device_history (
  node TEXT NOT NULL,
  device TEXT NOT NULL,
  at INTEGER NOT NULL,
  value TEXT NOT NULL,
  PRIMARY KEY (node, device, at)
) STRICT;

CREATE INDEX device_history_at ON device_history (at);`,
};
