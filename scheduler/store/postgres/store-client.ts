/**
 * A client that reads its password from the file of passwords (PGPASSFILE, else ~/.pgpass). Without this, pg does so itself with a
 * deprecation warning, and no longer from its version 9 on.
 */
import { Client, type ClientConfig } from 'pg';
import pgpass from 'pgpass';

/** What pg requests a password for. */
interface Connecting {
  readonly host: string;
  readonly port: number;
  readonly user: string;
  readonly database: string;
}

/** A function is called when the server requests a password; undefined where none is known. pg's types know only the value. */
interface WithPassword {
  password: string | ((connecting: Connecting) => Promise<string | undefined>) | null;
}

export class StoreClient extends Client {
  constructor(config?: string | ClientConfig) {
    super(config);
    const own = this as unknown as WithPassword;
    // PGPASSWORD comes first, as everywhere.
    own.password ??= (connecting) => new Promise((resolve) => pgpass(connecting, resolve));
  }
}
