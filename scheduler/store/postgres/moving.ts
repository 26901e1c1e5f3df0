/**
 * What moves rows between cells: one statement, hence one transaction, that holds the rows of both cells and gives both a new
 * term. Neither owner goes on with a state that the move changed: each reads its own anew.
 *
 * The rows of the cells are locked first, in the order of their numbers, so that two moves in opposite directions wait for one
 * another. The statement runs on a connection of its own, under limits of the server: whatever becomes of this scheduler, the
 * owners wait for the rows of their cells no longer than that. The connection is named as the others of the cell that the rows
 * leave: who takes that cell over may end it.
 */
import { CapstanError } from '../../../lib/errors.ts';
import type { AuditPut } from '../../core/audit.ts';
import type { Address } from './address.ts';
import { connect } from './connection.ts';
import { sqlState, storeFailure } from './failures.ts';
import type { Query } from './reads/query.ts';

/** Where the owner of a cell stood when it gave its term up: the term, and its last batch. */
export interface Position {
  readonly term: bigint;
  readonly batch: number;
}

/** Runs the statement of a move; its rows. */
export type Mover = (text: string, values: readonly unknown[]) => Promise<(readonly unknown[])[]>;

/** A term that no scheduler has yet. */
export const NEXT_TERM = 'term = greatest(term + 1, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint)';
/** $2 the cell that is left, $5 the other one; as a condition, the rows of both are locked. */
export const LOCKED = `locked AS MATERIALIZED (SELECT cell FROM capstan.cells WHERE cell IN ($2, $5) ORDER BY cell FOR UPDATE)`;
export const BOTH_LOCKED = '(SELECT count(*) FROM locked) = 2';
/** $6 the key and $7 the value of the move's entry of the audit log: as a control row, as every other one. */
export const NOTED = `noted AS (
  INSERT INTO capstan.control (cell, kind, key, version, value) SELECT $2, 'audit', $6::text, 1, $7::json FROM target
)`;

/** How long the statement may run, and wait for the row of a cell, ms. */
const MOVE_MS = 2_000;
const LOCK_MS = 1_000;
/** Beyond that the server does not answer. */
const ANSWER_MS = MOVE_MS + 5_000;
const BUSY = new Set(['55P03', '57014', '40P01']);

/** What a move needs, and the entry that it leaves. */
export interface MoveDeps {
  readonly query: Query;
  readonly move: Mover;
  readonly audit: AuditPut;
}

export interface MoverOptions {
  readonly address: Address;
  /** Number of the cell that the rows leave. */
  readonly cell: number;
}

/** @throws CapstanError CONFLICT when a cell stays locked, and nothing was moved; UNAVAILABLE when that is not known. */
export function moverOf({ address, cell }: MoverOptions): Mover {
  return async (text, values) => {
    const failed = (error: unknown): CapstanError =>
      BUSY.has(sqlState(error))
        ? new CapstanError('CONFLICT', 'cell: it is busy; try again', { field: 'cell', cause: error })
        : storeFailure(address.shown, 'the move failed', error);
    let warning = '';
    const { client, destroy } = await connect(address, `capstan cell ${cell} move`, {
      answerMs: ANSWER_MS,
      settings: { statement_timeout: String(MOVE_MS), lock_timeout: String(LOCK_MS) },
      onEnd: () => undefined,
      onWarning: (message) => (warning = message),
    });
    const hanging = setTimeout(destroy, ANSWER_MS);
    try {
      const { rows } = await client.query<unknown[]>({ text, values: [...values], rowMode: 'array' });
      // It is done, and may be lost with the server.
      if (warning !== '') throw new CapstanError('UNAVAILABLE', `store ${address.shown}: the server warns: ${warning}`);
      return rows;
    } catch (error) {
      throw failed(error);
    } finally {
      clearTimeout(hanging);
      destroy();
    }
  };
}
