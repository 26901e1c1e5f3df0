/**
 * Redirects in the path form. Many frameworks know no prefix and redirect to `/login`; a browser would take that for a path
 * of the gateway. As reverse proxies do, the gateway puts the endpoint's path before it, and so does the development server. Pure.
 */

/** The path under which an endpoint has its own paths; only the gateway and the development server say it. */
export const PREFIX_HEADER = 'x-forwarded-prefix';
/** Paths of endpoints: an application that names one has read its prefix, or means another endpoint. */
const ENDPOINTS = '/lb/';

/**
 * Returns the headers of a response whose `Location` leads below `prefix`, if it leads to this host. `flat`: names and
 * values alternate. `authority`: host and port of the request.
 */
export function withLocationBelow(flat: readonly string[], prefix: string, authority: string): string[] {
  const found = [...flat];
  for (let i = 0; i + 1 < found.length; i += 2)
    if (found[i]?.toLowerCase() === 'location') found[i + 1] = locationBelow(found[i + 1] ?? '', prefix, authority);
  return found;
}

function locationBelow(location: string, prefix: string, authority: string): string {
  // Two slashes, and what browsers read as such, begin a host.
  const [, origin = '', path = ''] = /^(https?:\/\/[^/\\?#]*)?(\/(?![/\\]).*)$/i.exec(location) ?? [];
  if (path === '' || path.startsWith(ENDPOINTS) || path === prefix || path.startsWith(`${prefix}/`)) return location;
  if (origin !== '' && origin.replace(/^https?:\/\//i, '').toLowerCase() !== authority.toLowerCase()) return location;
  return `${origin}${prefix}${path}`;
}
