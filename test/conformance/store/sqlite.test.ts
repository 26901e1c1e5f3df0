import { rm } from 'node:fs/promises';
import { join } from 'node:path';

import { openSqliteStore } from '../../../scheduler/store/sqlite/client.ts';
import { SqliteEngine } from '../../../scheduler/store/sqlite/engine.ts';
import type { Store } from '../../../scheduler/core/ports/store.ts';
import { engineStore } from './engine-store.ts';
import { historyRules } from './rules-history.ts';
import { storeConformance } from './suite.ts';
import type { Open } from './use.ts';
import { ownFolder } from '../../support/own-folder.ts';

/** Opens each store in a folder of its own. */
function inFolder(open: (file: string) => Promise<Store>): Open {
  return async () => {
    const folder = await ownFolder('capstan-store');
    const file = join(folder, 'scheduler', 'capstan.db');
    let store = await open(file);
    return {
      store,
      async reopen() {
        await store.close();
        store = await open(file);
        return store;
      },
      async close() {
        await store.close();
        await rm(folder, { recursive: true, force: true });
      },
    };
  };
}

storeConformance(
  'sqlite thread',
  inFolder((file) => openSqliteStore({ file })),
);
storeConformance(
  'sqlite engine',
  inFolder(async (file) => engineStore(new SqliteEngine({ file }))),
);
historyRules('sqlite', async () => {
  const folder = await ownFolder('capstan-store');
  const store = await openSqliteStore({ file: join(folder, 'capstan.db') });
  const end = store.close.bind(store);
  store.close = async () => {
    await end();
    await rm(folder, { recursive: true, force: true });
  };
  return store;
});
