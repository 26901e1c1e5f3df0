import type { Migration } from './migration.ts';

/** Gauges of devices, for plots. */
export const deviceHistory: Migration = {
  number: 13,
  name: 'device_history',
  sql: `
CREATE TABLE capstan.device_history (
  cell int NOT NULL,
  node text COLLATE "C" NOT NULL,
  device text COLLATE "C" NOT NULL,
  at bigint NOT NULL,
  value text NOT NULL,
  PRIMARY KEY (cell, node, device, at)
);
CREATE INDEX device_history_at ON capstan.device_history (cell, at);`,
};
