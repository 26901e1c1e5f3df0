/** The cookie that holds the token of a session. Pure. */
import { CapstanError } from '../../lib/errors.ts';

/** Cookies with the prefix `capstan_`, with `__Host-` or not, are never forwarded to endpoints (gateway/lb/shared-origin.ts). */
const COOKIE = 'capstan_session';
/**
 * Browsers keep a cookie with this prefix only if this very host set it over TLS: pages of sibling hosts, whom the endpoints of all
 * accounts have, cannot plant one. They keep none for unencrypted pages.
 */
const PREFIX = '__Host-';

/** The path of the console as the browser sees it. */
const CONSOLE_PATH = /^(\/[\w.~-]+){0,16}\/console$/;
const MAX_PATH = 512;

/** The name of the cookie. `isSecure`: the page is encrypted, or must be. A cookie of the other name has no effect. */
function nameOf(isSecure: boolean): string {
  return isSecure ? `${PREFIX}${COOKIE}` : COOKIE;
}

/**
 * Returns the token in the header Cookie; undefined without one.
 * @throws CapstanError INVALID_ARGUMENT if several cookies have the name: another host may have set one of them.
 */
export function sessionToken(header: string | undefined, isSecure: boolean): string | undefined {
  const name = nameOf(isSecure);
  const values = (header ?? '').split(';').flatMap((each) => {
    const at = each.indexOf('=');
    return at > 0 && each.slice(0, at).trim() === name ? [each.slice(at + 1).trim()] : [];
  });
  if (values.length > 1)
    throw new CapstanError('INVALID_ARGUMENT', `Cookie: contains ${name} ${values.length} times; delete the cookies of this site`, {
      field: 'Cookie',
    });
  return values[0];
}

/**
 * Returns the header Set-Cookie. The prefix requires that the cookie is sent to the whole host. The cookie has no age: the browser forgets it when it closes, the scheduler after 12 hours without
 * use.
 * @param path - of the console, {@link consolePath}
 */
export function setCookie(token: string, path: string, isSecure: boolean): string {
  return `${nameOf(isSecure)}=${token}; Path=${isSecure ? '/; Secure' : path}; HttpOnly; SameSite=Strict`;
}

export function dropCookie(path: string, isSecure: boolean): string {
  return `${setCookie('', path, isSecure)}; Max-Age=0`;
}

/**
 * Returns the path that the header Capstan-Console names: only the page knows under which prefix a proxy serves it.
 * @throws CapstanError INVALID_ARGUMENT
 */
export function consolePath(header: string): string {
  if (header === '1') return '/console';
  if (header.length > MAX_PATH || !CONSOLE_PATH.test(header))
    throw new CapstanError('INVALID_ARGUMENT', 'Capstan-Console: must be 1 or the path of the console', { field: 'Capstan-Console' });
  return header;
}
