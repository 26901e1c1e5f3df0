/** One step of the database's layout. Landed migrations are never edited: a change is the next number. */
export interface Migration {
  /** 1, 2, 3, … without gaps. */
  readonly number: number;
  readonly name: string;
  /** Statements, run in one transaction with the migration's record. */
  readonly sql: string;
}
