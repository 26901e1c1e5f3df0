/** Normalizes the target of a request to one form. */
import type { IncomingMessage } from 'node:http';

const ABSOLUTE = /^https?:\/\/([^/?#]*)([^#]*)$/i;
/** A host, or an address in brackets, with an optional port. */
const AUTHORITY = /^(?:\[[0-9a-f:.]+\]|[\w.~!$&'()*+,;=%-]+)(?::\d{0,5})?$/i;

/**
 * Rewrites a request in absolute form to origin form. Its authority replaces the Host header (RFC 9112, section 3.2.2),
 * so that all later code reads the same host. Returns what is wrong with the target, or null.
 */
export function rewriteAbsoluteTarget(request: IncomingMessage): string | null {
  const { url = '/', rawHeaders } = request;
  if (url.startsWith('/') || url === '*') return null;
  const [, authority = '', rest = ''] = ABSOLUTE.exec(url) ?? [];
  if (!AUTHORITY.test(authority)) return 'the request target must be a path, or an http URL with a host';
  request.url = rest.startsWith('/') ? rest : `/${rest}`;
  request.headers.host = authority;
  const at = rawHeaders.findIndex((name, index) => index % 2 === 0 && name.toLowerCase() === 'host');
  if (at === -1) rawHeaders.push('Host', authority);
  else rawHeaders[at + 1] = authority;
  return null;
}
