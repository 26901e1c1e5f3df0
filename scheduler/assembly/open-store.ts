/** Opens the store that the configuration names: SQLite in the data folder, or PostgreSQL. */
import { join } from 'node:path';

import { CapstanError } from '../../lib/errors.ts';
import type { SchedulerConfig } from '../config.ts';
import { completeDataFolder, type DataFolder } from '../secrets/data-folder.ts';
import type { PayloadKeys } from '../secrets/payload-keys.ts';
import { openPostgresStore } from '../store/postgres/client.ts';
import { openSqliteStore } from '../store/sqlite/client.ts';
import { Snapshots } from '../store/snapshots.ts';
import { DEFAULT_CELL } from '../../lib/cells.ts';
import type { Cells } from '../store/cells.ts';
import type { HistoryStore } from '../store/history.ts';
import type { DeviceHistoryStore } from '../store/device-history.ts';
import type { QueueReasonStore } from '../store/queue-reasons.ts';
import type { Store } from '../core/ports/store.ts';
import type { StoreWatcher } from '../store/store-watcher.ts';

export interface OpenedStore {
  readonly store: Store;
  /** Number of the cell that the store serves, which its fences name. */
  readonly cell: number;
  /** The cells of the database; null where there is only one, which has no row. */
  readonly cells: Cells | null;
  readonly history: HistoryStore;
  readonly queueReasons: QueueReasonStore;
  readonly deviceHistory: DeviceHistoryStore;
  /** Copies of the database for backups; null where the database has its own. */
  readonly snapshots: Snapshots | null;
}

export interface StoreFacts {
  /** The master keys that read the database, one a line. */
  readonly masterKeys: () => string;
  /** Encrypt and decrypt payloads. */
  readonly payloadKeys: PayloadKeys;
  /** Where others reach this scheduler, `host:port`. */
  readonly advertised: () => string;
  /** Observes a store on a database server. */
  readonly watcher: StoreWatcher;
}

export async function openStore(config: SchedulerConfig, folder: DataFolder, facts: StoreFacts): Promise<OpenedStore> {
  const opened = config.store === '' ? await openInFolder(config, folder, facts) : await openShared(config, facts);
  if (folder.created.folder) await completeDataFolder(folder.path);
  return opened;
}

async function openInFolder({ cell }: SchedulerConfig, folder: DataFolder, { masterKeys, payloadKeys }: StoreFacts): Promise<OpenedStore> {
  if (cell !== DEFAULT_CELL)
    throw new CapstanError('CONFIG', `CAPSTAN_CELL: ${cell} requires CAPSTAN_STORE: a queue in SQLite is the one cell ${DEFAULT_CELL}`, {
      field: 'CAPSTAN_CELL',
    });
  const file = join(folder.path, 'scheduler', 'capstan.db');
  const store = await openSqliteStore({ file, mustExist: !folder.created.folder, payloadKeys });
  const snapshots = new Snapshots(file, (copy) => store.snapshot(copy), masterKeys);
  await snapshots.sweep();
  const { history, queueReasons, deviceHistory } = store;
  return { store, cell: 0, cells: null, history, queueReasons, deviceHistory, snapshots };
}

async function openShared(config: SchedulerConfig, { advertised, watcher, payloadKeys }: StoreFacts): Promise<OpenedStore> {
  const { store: url, cell, isBlobDirShared, blobDir } = config;
  if (!/^postgres(?:ql)?:/.test(url))
    throw new CapstanError('CONFIG', 'CAPSTAN_STORE: must be empty or start with postgres://', { field: 'CAPSTAN_STORE' });
  if (isBlobDirShared && blobDir === undefined)
    throw new CapstanError('CONFIG', 'CAPSTAN_BLOB_DIR_SHARED: requires CAPSTAN_BLOB_DIR', { field: 'CAPSTAN_BLOB_DIR_SHARED' });
  const store = await openPostgresStore({ url, cell, watcher, advertised, payloadKeys });
  const { cells, history, queueReasons, deviceHistory } = store;
  return { store, cell: store.cell, cells, history, queueReasons, deviceHistory, snapshots: null };
}
