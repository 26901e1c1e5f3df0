/** The tests of one file share one PostgreSQL server; where there is none they are one test, which says so. */
import test from 'ava';

import { NO_POSTGRES, postgresBinaries, startPostgres, type PostgresServer } from './postgres.ts';

/**
 * Starts a server, which ends after the tests of the file, and declares these. To be awaited before any other test is declared:
 * all tests of a file are declared in one turn of the event loop.
 *
 * @param subject names the test that stands for all of them where there is no server.
 * @param tests receives the server, and the folder of its programs.
 * @param settings of the server.
 */
export async function withPostgres(
  subject: string,
  tests: (server: PostgresServer, binaries: string) => void,
  settings: Readonly<Record<string, string>> = {},
): Promise<void> {
  const binaries = await postgresBinaries();
  if (binaries === undefined) {
    test(subject, (t) => {
      t.log(`skipped: ${NO_POSTGRES}`);
      t.pass();
    });
    return;
  }
  const server = await startPostgres(binaries, settings);
  test.after.always(() => server.stop());
  tests(server, binaries);
}
