/**
 * A numbered change of the schema; only ever added to, so that an older scheduler can still read and a standby of it stays up.
 *
 * Its SQL is literal and never changes once it was released. The functions of a batch are made by the newest migration that replaces them:
 * all migrations run in one transaction, so no database stays without them.
 */
export interface Migration {
  readonly number: number;
  readonly name: string;
  readonly sql: string;
}
