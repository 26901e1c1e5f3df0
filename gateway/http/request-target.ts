/** The target of a request: its forms, brought to one. */
import type { IncomingMessage } from 'node:http';

const ABSOLUTE = /^https?:\/\/([^/?#]*)([^#]*)$/i;
/** A host, which may be an address in brackets, and maybe a port. */
const AUTHORITY = /^(?:\[[0-9a-f:.]+\]|[\w.~!$&'()*+,;=%-]+)(?::\d{0,5})?$/i;

/**
 * Rewrites a request in absolute form as if it had come in origin form. Its authority replaces the Host header, whatever
 * that says (RFC 9112, section 3.2.2): everything behind reads one host only, so that no two parts can disagree.
 * Returns what is wrong with the target, or null.
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
