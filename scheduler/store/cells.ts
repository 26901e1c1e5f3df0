/** The cells of a database: sets of accounts, nodes and queues, each owned by one scheduler at a time. */
import type { AuditPut } from '../core/audit.ts';

export interface CellRow {
  readonly name: string;
  /** Number of accounts that live in it, deleted ones included. */
  readonly accounts: number;
  /** Where its last owner is reached, `host:port`; empty before it has one. */
  readonly address: string;
}

export interface AccountMove {
  readonly account: string;
  /** Name of the cell that it moves to. */
  readonly to: string;
}

export interface NodeMove {
  readonly node: string;
  /** Name of the cell that it moves to. */
  readonly to: string;
}

/** What one cell's scheduler may read and write about the others. */
export interface Cells {
  /** Name of the cell that this scheduler serves. */
  readonly own: string;
  /** All cells, in the order of their creation. */
  list(): Promise<CellRow[]>;
  /** Creates a cell. Rejects with INVALID_ARGUMENT, ALREADY_EXISTS or QUOTA_EXCEEDED. */
  create(name: string): Promise<CellRow>;
  /**
   * Reserves the id of an account for this scheduler's cell, for ever. Returns the name of the cell that has it: another
   * one if the id is taken there.
   */
  claimAccount(id: string): Promise<string>;
  /** Id of the master key of a cell that has one; undefined before the first. */
  masterKeyId(): Promise<string | undefined>;
  /**
   * Refuses a move that `moveAccount` would refuse, while the cell goes on.
   * @throws CapstanError NOT_FOUND, or CONFLICT with the reason.
   */
  checkAccountMove(move: AccountMove): Promise<void>;
  /**
   * Moves an idle account from the own cell to another one, under new terms of both, whose owners then read their states
   * anew. The own cell is given up first, whatever becomes of the move: its owner must hold no state, and take it over after it.
   * @throws CapstanError NOT_FOUND, or CONFLICT with the reason; UNAVAILABLE when it is not known whether it moved.
   */
  moveAccount(move: AccountMove, audit: AuditPut): Promise<void>;
  /** As `checkAccountMove`, for `moveNode`. */
  checkNodeMove(move: NodeMove): Promise<void>;
  /** Moves a node without leased jobs, as `moveAccount` does. The own cell keeps a row that names the other one. */
  moveNode(move: NodeMove, audit: AuditPut): Promise<void>;
  /** JSON of the rows of the valid operator's keys: those with the scope OPERATOR in the cell `default`. */
  operatorKeys(): Promise<string[]>;
}
