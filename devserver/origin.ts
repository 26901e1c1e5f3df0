/**
 * Decides which requests reach the development server, which has no keys: a page of another site in the developer's
 * browser must neither call it (Origin) nor become its own site (Host, DNS rebinding). Pure.
 */
import { isIP } from 'node:net';
import type { IncomingHttpHeaders } from 'node:http';

export interface OriginRule {
  /** The server listens beyond loopback: any IP address is a name of it, which no DNS entry can become. */
  readonly isPublic: boolean;
  /** The name or address that it was told to listen on. */
  readonly host: string;
}

/** Returns why a request is refused, or null. */
export function originRefusal(headers: IncomingHttpHeaders, rule: OriginRule): string | null {
  const { host, origin } = headers;
  const name = nameOf(host);
  if (name === null || !isOwn(name, rule)) return `Host: must be localhost or a loopback address, not ${quoted(host)}`;
  if (origin !== undefined) {
    const page = URL.canParse(origin) ? nameOf(new URL(origin).host) : null;
    if (page === null || !(isLoopback(page) || page === name))
      return `Origin: pages of ${quoted(origin)} are not allowed to call this server`;
    return null;
  }
  // Requests of a page that send no Origin: images, scripts, forms with GET. A link that the user follows is none of them.
  const site = headers['sec-fetch-site'];
  if ((site === 'cross-site' || site === 'same-site') && headers['sec-fetch-mode'] !== 'navigate')
    return 'Sec-Fetch-Site: pages of other sites are not allowed to call this server';
  return null;
}

/** Returns the name in `name:port`, without brackets; null when it is neither a name nor an address. */
function nameOf(host: string | undefined): string | null {
  if (host === undefined || host === '' || /[\s/?#@\\]/.test(host)) return null;
  const url = `http://${host}`;
  return URL.canParse(url) ? new URL(url).hostname.replace(/^\[|\]$/g, '').replace(/\.$/, '') : null;
}

function isOwn(name: string, { isPublic, host }: OriginRule): boolean {
  return isLoopback(name) || (isPublic && (isIP(name) !== 0 || name === host.toLowerCase()));
}

/** `localhost` and names below it lead to loopback only (RFC 6761 section 6.3). */
function isLoopback(name: string): boolean {
  return name === 'localhost' || name.endsWith('.localhost') || name === '::1' || (isIP(name) === 4 && name.startsWith('127.'));
}

function quoted(text: string | undefined): string {
  return JSON.stringify((text ?? '').slice(0, 200));
}
