/** A numbered change of the schema; only ever added to, so that an older scheduler can still read and a standby of it stays up. */
export interface Migration {
  readonly number: number;
  readonly name: string;
  readonly sql: string;
}
