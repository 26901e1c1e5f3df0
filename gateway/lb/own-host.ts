/**
 * Leads a browser that opens a page of an application in the path form to the endpoint's own host. A page in the path form is in
 * a sandbox (shared-origin.ts): to the browser its `fetch`, its modules, cookies and storage are those of another site. Pure.
 */
import type { IncomingHttpHeaders } from 'node:http';

import type { Endpoint } from '../directory/directory.ts';
import type { LbAddress } from '../http/lb-address.ts';
import type { Origin } from '../http/forwarded.ts';

/** Names that every system resolves to this machine. */
const LOCAL_DOMAIN = /(^|\.)localhost$/;
const LOOPBACK = /^(localhost|127(\.\d+){3}|\[::1\])$/i;
/** Browsers that resolve names below localhost themselves; others ask the system, which may not know them. */
const KNOWS_LOCALHOST = /(Chrome|Chromium|Firefox)\//;

export interface Navigation {
  readonly method: string | undefined;
  readonly headers: IncomingHttpHeaders;
  readonly address: LbAddress;
  readonly origin: Origin;
  /** CAPSTAN_LB_DOMAIN */
  readonly domain: string;
}

/** Returns the address of the same page on the endpoint's own host; undefined unless a browser opens it and finds that host. */
export function pageOnOwnHost(
  { method, headers, address, origin, domain }: Navigation,
  { id, routes, isPublic }: Pick<Endpoint, 'id' | 'routes' | 'isPublic'>,
): string | undefined {
  const isPage = method === 'GET' && headers['sec-fetch-dest'] === 'document' && headers['sec-fetch-mode'] === 'navigate';
  // Functions with routes have no pages of their own. Of an endpoint that requires a key, a redirect would say that it exists.
  if (!isPage || !address.pathForm || !isPublic || routes.length > 0 || address.endpointId !== id) return undefined;
  const [, host = '', port = ''] = /^(\[[^\]]*\]|[^:]*)(:\d+)?$/.exec(origin.authority) ?? [];
  if (LOCAL_DOMAIN.test(domain) && !(LOOPBACK.test(host) && KNOWS_LOCALHOST.test(headers['user-agent'] ?? ''))) return undefined;
  return `${origin.scheme}://${id}.${domain}${port}${address.target}`;
}
