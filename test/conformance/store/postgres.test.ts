/** The store's promises over PostgreSQL; each store in a database of its own. */
import { openPostgresStore } from '../../../scheduler/store/postgres/client.ts';
import type { PostgresServer } from '../../support/postgres.ts';
import { withPostgres } from '../../support/with-postgres.ts';
import { JOB_CHECKS } from './postgres-checks.ts';
import { cellRules } from './rules-cells.ts';
import { historyRules } from './rules-history.ts';
import { storeConformance } from './suite.ts';

const settings = { fsync: 'on', full_page_writes: 'off', wal_level: 'minimal', max_wal_senders: '0' };

await withPostgres('postgres', tests, settings);

function tests(server: PostgresServer): void {
  storeConformance('postgres', async () => {
    const url = await server.newDatabase();
    let store = await openPostgresStore({ url });
    // The rules take cells up to 7.
    for (let i = 1; i <= 7; i++) await store.cells.create(`cell-${i}`);
    await server.query(url, JOB_CHECKS);
    return {
      store,
      async reopen() {
        await store.close();
        store = await openPostgresStore({ url });
        return store;
      },
      async close() {
        await store.close();
      },
    };
  });
  historyRules('postgres', async () => openPostgresStore({ url: await server.newDatabase() }));
  cellRules(
    (url, cell) => openPostgresStore({ url, ...(cell === undefined ? {} : { cell }) }),
    () => server.newDatabase(),
  );
}
