/** The address of the database, `postgres://user@host:port/database?options`, read with refusals that name what is wrong. */
import { readFileSync } from 'node:fs';
import type { ConnectionOptions } from 'node:tls';

import { CapstanError } from '../../../lib/errors.ts';
import { messageOf } from '../../../lib/to-error.ts';
import { POSTGRES_PASSWORD_RULE, POSTGRES_SCHEME_RULE } from '../../../lib/postgres-rules.ts';

export interface Address {
  readonly user: string;
  readonly host: string;
  readonly port: number;
  readonly database: string;
  /** Null: no TLS, on loopback or by a socket, or where the address says `sslmode=disable`. */
  readonly tls: ConnectionOptions | null;
  /** The address as it may be shown: it never held a password. */
  readonly shown: string;
}

const DEFAULT_PORT = 5432;
const OPTIONS = ['sslmode', 'sslrootcert', 'sslcert', 'sslkey', 'host'];
const LOOPBACK = /^(?:localhost|127(?:\.\d+){3}|::1|\[::1\])$/;

/**
 * @throws CapstanError CONFIG, naming `setting`. A password is refused: arguments and environments are shown to others;
 * it belongs into a file that `PGPASSFILE` names.
 */
export function parseAddress(text: string, setting: string): Address {
  const refused = (reason: string): CapstanError => new CapstanError('CONFIG', `${setting}: ${reason}`);
  let url: URL;
  try {
    url = new URL(text);
  } catch {
    throw refused('must be postgres://user@host:port/database');
  }
  if (url.protocol !== 'postgres:' && url.protocol !== 'postgresql:') throw refused(POSTGRES_SCHEME_RULE);
  if (url.password !== '') throw refused(POSTGRES_PASSWORD_RULE);
  for (const name of url.searchParams.keys()) {
    if (!OPTIONS.includes(name)) throw refused(`unknown option "${name}" (allowed: ${OPTIONS.join(', ')})`);
  }
  const database = decodeURIComponent(url.pathname.slice(1));
  if (database === '' || database.includes('/')) throw refused('must name one database after the host');
  if (url.username === '') throw refused('must name a user before the host');
  // A socket's folder cannot stand in the place of a host name.
  const host = url.searchParams.get('host') ?? url.hostname.replaceAll(/^\[|\]$/g, '');
  if (host === '') throw refused('must name a host');
  const user = decodeURIComponent(url.username);
  const port = url.port === '' ? DEFAULT_PORT : Number(url.port);
  const tls = tlsOf(url.searchParams, host, refused);
  return { user, host, port, database, tls, shown: `postgres://${user}@${host}:${port}/${database}` };
}

function tlsOf(options: URLSearchParams, host: string, refused: (reason: string) => CapstanError): ConnectionOptions | null {
  const isLocal = host.startsWith('/') || LOOPBACK.test(host);
  const mode = options.get('sslmode') ?? (isLocal ? 'disable' : 'verify-full');
  if (mode === 'disable') return null;
  if (!['require', 'verify-ca', 'verify-full'].includes(mode))
    throw refused(`sslmode must be disable, require, verify-ca or verify-full, not "${mode}"`);
  const file = (name: string): string | undefined => {
    const path = options.get(name);
    if (path === null) return undefined;
    try {
      return readFileSync(path, 'utf8');
    } catch (error) {
      throw refused(`${name} cannot be read: ${messageOf(error)}`);
    }
  };
  const [ca, cert, key] = [file('sslrootcert'), file('sslcert'), file('sslkey')];
  return {
    ...(ca === undefined ? {} : { ca }),
    ...(cert === undefined ? {} : { cert }),
    ...(key === undefined ? {} : { key }),
    rejectUnauthorized: mode !== 'require',
    // pg checks the host and sets the server's name, which must not be an IP address (RFC 6066).
    ...(mode === 'verify-full' ? {} : { checkServerIdentity: () => undefined }),
  };
}
