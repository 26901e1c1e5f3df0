/**
 * Refuses requests to the console's API that the console's own pages did not make. The cookie alone is not sufficient: a browser also
 * sends it with requests of other hosts of the same site. Those cannot send the header without asking first, and browsers say where a
 * request comes from. Pure.
 */
import type { IncomingHttpHeaders } from 'node:http';

import { CapstanError } from '../../lib/errors.ts';
import type { Origin } from '../http/forwarded.ts';

/** The header that only the console sends. */
export const CONSOLE_HEADER = 'capstan-console';

const LOOPBACK = /^(localhost|127(\.\d{1,3}){3}|\[::1\])(:\d+)?$/i;

/**
 * @param own - where the gateway was called, and where the operator says that it is.
 * @throws CapstanError PERMISSION_DENIED
 */
export function checkConsoleRequest(headers: IncomingHttpHeaders, own: readonly Origin[]): void {
  if (headers[CONSOLE_HEADER] === undefined) throw refused('Capstan-Console', 'this header is required below /console/api');
  if (headers.authorization !== undefined)
    throw refused('Authorization', 'must be absent below /console/api; call the same path without it');
  const site = headers['sec-fetch-site'];
  if (site !== undefined && site !== 'same-origin') throw refused('Sec-Fetch-Site', 'must be same-origin');
  const { origin } = headers;
  if (origin !== undefined && !own.some((each) => isAt(origin, each)))
    throw refused(
      'Origin',
      "must be this gateway's; behind a proxy that changes the host, set CAPSTAN_PUBLIC_URL or CAPSTAN_TRUSTED_PROXIES",
    );
}

/** Whether the cookie is one of an encrypted page: a browser would not keep that for an unencrypted page of this host. */
export function isSecure({ scheme, authority }: Origin): boolean {
  return scheme === 'https' || !LOOPBACK.test(authority);
}

/**
 * Compares scheme, host and port. A page may be encrypted where the gateway sees a request that is not: a proxy that is not trusted
 * may have ended TLS. A page that is not encrypted is never one of a gateway that is: whoever is on the way can write it.
 */
function isAt(origin: string, { scheme, authority }: Origin): boolean {
  if (!URL.canParse(origin)) return false;
  const { protocol, host } = new URL(origin);
  if (protocol !== 'https:' && protocol !== `${scheme}:`) return false;
  const own = `${protocol}//${authority}`;
  return URL.canParse(own) && new URL(own).host === host;
}

function refused(field: string, rule: string): CapstanError {
  return new CapstanError('PERMISSION_DENIED', `${field}: ${rule}`, { field });
}
