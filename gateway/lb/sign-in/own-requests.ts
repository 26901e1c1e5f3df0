/**
 * Whether a request comes from a page of the endpoint's own origin, or from nobody's page (an address that was typed). The cookie alone does
 * not say it: the hosts of all endpoints are of one site, so SameSite does not keep their pages from sending it. Pure.
 */
import type { IncomingHttpHeaders } from 'node:http';

import type { Origin } from '../../http/forwarded.ts';

const READS: ReadonlySet<string> = new Set(['GET', 'HEAD']);

/** @param own - where the caller reached the endpoint. */
export function isOwnRequest(method: string, headers: IncomingHttpHeaders, own: Origin): boolean {
  const { origin, upgrade } = headers;
  if (origin !== undefined && !isAt(origin, own)) return false;
  const site = headers['sec-fetch-site'];
  if (site !== undefined) return site === 'same-origin' || (site === 'none' && READS.has(method));
  // Browsers say nothing of the site where the connection is neither encrypted nor local. A WebSocket always has an origin.
  return origin !== undefined || (upgrade === undefined && READS.has(method));
}

function isAt(origin: string, { scheme, authority }: Origin): boolean {
  const own = `${scheme}://${authority}`;
  return URL.canParse(origin) && URL.canParse(own) && new URL(origin).origin === new URL(own).origin;
}
