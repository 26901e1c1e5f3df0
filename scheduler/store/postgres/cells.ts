/** The rows of cells, which no term fences: they are added, and neither changed nor removed; and moves between cells. */
import { CapstanError } from '../../../lib/errors.ts';
import { CELL_NAME, CELL_NAME_RULE } from '../../../lib/cells.ts';
import { MASTER_KEY_SETTING } from '../../core/control/encryption.ts';
import type { CellRow, Cells } from '../cells.ts';
import { checkAccountMove, moveAccount } from './move-account.ts';
import { checkNodeMove, moveNode } from './move-node.ts';
import type { Mover, Position } from './moving.ts';
import type { Query } from './reads/query.ts';

/** Gateways keep connections to the owner of each cell. */
const MAX_CELLS = 64;

const NUMBER = 'SELECT cell FROM capstan.cells WHERE name = $1';
const LIST = `SELECT c.name, c.address, (SELECT count(*) FROM capstan.accounts a WHERE a.cell = c.cell)
FROM capstan.cells c ORDER BY c.cell LIMIT ${MAX_CELLS}`;
/** Gives out no number twice: of two at once, the second inserts nothing. */
const CREATE = `INSERT INTO capstan.cells (cell, name, address, term, batch, wall, highest_seq, highest_queue_position)
SELECT max(cell) + 1, $1, '', 1, 0, 0, 0, 0 FROM capstan.cells HAVING count(*) < ${MAX_CELLS} ON CONFLICT DO NOTHING RETURNING cell`;
const MASTER_KEY_ID = `SELECT k.value->>'id' FROM capstan.cells c
JOIN capstan.control k ON k.cell = c.cell AND k.kind = 'setting' AND k.key = $1 ORDER BY c.cell LIMIT 1`;
/** The update changes nothing; without it a row that is there would not be returned. */
const CLAIM = `INSERT INTO capstan.accounts AS a (id, cell) VALUES ($1, $2)
ON CONFLICT (id) DO UPDATE SET cell = a.cell RETURNING (SELECT name FROM capstan.cells c WHERE c.cell = a.cell)`;
const OPERATOR_KEYS = `SELECT value::text FROM capstan.control
WHERE cell = 0 AND kind = 'key' AND value->>'scope' = 'KEY_SCOPE_OPERATOR' ORDER BY key LIMIT 10000`;

/** The number of a cell, by which every row names it. Undefined if it does not exist. */
export async function cellNumber(query: Query, name: string): Promise<number | undefined> {
  const [row] = await query<[number]>('cell-number', NUMBER, [name]);
  return row?.[0];
}

export interface CellsOptions {
  readonly query: Query;
  /** The cell that the scheduler serves. */
  readonly own: { readonly number: number; readonly name: string };
  /**
   * Gives the cell up: from here on this scheduler commits nothing under its term. Resolves with where it stood.
   * @throws CapstanError UNAVAILABLE while the scheduler does not own it, or when a batch under way is in doubt.
   */
  readonly giveUp: () => Promise<Position>;
  readonly move: Mover;
}

export function cellsOf({ query, own, giveUp, move }: CellsOptions): Cells {
  return {
    own: own.name,
    async list() {
      const rows = await query<[string, string, number]>('cells', LIST, []);
      return rows.map(([name, address, accounts]): CellRow => ({ name, address, accounts }));
    },
    async create(name) {
      if (!CELL_NAME.test(name))
        throw new CapstanError('INVALID_ARGUMENT', `name: ${JSON.stringify(name)} ${CELL_NAME_RULE}`, { field: 'name' });
      for (;;) {
        const made = await query<[number]>('create-cell', CREATE, [name]);
        if (made.length > 0) return { name, accounts: 0, address: '' };
        const cells = await this.list();
        if (cells.some((cell) => cell.name === name))
          throw new CapstanError('ALREADY_EXISTS', `name: cell ${name} already exists`, { field: 'name' });
        if (cells.length >= MAX_CELLS)
          throw new CapstanError('QUOTA_EXCEEDED', `name: there are already ${MAX_CELLS} cells`, { field: 'name' });
      }
    },
    async claimAccount(id) {
      const [row] = await query<[string]>('claim-account', CLAIM, [id, own.number]);
      if (row === undefined) throw new CapstanError('INTERNAL', `the claim of account ${id} returned no cell`);
      return row[0];
    },
    checkAccountMove: (wanted) => checkAccountMove(query, own, wanted),
    async moveAccount(wanted, audit) {
      await moveAccount({ query, move, audit }, own, await giveUp(), wanted);
    },
    checkNodeMove: (wanted) => checkNodeMove(query, own.number, wanted),
    async moveNode(wanted, audit) {
      await moveNode({ query, move, audit }, own.number, await giveUp(), wanted);
    },
    async operatorKeys() {
      return (await query<[string]>('operator-keys', OPERATOR_KEYS, [])).map(([value]) => value);
    },
    async masterKeyId() {
      const [row] = await query<[string]>('master-key-id', MASTER_KEY_ID, [MASTER_KEY_SETTING]);
      return row?.[0];
    },
  };
}
