/**
 * URLs of webhooks as they are kept and shown. Passwords, tokens and secret-looking parts of a URL are stored encrypted
 * and shown nowhere: a kept URL is the shown form alone, or the shown form, a space, and the encrypted whole.
 */

/** In the place of what is not shown. */
const HIDDEN = '***';
const SECRET_NAME = /token|secret|key|pass|pwd|sig|hmac|auth|cred|jwt|code|session|otp/i;
/** At least 16 characters with letters and digits: a word of a path or a value that people wrote is seldom that. */
const SECRET_VALUE = /^(?=.*[A-Za-z])(?=.*\d)[\w.~+/=-]{16,}$/;

/** A URL with its secrets hidden; the very same text when it has none. */
export function redactUrl(url: string): string {
  const parsed = URL.parse(url);
  if (parsed === null) return HIDDEN;
  const { username, password, protocol, host, pathname, search, hash } = parsed;
  const user = password !== '' ? `${username}:${HIDDEN}@` : username !== '' ? `${HIDDEN}@` : '';
  const path = pathname.split('/').map(hideValue).join('/');
  const query = search === '' ? '' : `?${search.slice(1).split('&').map(hideParameter).join('&')}`;
  const fragment = hash === '' ? '' : `#${HIDDEN}`;
  if (user === '' && path === pathname && query === search && fragment === '') return url;
  return `${protocol}//${user}${host}${path}${query}${fragment}`;
}

/** The shown form of a kept URL. Those of earlier versions were kept as they came. */
export function shownUrl(kept: string): string {
  const space = kept.indexOf(' ');
  return space === -1 ? redactUrl(kept) : kept.slice(0, space);
}

/** What is shown of a job's webhook; empty for a job without one. */
export function shownWebhook(kept: string | null): string {
  return kept === null ? '' : shownUrl(kept);
}

/** A URL to keep: the encrypted whole in base64 beside what is shown of it. */
export function keptUrl(shown: string, encrypted: string): string {
  return `${shown} ${encrypted}`;
}

/** The encrypted whole of a kept URL, base64; null when it is kept as it came. */
export function encryptedUrl(kept: string): string | null {
  const space = kept.indexOf(' ');
  return space === -1 ? null : kept.slice(space + 1);
}

function hideParameter(pair: string): string {
  const equals = pair.indexOf('=');
  if (equals === -1) return hideValue(pair);
  const name = pair.slice(0, equals);
  const value = pair.slice(equals + 1);
  return `${name}=${value !== '' && SECRET_NAME.test(decoded(name)) ? HIDDEN : hideValue(value)}`;
}

function hideValue(value: string): string {
  return SECRET_VALUE.test(decoded(value)) ? HIDDEN : value;
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // a percent sign that begins no code
  }
}
