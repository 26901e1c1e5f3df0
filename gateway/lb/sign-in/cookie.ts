/**
 * The cookie of a sign-in, on an endpoint's own host. Its name begins with `capstan_`, so it is never forwarded (shared-origin.ts). Pure.
 */
import type { Origin } from '../../http/forwarded.ts';

const NAME = 'capstan_endpoint';
/** Browsers keep a cookie with this prefix only if this very host set it over TLS: hosts of other endpoints cannot plant one. */
const PREFIX = '__Host-';

function nameOf({ scheme }: Origin): string {
  return scheme === 'https' ? `${PREFIX}${NAME}` : NAME;
}

/** Returns the cookie's value; undefined without one, and where there are several: another host may have set one of them. */
export function signInCookie(header: string | undefined, origin: Origin): string | undefined {
  if (header === undefined || !header.includes(NAME)) return undefined;
  const name = nameOf(origin);
  const values = header.split(';').flatMap((each) => {
    const at = each.indexOf('=');
    return at > 0 && each.slice(0, at).trim() === name ? [each.slice(at + 1).trim()] : [];
  });
  return values.length === 1 ? values[0] : undefined;
}

/** Returns the header Set-Cookie; with an empty token it deletes the cookie. */
export function setSignInCookie(token: string, origin: Origin, maxAgeS: number): string {
  const secure = origin.scheme === 'https' ? '; Secure' : '';
  return `${nameOf(origin)}=${token}; Path=/; HttpOnly; SameSite=Strict; Max-Age=${token === '' ? 0 : maxAgeS}${secure}`;
}
