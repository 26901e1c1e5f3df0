/** Rules of the address of a PostgreSQL database. */
export const POSTGRES_SCHEME_RULE = 'must start with postgres://';
export const POSTGRES_PASSWORD_RULE = 'must not contain a password; use a password file and set PGPASSFILE to its path';
