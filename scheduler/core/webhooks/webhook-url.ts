/**
 * URLs of webhooks as stored and shown. Passwords, tokens and parts of a URL that look like secrets are stored
 * encrypted and never shown. A stored URL is the shown form alone, or the shown form, a space, and the encrypted full
 * URL.
 */

/** Replaces hidden parts. */
const HIDDEN = '***';
const SECRET_NAME = /token|secret|key|pass|pwd|sig|hmac|auth|cred|jwt|code|session|otp/i;
/** At least 16 characters with letters and digits: words in paths and values written by people seldom match. */
const SECRET_VALUE = /^(?=.*[A-Za-z])(?=.*\d)[\w.~+/=-]{16,}$/;

/** Returns a URL with its secrets hidden; the same text if it has none. */
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

/** Returns the shown form of a stored URL. Earlier versions stored URLs unchanged. */
export function shownUrl(kept: string): string {
  const space = kept.indexOf(' ');
  return space === -1 ? redactUrl(kept) : kept.slice(0, space);
}

/** Returns the shown form of a job's webhook; empty for a job without one. */
export function shownWebhook(kept: string | null): string {
  return kept === null ? '' : shownUrl(kept);
}

/** Returns a URL to store: the shown form and the encrypted full URL in base64. */
export function keptUrl(shown: string, encrypted: string): string {
  return `${shown} ${encrypted}`;
}

/** Returns the encrypted full URL in a stored one, base64; null if the URL is stored unchanged. */
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
    return text; // A percent sign that starts no escape sequence.
  }
}
