/** The number of the cell that a store serves, by its name. */
import { randomInt } from 'node:crypto';

import { CapstanError } from '../../../lib/errors.ts';
import { unwatched } from '../store-watcher.ts';
import type { Address } from './address.ts';
import { cellNumber } from './cells.ts';
import { storeFailure } from './failures.ts';
import { migrate, newer, newestKnown, schemaVersion } from './migrate.ts';
import type { Query } from './reads/query.ts';
import { Writer } from './writer.ts';

/**
 * Finds the number of a cell. Who takes a cell brings the schema up to date, so that an older owner is left alone as long as it
 * lives; only a database that does not have the cell yet gets its schema here.
 */
export async function findCell(address: Address, name: string, answerMs: number): Promise<number> {
  const where = address.shown;
  const writer = new Writer({
    address,
    name: `capstan start ${randomInt(2 ** 31)}`,
    answerMs,
    watcher: unwatched,
    onLost: () => undefined,
  });
  const query: Query = (_name, text, values) => writer.ask({ kind: 'term', text, values: [...values], rowMode: 'array' });
  try {
    await writer.open();
    const version = await schemaVersion(writer, where);
    if (version > newestKnown) throw newer(where, version);
    const present = version === 0 ? undefined : await cellNumber(query, name);
    if (present !== undefined) return present;
    await migrate(writer, where);
    const number = await cellNumber(query, name);
    if (number !== undefined) return number;
  } catch (error) {
    throw storeFailure(where, 'cannot open', error);
  } finally {
    await writer.end();
  }
  throw new CapstanError('CONFIG', `CAPSTAN_CELL: the database has no cell ${name}; create it with: capstan cell create ${name}`, {
    field: 'CAPSTAN_CELL',
  });
}
